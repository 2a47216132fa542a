"""What a user sees when something is missing: one line that names the fix, an exit code, no traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_iceberg_compaction.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from airflow_iceberg_compaction.catalog import CatalogConfig

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


def write_policy(path: Path, table: str, *, uri: str, warehouse: str, kind: str = "sql", spark: str = "{}") -> str:
    path.write_text(
        "version: 1\n"
        "profile: development\n"
        f"catalog: {{name: lake, properties: {{type: {kind}, uri: '{uri}', warehouse: '{warehouse}'}}}}\n"
        f"documents: {path.parent}/documents\n"
        f"spark: {spark}\n"
        "history: off\n"
        f"tables: [{{name: {table}, orphan_files: {{mode: off}}}}]\n"
    )
    return str(path)


def one_line(capfd: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capfd.readouterr().err.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_table_that_does_not_exist(
    lake: CatalogConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    policy = write_policy(tmp_path / "p.yaml", "shop.nothing", **_where(lake))
    assert main([command, "shop.nothing", "--policy", policy]) == 2
    assert "table 'shop.nothing' does not exist in catalog 'lake'; check its name" in one_line(capfd)


@pytest.mark.parametrize("command", ["health", "plan", "run"])
def test_a_catalog_that_does_not_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str) -> None:
    policy = write_policy(tmp_path / "p.yaml", "shop.orders", uri="http://127.0.0.1:9", warehouse="x", kind="rest")
    assert main([command, "shop.orders", "--policy", policy]) == 3
    assert "catalog 'lake' (rest) does not answer" in one_line(capfd)


def test_a_jar_that_cannot_be_had_changes_nothing(
    lake: CatalogConfig, catalog: Catalog, namespace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = f"{namespace}.orders"
    table = catalog.create_table(name, ROWS.schema)
    for _ in range(6):
        table.append(ROWS)
    spark = "{packages: ['org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:99.0.0']}"
    policy = write_policy(tmp_path / "p.yaml", name, **_where(lake), spark=spark)

    assert main(["run", name, "--policy", policy]) == 3

    assert "could not download org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:99.0.0" in one_line(capfd)
    assert catalog.load_table(name).metadata == table.refresh().metadata


def test_without_java_the_demo_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["demo", "--folder", str(tmp_path / "demo")]) == 3
    assert "Java 17 or newer is needed" in one_line(capfd)
    assert not (tmp_path / "demo").exists()


def test_the_demo_never_empties_a_folder_it_did_not_make(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").touch()
    assert main(["demo", "--folder", str(tmp_path)]) == 2
    assert "is not empty and no demo made it" in one_line(capfd)
    assert (tmp_path / "precious").exists()


def _where(lake: CatalogConfig) -> dict[str, str]:
    return {"uri": lake.properties["uri"], "warehouse": lake.properties["warehouse"]}

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.policy.loader import load_policy

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def policy(lake: CatalogConfig, catalog: Catalog, namespace: str, tmp_path: Path) -> Path:
    for name in ("events", "users", "tmp_1"):
        catalog.create_table(f"{namespace}.{name}", SCHEMA)
    path = tmp_path / "maintenance.yaml"
    path.write_text(
        f"""\
version: 1
catalog: {{name: {lake.name}, properties: {json.dumps(dict(lake.properties))}}}
tables:
  - name: "{namespace}.*"
    exclude: ["{namespace}.tmp_*"]
"""
    )
    return path


def test_write_lists_the_tables_of_a_pattern_so_that_the_policy_loads_without_the_catalog(
    policy: Path, namespace: str, catalog: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "--policy", str(policy), "--check"]) == 1, "nothing is listed yet"
    assert main(["tables", "--policy", str(policy), "--write"]) == 0
    assert main(["validate", str(policy)]) == 0
    assert main(["tables", "--policy", str(policy), "--check"]) == 0
    assert [table.name for table in load_policy(policy).tables] == [f"{namespace}.events", f"{namespace}.users"]
    catalog.create_table(f"{namespace}.orders", SCHEMA)
    capsys.readouterr()
    assert main(["tables", "--policy", str(policy), "--check", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["stale"] is True
    assert document["patterns"] == {f"{namespace}.*": [f"{namespace}.{name}" for name in ("events", "orders", "users")]}


def test_a_pattern_may_range_over_namespaces(policy: Path, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text(policy.read_text().replace(f'name: "{namespace}.*"', 'name: "ns*.events"'))
    assert main(["tables", "--policy", str(policy), "--json"]) == 0
    assert f"{namespace}.events" in json.loads(capsys.readouterr().out)["patterns"]["ns*.events"]


def test_a_namespace_that_does_not_exist_is_said(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\n" + policy.read_text().splitlines()[1] + "\ntables: [{name: nowhere.*}]\n")
    assert main(["tables", "--policy", str(policy), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["patterns"] == {"nowhere.*": []}
    assert "nowhere does not exist" in err


def test_a_dead_catalog_is_an_error_and_leaves_the_companion_alone(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "--policy", str(policy), "--write"]) == 0
    companion = policy.with_name("maintenance.tables.yaml")
    before = companion.read_text()
    lines = policy.read_text().splitlines()
    lines[1] = "catalog: {name: lake, properties: {type: rest, uri: 'http://127.0.0.1:9'}}"
    policy.write_text("\n".join(lines))
    assert main(["tables", "--policy", str(policy), "--write"]) == 3
    assert "does not answer" in capsys.readouterr().err
    assert companion.read_text() == before

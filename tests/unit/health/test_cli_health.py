from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.cli.health import sparkline

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "region", StringType(), required=False)
)


@pytest.fixture
def policy(tmp_path: Path, lake: CatalogConfig, catalog: Catalog, namespace: str) -> Path:
    """Three tables: a sick one, a healthy one, an empty one."""
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    for name, appends in (("sick", 4), ("well", 1), ("empty", 0)):
        table = catalog.create_table(f"{namespace}.{name}", SCHEMA, partition_spec=spec)
        for _ in range(appends):
            rows = {"id": [1, 2, 3], "region": ["eu", "eu", None]}
            table.append(pa.table(rows, schema=table.schema().as_arrow()))
    path = tmp_path / "policy.yaml"
    document = {
        "version": 1,
        "catalog": {"name": lake.name, "properties": dict(lake.properties)},
        "documents": str(tmp_path / "documents"),
        "defaults": {"thresholds": {"min_small_files": 3}},
        "tables": [{"name": f"{namespace}.{name}"} for name in ("well", "empty", "sick")],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def output(policy: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["health", "--policy", str(policy), *arguments])
    return code, capsys.readouterr().out


def as_json(policy: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, text = output(policy, capsys, "--json", *arguments)
    return code, json.loads(text)["tables"]


def test_a_fleet_is_shown_worst_first(policy: Path, capsys: pytest.CaptureFixture[str], namespace: str) -> None:
    code, tables = as_json(policy, capsys)
    assert code == 1
    assert [(table["table"], table["verdict"]) for table in tables] == [
        (f"{namespace}.sick", "sick"),
        (f"{namespace}.well", "healthy"),
        (f"{namespace}.empty", "empty"),
    ]
    sick = tables[0]
    assert (sick["data_files"], sick["small_files"], sick["partitions_sick"]) == (8, 8, 2)
    assert sick["metadata"]["snapshots"] == 4
    worst = sick["partitions"][0]
    assert (worst["type"], worst["data_files"], worst["partition"]) == ("minor", 4, {"region": "eu"})


def test_healthy_tables_end_in_success(policy: Path, capsys: pytest.CaptureFixture[str], namespace: str) -> None:
    code, _ = as_json(policy, capsys, f"{namespace}.well", f"{namespace}.empty")
    assert code == 0


def test_the_second_look_comes_from_the_cache(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, first = as_json(policy, capsys)
    _, second = as_json(policy, capsys)
    _, uncached = as_json(policy, capsys, "--no-cache")
    assert [table["stage"] for table in first] == [1, 1, 0]
    assert [table["stage"] for table in second] == [0, 0, 0]
    assert uncached[0]["manifests_read"] == 4
    assert [table["partitions"] for table in first] == [table["partitions"] for table in uncached]


def test_people_see_one_line_per_table_and_partitions_when_they_ask(
    policy: Path, capsys: pytest.CaptureFixture[str], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, fleet = output(policy, capsys)
    assert "2 of 2 partitions: 2 minor" in fleet
    assert "region=eu" not in fleet
    assert len(fleet.strip().splitlines()) == 4
    _, one = output(policy, capsys, f"{namespace}.sick")
    assert "region=eu" in one
    assert "region=null" in one
    _, every = output(policy, capsys, "--partitions")
    assert every.count("region=eu") == 2


def test_a_table_that_is_not_there_does_not_hide_the_others(
    policy: Path, capsys: pytest.CaptureFixture[str], namespace: str
) -> None:
    document = json.loads(policy.read_text(encoding="utf-8"))
    document["tables"].append({"name": f"{namespace}.gone"})
    policy.write_text(json.dumps(document), encoding="utf-8")
    code, tables = as_json(policy, capsys)
    assert code == 1
    assert len(tables) == 4
    assert (tables[0]["table"], tables[0]["verdict"]) == (f"{namespace}.gone", "cannot_judge")


def test_a_branch_that_is_not_there_is_not_healthy(
    policy: Path, capsys: pytest.CaptureFixture[str], namespace: str
) -> None:
    code, [table] = as_json(policy, capsys, f"{namespace}.well", "--branch", "audit")
    assert (code, table["verdict"], table["reason"]) == (1, "cannot_judge", "the table has no branch 'audit'")


def test_a_table_outside_the_policy_is_a_usage_error(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--policy", str(policy), "no.such"]) == 2
    assert "is not in" in capsys.readouterr().err


def test_bars_show_where_the_files_are() -> None:
    assert sparkline({}) == " " * 15
    assert sparkline({3: 1}) == "█" + " " * 14
    assert sparkline({16: 8, 20: 1, 40: 4}) == "█   ▁         ▄"

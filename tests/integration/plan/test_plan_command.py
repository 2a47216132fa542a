from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_iceberg_compaction.cli import main
from airflow_iceberg_compaction.documents import Plan

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_iceberg_compaction.catalog import CatalogConfig

POLICY = """\
version: 1
catalog:
  name: lake
  properties: {properties}
history: null
defaults:
  thresholds:
    min_small_files: 3
  rewrite:
    min_quiet: 0s
    min_input_files: 2
    max_files: 7
tables:
  - name: {table}
"""


@pytest.fixture
def policy(
    lake: CatalogConfig, catalog: Catalog, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A table with five files for eu, four for us and one for asia, under a policy."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType

    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    table = catalog.create_table(f"{namespace}.events", schema, partition_spec=spec)
    for region, files in (("eu", 5), ("us", 4), ("asia", 1)):
        for number in range(files):
            table.append(pa.table({"id": [number], "region": [region]}))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.format(properties=json.dumps(dict(lake.properties)), table=f"{namespace}.events"))
    return file


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["plan", *arguments]) == code
    return capsys.readouterr().out


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> Plan:
    return Plan.from_json(call(capsys, "--json", *arguments))


def decided(found: Plan) -> dict[str, tuple[str, str]]:
    return {row.partition["region"]: (row.decision, row.reason) for row in found.rewrite.partitions}


def test_json_is_the_plan_document(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(capsys, "--policy", str(policy))
    assert decided(found) == {
        "eu": ("rewrite", "small_files"),
        "us": ("defer", "budget_files"),
        "asia": ("skip", "healthy"),
    }
    assert found.dry_run


def test_people_see_what_is_done_what_waits_and_what_it_costs(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(call(capsys, "--policy", str(policy)).split())
    for expected in (
        "region=eu",
        "budget_files",
        "left alone: 1 healthy",
        "cost: ",
        "prices.reads_per_day",
        "become 1",
    ):
        assert expected in shown


def test_parameters_change_the_plan_and_are_recorded(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(capsys, "--policy", str(policy), "--max-files", "20", "--partition-filter", "region = 'us'")
    assert decided(found) == {
        "us": ("rewrite", "small_files"),
        "eu": ("skip", "not_selected"),
        "asia": ("skip", "not_selected"),
    }
    assert found.parameters == {"max_files": 20, "partition_filter": "region = 'us'", "dry_run": True}


@pytest.mark.parametrize("name", ["region=us", "region = 'us'"])
def test_explain_shows_every_rule_and_the_line_that_set_it(
    policy: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (explained,) = json.loads(call(capsys, "--policy", str(policy), "--explain", name, "--json"))
    rules: dict[str, Any] = {rule["rule"]: rule for rule in explained["rules"]}
    assert (explained["decision"], explained["reason"]) == ("defer", "budget_files")
    assert rules["enough small files"] == {
        "rule": "enough small files",
        "passed": True,
        "numbers": "4 of 4 below 64,000,000 bytes, from 3",
        "setting": "thresholds.min_small_files",
        "set_in": "policy.yaml:8",
    }
    assert (rules["the run's budget"]["passed"], rules["the run's budget"]["set_in"]) == (False, "policy.yaml:12")
    assert rules["enough delete files"]["passed"] is False


def test_explain_prints_a_table_for_people(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(call(capsys, "--policy", str(policy), "--explain", "region=eu").split())
    assert "region=eu rewrite small_files" in shown
    assert "policy.yaml:8" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--explain", "region=mars"), "no partition"),
        (("--max-files", "0"), "max_files: '0' is not a whole number"),
        (("--partition-filter", "planet = 'mars'"), "not partitioned by 'planet'"),
        (("no.such",), "is not in"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    policy: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["plan", "--policy", str(policy), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from maintained import maintained_by
from random_tables import Iceberg, iterate

from airflow_iceberg_compaction.health.model import PartitionField, Spec
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.predicate import partitions_filter

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_iceberg_compaction.catalog import CatalogConfig

pytestmark = pytest.mark.spark

HOSTILE = (
    "'; DROP TABLE x --",
    "it's",
    '"quoted"',
    "back\\slash\\",
    "nul\0inside",
    "\U0001f9ca\u200d\U0001f525",
    "x" * 200,
    "a/b=c",
    "%2F..",
    "",
    " ",
    "null",
    "__HIVE_DEFAULT_PARTITION__",
    "line\nbreak\ttab",
    "e\u0301",  # not the same value as the next one, however equal they look
    "\u00e9",
)


def test_a_hostile_partition_value_compacts_exactly_its_own_partition(
    iceberg: Iceberg, lake: CatalogConfig, namespace: str, tmp_path: Path
) -> None:
    name = f"{namespace}.hostile"
    spark = iceberg.spark
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, who STRING) USING iceberg PARTITIONED BY (who)")
    rows = [(number, value) for number, value in enumerate((*HOSTILE, None))]
    for _ in range(2):
        spark.createDataFrame(rows, "id BIGINT, who STRING").coalesce(1).writeTo(f"lake.{name}").append()
    before = sorted(map(repr, spark.table(f"lake.{name}").collect()))
    run = maintained_by(
        iceberg, lake, name, tmp_path, thresholds={"min_small_files": 2}, rewrite={"min_input_files": 2}
    )
    files = files_by_value(iceberg, name)
    for value in (*HOSTILE, None):
        plan = run.plan(RunParameters(), selected=frozenset({(0, (value,))}))
        (batch,) = plan.rewrite.batches
        java = iceberg.load(name)
        options = {key: text for key, text in batch.options.items() if key != "use-starting-sequence-number"}
        groups = iceberg.plan(java, iceberg.expression(json.dumps(batch.filter), java), options)
        assert sorted(path for paths, _ in groups for path in paths) == sorted(files[value]), repr(value)
        assert batch.input_files == 2
    plan = run.plan(RunParameters(), selected=frozenset({(0, (HOSTILE[0],))}))
    run.carry_out(plan)
    after = files_by_value(iceberg, name)
    assert {value for value in files if set(files[value]) != set(after[value])} == {HOSTILE[0]}
    assert len(after[HOSTILE[0]]) == 1
    run.carry_out(run.plan())
    assert {len(paths) for paths in files_by_value(iceberg, name).values()} == {1}
    assert sorted(map(repr, spark.table(f"lake.{name}").collect())) == before


def files_by_value(iceberg: Iceberg, name: str) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for value, path in iceberg.spark.sql(f"SELECT partition.who, file_path FROM lake.{name}.files").collect():
        found.setdefault(value, []).append(path)
    return found


@pytest.mark.parametrize("shape", ["scattered", "pairs"])
def test_a_filter_of_five_thousand_partitions_binds_in_java(iceberg: Iceberg, namespace: str, shape: str) -> None:
    name = f"{namespace}.wide_{shape}"
    iceberg.spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, ts TIMESTAMP, who STRING) USING iceberg")
    fields = (
        PartitionField(name="h", transform="hour", source_name="ts", source_type="timestamptz", result_type="int"),
        PartitionField(name="who", transform="identity", source_name="who", source_type="string", result_type="string"),
    )
    if shape == "scattered":  # no two hours are neighbours, so that every one is a range of its own
        spec, tuples = Spec(spec_id=0, fields=fields[:1]), [(2 * hour,) for hour in range(5000)]
    else:  # no two tuples share a field
        spec, tuples = Spec(spec_id=0, fields=fields), [(2 * n, f"w{n}") for n in range(5000)]
    java = iceberg.load(name)
    expression = iceberg.expression(json.dumps(partitions_filter(spec, tuples)), java)
    binder = iceberg.jvm.org.apache.iceberg.expressions.Binder
    assert binder.bind(java.schema().asStruct(), expression, False) is not None
    assert len(list(iterate(java.newScan().filter(expression).planFiles()))) == 0

"""Every trigger has an end: after a plan was carried out by the real job, the same partitions ask for nothing."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from maintained import Maintained, maintained_by
from random_tables import Iceberg

from airflow_iceberg_compaction.plan.parameters import RunParameters

if TYPE_CHECKING:
    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.documents import Plan

pytestmark = pytest.mark.spark

KB = 1000
WEEK_MS = 7 * 24 * 3_600_000


class Bench:
    """Makes small tables by Spark and puts them under a policy."""

    def __init__(self, iceberg: Iceberg, lake: CatalogConfig, namespace: str, folder: Path) -> None:
        self.iceberg, self.spark, self.lake = iceberg, iceberg.spark, lake
        self.namespace, self.folder = namespace, folder

    def table(self, *, appends: int = 6, rows: int = 400, by: str = "bucket(2, id)", **properties: str) -> str:
        name = f"{self.namespace}.t{uuid.uuid4().hex[:6]}"
        settings = {
            "format-version": "2",
            "write.delete.mode": "merge-on-read",
            "write.distribution-mode": "hash",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()},
        }
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in settings.items())
        clause = f"PARTITIONED BY ({by})" if by else ""
        self.spark.sql(
            f"CREATE TABLE lake.{name} (id BIGINT, d DATE, x STRING) USING iceberg {clause} TBLPROPERTIES ({listed})"
        )
        for number in range(appends):
            self.append(name, rows, number)
        return name

    def append(self, name: str, rows: int, number: int = 0) -> None:
        frame = self.spark.range(number * rows, (number + 1) * rows, numPartitions=1).selectExpr(
            "id", "date_add(DATE '2024-01-01', CAST(id % 3 AS INT)) AS d", "hex(xxhash64(id)) AS x"
        )
        frame.writeTo(f"lake.{name}").append()

    def delete(self, name: str, condition: str) -> None:
        self.spark.sql(f"DELETE FROM lake.{name} WHERE {condition}")

    def equality_delete(self, name: str, ids: list[int], partition: str) -> None:
        """As Flink would; Spark writes none."""
        import pyarrow as pa
        from pyarrow import parquet

        path = self.folder / f"eq-{uuid.uuid4().hex}.parquet"
        column = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        parquet.write_table(pa.table([pa.array(ids, pa.int64())], schema=pa.schema([column])), path)
        table = self.iceberg.load(name)
        field_ids = self.spark.sparkContext._gateway.new_array(self.iceberg.jvm.int, 1)
        field_ids[0] = 1
        builder = self.iceberg.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        builder = builder.ofEqualityDeletes(field_ids).withPath(f"file:{path}").withFormat("parquet")
        builder = (
            builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(ids)).withPartitionPath(partition)
        )
        table.newRowDelta().addDeletes(builder.build()).commit()

    def under(self, name: str, **settings: Any) -> Maintained:
        thresholds = {"small_file_size": 500 * KB, "min_small_files": 3, "delete_files": 2, "delete_ratio": 0.1}
        rewrite = {"target_file_size": 1000 * KB, "min_input_files": 2}
        return maintained_by(
            self.iceberg,
            self.lake,
            name,
            self.folder,
            thresholds=thresholds | settings.pop("thresholds", {}),
            rewrite=rewrite | settings.pop("rewrite", {}),
            **settings,
        )

    def rows(self, name: str) -> list[Any]:
        return self.spark.sql(f"SELECT * FROM lake.{name} ORDER BY id").collect()


@pytest.fixture
def bench(iceberg: Iceberg, lake: CatalogConfig, namespace: str, tmp_path: Path) -> Bench:
    return Bench(iceberg, lake, namespace, tmp_path)


def reaches_its_end(bench: Bench, table: Maintained, reason: str, parameters: RunParameters | None = None) -> Plan:
    """Plan, carry out, plan again: the prediction was right, no row changed, and nothing is left to do."""
    name = table.policy.name
    rows = bench.rows(name)
    plan = table.plan(parameters)
    assert {row.reason for row in plan.rewrite.partitions if row.decision == "rewrite"} == {reason}
    result = table.carry_out(plan)
    (step,) = (step for step in result.steps if step.section == "rewrite")
    assert [batch.drift for batch in step.batches] == [""] * len(plan.rewrite.batches)
    assert sum(batch.output_files for batch in step.batches) == plan.rewrite.output_files
    again = table.plan()
    assert not again.has_work("rewrite"), [row for row in again.rewrite.partitions if row.decision == "rewrite"]
    assert not again.has_work("delete_files"), again.delete_files
    assert bench.rows(name) == rows
    return again


def test_small_files(bench: Bench) -> None:
    again = reaches_its_end(bench, bench.under(bench.table()), "small_files")
    assert again.outcome == "healthy"


def test_small_files_of_days_joined_to_a_range(bench: Bench) -> None:
    reaches_its_end(bench, bench.under(bench.table(by="days(d)")), "small_files")


def test_small_files_of_an_unpartitioned_table_sorted(bench: Bench) -> None:
    table = bench.under(bench.table(by=""), rewrite={"sort_order": ("id desc",)})
    reaches_its_end(bench, table, "small_files", RunParameters(strategy="sort"))


def test_files_that_stay_small_because_there_are_few_bytes(bench: Bench) -> None:
    """One target file would do, and it is small: that alone must not call for the next rewrite."""
    table = bench.under(bench.table(appends=3), thresholds={"min_small_files": 1}, rewrite={"min_input_files": 1})
    reaches_its_end(bench, table, "small_files")


def test_equality_deletes(bench: Bench) -> None:
    name = bench.table(appends=2, rows=4000)
    for bucket in (0, 1):
        for ids in ([1, 2, 3], [5, 6, 7]):
            bench.equality_delete(name, ids, f"id_bucket={bucket}")
    again = reaches_its_end(bench, bench.under(name), "delete_files")
    assert again.before.delete_files == 0


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes(bench: Bench, granularity: str) -> None:
    name = bench.table(appends=2, write__delete__granularity=granularity)
    bench.delete(name, "id % 7 = 0")
    bench.delete(name, "id % 7 = 1")
    reaches_its_end(bench, bench.under(name), "delete_files")


@pytest.mark.parametrize("version", ["2", "3"])
def test_many_deletes_for_each_file(bench: Bench, version: str) -> None:
    name = bench.table(appends=1, format_version=version)
    bench.delete(name, "id % 7 = 0")
    reaches_its_end(bench, bench.under(name, thresholds={"delete_files": 50}), "delete_ratio")


def test_a_full_rewrite_that_is_due(bench: Bench) -> None:
    table = bench.under(
        bench.table(appends=2), thresholds={"min_small_files": 50}, rewrite={"full_every": timedelta(days=7)}
    )
    table.clock_ms += WEEK_MS
    plan = table.plan()
    assert {row.reason for row in plan.rewrite.partitions} == {"full_every"}
    table.clock_ms = 0
    table.carry_out(dataclasses.replace(plan, created_at_ms=table.plan().created_at_ms))
    assert not table.plan().has_work("rewrite")


def test_files_of_a_former_spec(bench: Bench) -> None:
    name = bench.table(appends=2, by="days(d)")
    bench.spark.sql(f"ALTER TABLE lake.{name} REPLACE PARTITION FIELD d_day WITH months(d)")
    bench.append(name, 400, 9)
    table = bench.under(name, rewrite={"old_specs": True})
    rows = bench.rows(name)
    plan = table.plan()
    assert "old_spec" in {row.reason for row in plan.rewrite.partitions}
    table.carry_out(plan)
    again = table.plan()
    assert not again.has_work("rewrite")
    assert {row.spec_id for row in again.rewrite.partitions} == {1}
    assert bench.rows(name) == rows


def test_many_manifests(bench: Bench) -> None:
    name = bench.table(appends=4, commit__manifest__min_count_to_merge="100")
    table = bench.under(name, rewrite={"enabled": False}, manifests={"min_manifests": 3, "max_ratio": 1.5})
    plan = table.plan()
    assert plan.has_work("manifests")
    table.carry_out(plan)
    assert not table.plan().has_work("manifests")

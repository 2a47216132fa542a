"""An engine that harms rows must never get its files published."""

from __future__ import annotations

import dataclasses
import uuid

import pytest
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

COLUMNS = "id bigint, name string, price double, other double"


def drop_a_row(rows):
    return rows.where("id <> 17")


def duplicate_a_row(rows):
    return rows.union(rows.where("id = 17"))


def change_an_inner_value(rows):
    return rows.withColumn("price", F.when(F.col("id") == 17, F.lit(20.25)).otherwise(F.col("price")))


def change_the_largest_value(rows):
    return rows.withColumn("price", F.when(F.col("id") == 299, F.lit(1e9)).otherwise(F.col("price")))


def null_a_column(rows):
    return rows.withColumn("name", F.lit(None).cast("string"))


def null_one_value(rows):
    return rows.withColumn("name", F.when(F.col("id") != 17, F.col("name")))


def truncate_a_string(rows):
    return rows.withColumn("name", F.when(F.col("id") == 17, F.substring("name", 1, 18)).otherwise(F.col("name")))


def swap_two_columns(rows):
    return rows.select("id", "name", F.col("other").alias("price"), F.col("price").alias("other"))


def swap_two_rows_values(rows):
    swapped = F.when(F.col("id") == 17, F.lit(18)).when(F.col("id") == 18, F.lit(17)).otherwise(F.col("id"))
    return rows.withColumn("id", swapped.cast("bigint"))


# sabotage -> the laws of the default audit that catch it; an empty set: only a checksum can.
CAUGHT = {
    drop_a_row: {"rows", "value_counts"},
    duplicate_a_row: {"rows", "value_counts"},
    change_an_inner_value: set(),
    change_the_largest_value: {"upper_bounds"},
    null_a_column: {"null_counts", "lower_bounds", "upper_bounds"},
    null_one_value: {"null_counts"},
    truncate_a_string: set(),
    swap_two_columns: {"lower_bounds", "upper_bounds"},
    swap_two_rows_values: set(),
}


class Saboteur:
    """Writes through Spark like Iceberg's own runner, with the rows bent on the way."""

    def __init__(self, gateway, table, bend) -> None:
        self.gateway, self.table, self.bend = gateway, table, bend

    def rewrite(self, group):
        jvm, spark = self.gateway._jvm, self.gateway.spark
        self.gateway.activate(spark._jsparkSession)
        name = str(uuid.uuid4())
        cache = self.gateway._static("org.apache.iceberg.spark.SparkTableCache", "get")
        tasks = jvm.org.apache.iceberg.spark.ScanTaskSetManager.get()
        coordinator = jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
        cache.add(name, self.table.java)
        tasks.stageTasks(self.table.java, name, group.java.fileScanTasks())
        try:
            rows = spark.read.format("iceberg").option("scan-task-set-id", name).load(name)
            writer = self.bend(rows).coalesce(1).write.format("iceberg").mode("append")
            writer.option("rewritten-file-scan-task-set-id", name).save(name)
            return coordinator.fetchNewFiles(self.table.java, name)
        finally:
            cache.remove(name)
            tasks.removeTasks(self.table.java, name)
            coordinator.clearRewrite(self.table.java, name)


def sabotaged(bend):
    def configure(context):
        return dataclasses.replace(
            context, engine=lambda gateway, table, section, options: Saboteur(gateway, table, bend)
        )

    return configure


@pytest.fixture
def victim(on_lake):
    table = on_lake.create(COLUMNS)
    for number in range(3):
        on_lake.spark.range(number * 100, number * 100 + 100, numPartitions=1).selectExpr(
            "id", "concat('a name with enough text ', id)", "id * 0.5D", "1000 + id * 0.25D"
        ).toDF("id", "name", "price", "other").writeTo(f"lake.{table}").append()
    return table


@pytest.mark.parametrize("audit", ["metadata", "checksum"])
@pytest.mark.parametrize("bend", CAUGHT, ids=lambda bend: bend.__name__)
def test_sabotage_is_caught_before_publish(on_lake, victim, bend, audit) -> None:
    if audit == "metadata" and not CAUGHT[bend]:
        pytest.skip("only a checksum can see it, see docs/audit.md")
    before, head = on_lake.rows(victim), on_lake.iceberg(victim).head().snapshot_id
    code, result = on_lake.run(on_lake.plan(victim, rewrite={"audit": audit}), configure=sabotaged(bend))
    step = on_lake.step(result)
    broken = {law.name for law in step.laws if law.verdict == "violated"}
    assert (code, step.outcome) == (1, "failed")
    assert broken == CAUGHT[bend] | {"checksum"}
    assert {law.checked for law in step.laws} == {"before_publish"}
    assert "nothing was published" in step.reason
    assert on_lake.iceberg(victim).head().snapshot_id == head
    assert on_lake.rows(victim) == before
    assert list((on_lake.data_folder(victim) / "compacted").rglob("*.parquet")) == []


def test_nothing_else_is_done_to_a_table_after_a_violated_law(on_lake, victim) -> None:
    from airflow_iceberg_compaction.documents import ManifestsSection

    plan = on_lake.plan(victim, manifests=ManifestsSection(rewrite=True, spec_ids=(0,)))
    _, result = on_lake.run(plan, configure=sabotaged(drop_a_row))
    assert on_lake.step(result, "manifests").outcome == "refused"
    assert "rewrite violated a law" in result.error


def test_an_honest_engine_of_the_same_make_is_published(on_lake, victim) -> None:
    before = on_lake.rows(victim)
    code, _ = on_lake.run(on_lake.plan(victim, rewrite={"audit": "checksum"}), configure=sabotaged(lambda rows: rows))
    assert code == 0
    assert on_lake.files(victim) == 1
    assert on_lake.rows(victim) == before


def test_loose_statistics_of_an_input_are_settled_by_a_checksum(on_lake, victim) -> None:
    """Another writer's bounds may be wider than its data; that alone must not fail a good rewrite."""
    java, iceberg = on_lake.iceberg(victim).java, on_lake.spark._jvm.org.apache.iceberg
    import json

    parser = iceberg.ContentFileParser
    task = next(iter(java.newScan().includeColumnStats().planFiles().iterator().next() for _ in range(1)))
    document = json.loads(parser.toJson(task.file(), java.spec()))
    position = document["lower-bounds"]["keys"].index(1)
    document["lower-bounds"]["values"][position] = (-5000).to_bytes(8, "little", signed=True).hex()
    node = iceberg.util.JsonUtil.mapper().readTree(json.dumps(document))
    loose = parser.fromJson(node, java.spec())
    java.newOverwrite().deleteFile(task.file()).commit()
    java.newAppend().appendFile(loose).commit()
    before = on_lake.rows(victim)
    code, result = on_lake.run(on_lake.plan(victim))
    step = on_lake.step(result)
    assert (code, step.outcome) == (0, "succeeded"), step.reason
    assert on_lake.rows(victim) == before
    (law,) = [law for law in step.laws if law.name == "lower_bounds"]
    assert "not exact" in law.detail


def test_row_ids_that_are_lost_are_caught_before_publish(on_lake) -> None:
    if on_lake.spark.version < "4.1":
        pytest.skip("before Spark 4.1 Iceberg itself refuses to write rows without their ids")
    table = on_lake.create(format_version="3")
    on_lake.fill(table)
    head = on_lake.iceberg(table).head()
    plan = on_lake.plan(table, rewrite={"audit": "checksum"})
    code, result = on_lake.run(
        plan, configure=sabotaged(lambda rows: rows.drop("_row_id", "_last_updated_sequence_number"))
    )
    step = on_lake.step(result)
    assert code == 1
    assert {law.name for law in step.laws if law.verdict == "violated"} == {"row_lineage"}, step.reason
    assert on_lake.iceberg(table).head() == head

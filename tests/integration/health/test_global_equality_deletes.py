"""Equality deletes without a partition, after the table got partitions: why health reports them on their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from random_tables import Iceberg, iterate

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.details import read_details
from airflow_iceberg_compaction.policy.model import TablePolicy

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_they_apply_and_iceberg_does_not_take_them_for_dangling(
    iceberg: Iceberg, spark: SparkSession, catalog: Catalog, namespace: str
) -> None:
    name = f"{namespace}.global_deletes"
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, p STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    unpartitioned = iceberg.load(name).spec()
    spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD p")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1, 'a'), (2, 'b')")
    table = iceberg.load(name)
    table.newRowDelta().addDeletes(equality_delete(iceberg, table, unpartitioned)).commit()

    loaded = catalog.load_table(name)
    health = assess(loaded, TablePolicy(name=name), catalog_name="lake", table_name=name, now_ms=0)
    assert health.global_equality_delete_files == 1
    assert sum(partition.dangling_delete_files for partition in health.partitions) == 0
    keys = [(partition.spec_id, partition.partition) for partition in health.partitions]
    details = read_details(loaded, health, keys)
    assert {file.attached_delete_files for detail in details.values() for file in detail.files} == {1}

    actions = iceberg.jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)
    removed = list(iterate(actions.removeDanglingDeleteFiles(iceberg.load(name)).execute().removedDeleteFiles()))
    assert removed == []  # releases before 1.12 dropped them, and the rows came back


def equality_delete(iceberg: Iceberg, table: Any, spec: Any) -> Any:
    ids = iceberg.spark.sparkContext._gateway.new_array(iceberg.jvm.int, 1)
    ids[0] = 1
    builder = iceberg.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(ids)
    builder = builder.withPath(f"{table.location()}/data/deletes.parquet").withFormat("PARQUET")
    return builder.withFileSizeInBytes(100).withRecordCount(1).build()

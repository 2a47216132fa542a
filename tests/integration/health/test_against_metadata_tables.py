"""Our numbers against Iceberg's own `files`, `delete_files` and `entries` tables, on randomised tables.

HEALTH_TABLES sets how many tables are compared.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from random_tables import Iceberg, Pool, RandomTables, iterate

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.avro import AvroFile
from airflow_iceberg_compaction.health.cache import ManifestCache
from airflow_iceberg_compaction.health.details import read_details
from airflow_iceberg_compaction.health.model import NAN, PartitionField, PartitionHealth, TableHealth
from airflow_iceberg_compaction.policy.model import TablePolicy, Thresholds

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

TABLES = int(os.environ.get("HEALTH_TABLES", "40"))
SMALL = 3000
PATH_COLUMN = 2147483546
EPOCH = dt.datetime(1970, 1, 1)

Key = tuple[int, tuple[Any, ...]]


def judged(catalog: Catalog, name: str, cache: ManifestCache | None = None) -> TableHealth:
    policy = TablePolicy(name=name, thresholds=Thresholds(small_file_size=SMALL))
    return assess(catalog.load_table(name), policy, catalog_name="lake", table_name=name, now_ms=0, cache=cache)


def test_every_partition_of_random_tables(
    iceberg: Iceberg, pools: list[Pool], spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    catalog.create_namespace("health_dealt")
    tables = RandomTables(iceberg, "health_dealt", pools)
    seen: Counter[str] = Counter()
    for seed in range(1000, 1000 + TABLES):
        name = tables.deal(seed)
        health = judged(catalog, name, cache)
        assert health.cannot_judge is None
        compare(spark, iceberg, catalog, name, health)
        assert judged(catalog, name, cache).partitions == health.partitions
        seen.update(what_it_holds(health))
    assert seen.keys() >= {"v2", "v3", "position", "file_scoped", "equality", "vectors", "specs"}, seen


@pytest.mark.parametrize(("version", "granularity"), [(2, "partition"), (2, "file"), (3, "file")])
def test_deletes_whose_data_is_gone(
    version: int, granularity: str, iceberg: Iceberg, spark: SparkSession, catalog: Catalog, namespace: str
) -> None:
    """Deletes may stay behind when their data goes: scans do not show them, we must."""
    name = f"{namespace}.dangling"
    spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ("
        f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', "
        f"'write.delete.granularity' = '{granularity}')"
    )
    for _ in range(2):
        spark.sql(f"INSERT INTO lake.{name} SELECT id, CHAR(97 + id % 3) FROM range(100)")
    spark.sql(f"DELETE FROM lake.{name} WHERE id < 10 AND p < 'c'")
    spark.sql(f"INSERT INTO lake.{name} SELECT id, 'a' FROM range(100)")
    table = iceberg.load(name)
    delete = table.newDelete()
    old = [task.file() for task in iterate(table.newScan().planFiles()) if not task.deletes().isEmpty()]
    for file in old:
        delete.deleteFile(file)
    delete.commit()
    health = judged(catalog, name)
    assert len(old) == 4
    # The commit takes along the deletes that name a removed file; whatever it leaves has no data to apply to any more.
    left = spark.sql(f"SELECT count(*) FROM lake.{name}.delete_files").collect()[0][0]
    assert sum(partition.dangling_delete_files for partition in health.partitions) == left
    compare(spark, iceberg, catalog, name, health)


def test_a_source_column_renamed_and_one_dropped(
    iceberg: Iceberg, spark: SparkSession, catalog: Catalog, namespace: str
) -> None:
    name = f"{namespace}.changed"
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, p STRING, q STRING) USING iceberg PARTITIONED BY (p, q)")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1, 'a', 'x'), (2, 'b', NULL)")
    spark.sql(f"ALTER TABLE lake.{name} RENAME COLUMN p TO renamed")
    spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD q")
    spark.sql(f"INSERT INTO lake.{name} VALUES (3, 'a', 'x')")
    compare(spark, iceberg, catalog, name, judged(catalog, name))
    spark.sql(f"ALTER TABLE lake.{name} DROP COLUMN q")
    health = judged(catalog, name)
    assert health.unjudged == ((0, "the source column of its partition field 'q' was dropped"),)
    assert {(p.spec_id, p.partition): p.data_files for p in health.partitions} == {
        (0, ("a", "x")): 1,
        (0, ("b", None)): 1,
        (1, ("a",)): 1,
    }


@pytest.mark.parametrize("codec", ["zstd", "snappy", "uncompressed"])
def test_manifests_that_java_compressed_differently(
    codec: str, iceberg: Iceberg, spark: SparkSession, catalog: Catalog, namespace: str
) -> None:
    name = f"{namespace}.packed"
    spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('write.manifest.compression-codec' = '{codec}', 'format-version' = '2')"
    )
    spark.sql(f"INSERT INTO lake.{name} SELECT id, CAST(id % 3 AS STRING) FROM range(100)")
    table = catalog.load_table(name)
    [manifest] = table.current_snapshot().manifests(table.io)
    with table.io.new_input(manifest.manifest_path).open() as stream:
        written = AvroFile.parse("m", stream.read()).metadata["avro.codec"].decode()
    assert written == {"zstd": "zstandard", "uncompressed": "null"}.get(codec, codec)
    compare(spark, iceberg, catalog, name, judged(catalog, name))


def what_it_holds(health: TableHealth) -> set[str]:
    found = {f"v{health.format_version}"}
    for partition in health.partitions:
        found |= {"position"} if partition.position_delete_files else set()
        found |= {"file_scoped"} if partition.file_scoped_position_delete_files else set()
        found |= {"equality"} if partition.equality_delete_files else set()
        found |= {"vectors"} if partition.deletion_vectors else set()
    if len({partition.spec_id for partition in health.partitions}) > 1:
        found.add("specs")
    return found


def compare(spark: SparkSession, iceberg: Iceberg, catalog: Catalog, name: str, health: TableHealth) -> None:
    ours = {(partition.spec_id, partition.partition): numbers_of(partition) for partition in health.partitions}
    assert ours == by_metadata_tables(spark, name, health), name
    details = read_details(catalog.load_table(name), health, ours.keys())
    attached = {file.path: file.attached_delete_files for detail in details.values() for file in detail.files}
    table = iceberg.load(name)
    scan = table.newScan().planFiles() if table.currentSnapshot() is not None else None
    tasks = [] if scan is None else list(iterate(scan))
    assert attached == {str(task.file().location()): task.deletes().size() for task in tasks}, name
    dangling = sum(partition.dangling_delete_files for partition in health.partitions)
    referenced = {str(delete.location()) for task in tasks for delete in iterate(task.deletes())}
    if health.format_version == 2 and not any(partition.equality_delete_files for partition in health.partitions):
        # What no scan refers to is dangling: Iceberg 1.12's own definition. Statistics may rule out equality deletes,
        # and deletion vectors other position deletes, which stage 1 does not look at.
        assert dangling == sum(partition.delete_files for partition in health.partitions) - len(referenced), name


def numbers_of(partition: PartitionHealth) -> dict[str, Any]:
    names = (
        "data_files", "data_bytes", "rows", "small_files", "small_bytes", "size_histogram", "position_delete_files",
        "file_scoped_position_delete_files", "equality_delete_files", "deletion_vectors", "delete_bytes",
        "position_delete_rows", "equality_delete_rows", "applied_delete_files", "dangling_delete_files",
        "newest_file_ms",
    )  # fmt: skip
    return {name: getattr(partition, name) for name in names}


def by_metadata_tables(spark: SparkSession, name: str, health: TableHealth) -> dict[Key, dict[str, Any]]:
    """The same numbers, the long way: every entry and every file from Iceberg's metadata tables."""
    entries = spark.sql(f"SELECT * FROM lake.{name}.entries WHERE status < 2").collect()
    files = spark.sql(
        f"SELECT file_path, content, file_size_in_bytes, record_count, referenced_data_file, content_size_in_bytes "
        f"FROM lake.{name}.files"
    ).collect()
    assert len(files) == len(entries)
    commits = {
        row.snapshot_id: (row.committed_at.timestamp(), row.operation)
        for row in spark.sql(f"SELECT * FROM lake.{name}.snapshots").collect()
    }
    live_paths = {row.file_path for row in files if row.content == 0}
    partitions = {partition.spec_id for partition in health.partitions}
    assert {entry.data_file.spec_id for entry in entries} == partitions
    result: dict[Key, dict[str, Any]] = defaultdict(lambda: numbers_of(PartitionHealth(spec_id=0, partition=())))
    oldest: dict[Key, int] = {}
    for entry in entries:
        if entry.data_file.content == 0:
            key = key_of(entry.data_file, health)
            oldest[key] = min(oldest.get(key, entry.sequence_number), entry.sequence_number)
    for entry in entries:
        file = entry.data_file
        key = key_of(file, health)
        numbers = result[key]
        if file.content == 0:
            add_data(numbers, file, commits[entry.snapshot_id])
            continue
        add_delete(numbers, file)
        dangling = is_dangling(entry, key, oldest, health, live_paths)
        numbers["dangling_delete_files" if dangling else "applied_delete_files"] += 1
    return dict(result)


def add_data(numbers: dict[str, Any], file: Row, commit: tuple[float, str]) -> None:
    size = file.file_size_in_bytes
    numbers["data_files"] += 1
    numbers["data_bytes"] += size
    numbers["rows"] += file.record_count
    numbers["small_files"] += size < SMALL
    numbers["small_bytes"] += size if size < SMALL else 0
    bucket = int(math.log2(size))
    numbers["size_histogram"][bucket] = numbers["size_histogram"].get(bucket, 0) + 1
    numbers["size_histogram"] = dict(sorted(numbers["size_histogram"].items()))
    if commit[1] != "replace":
        numbers["newest_file_ms"] = max(numbers["newest_file_ms"] or 0, round(commit[0] * 1000))


def add_delete(numbers: dict[str, Any], file: Row) -> None:
    is_vector = file.file_format == "PUFFIN"
    kind = (
        "equality_delete_files" if file.content == 2 else "deletion_vectors" if is_vector else "position_delete_files"
    )
    numbers[kind] += 1
    numbers["equality_delete_rows" if file.content == 2 else "position_delete_rows"] += file.record_count
    numbers["delete_bytes"] += file.content_size_in_bytes if is_vector else file.file_size_in_bytes
    if kind == "position_delete_files":
        numbers["file_scoped_position_delete_files"] += target_of(file) is not None


def target_of(file: Row) -> str | None:
    if file.referenced_data_file is not None:
        return str(file.referenced_data_file)
    low, high = ((bounds or {}).get(PATH_COLUMN) for bounds in (file.lower_bounds, file.upper_bounds))
    return bytes(low).decode() if low is not None and low == high else None


def is_dangling(entry: Row, key: Key, oldest: dict[Key, int], health: TableHealth, live_paths: set[str]) -> bool:
    file = entry.data_file
    if file.content == 2 and not health.spec(key[0]).is_partitioned:
        return not any(entry.sequence_number > sequence for sequence in oldest.values())
    if key not in oldest:
        return True
    if file.content == 2:
        return bool(entry.sequence_number <= oldest[key])
    target = target_of(file)
    gone = target is not None and target not in live_paths
    return bool(gone or entry.sequence_number < oldest[key])


def key_of(file: Row, health: TableHealth) -> Key:
    """The metadata tables put the fields of all specs into one struct; ours has those of the file's own.

    A field that has another name in a newer spec is the same field, and goes by that name.
    """
    fields = health.spec(file.spec_id).fields
    values = {} if not hasattr(file, "partition") else file.partition.asDict()
    return file.spec_id, tuple(raw(values[newest_name(field, health, values)]) for field in fields)


def newest_name(field: PartitionField, health: TableHealth, values: dict[str, Any]) -> str:
    if field.name in values:
        return field.name
    same = [
        other.name
        for spec in health.specs
        for other in spec.fields
        if (other.source_name, other.transform) == (field.source_name, field.transform) and other.name in values
    ]
    return same[-1]


def raw(value: Any) -> Any:
    """A partition value as Iceberg stores it, of one as Spark shows it."""
    if isinstance(value, float) and math.isnan(value):
        return NAN
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days
    return bytes(value) if isinstance(value, bytearray) else value

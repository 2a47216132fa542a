from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from made_tables import File, TableMaker, equality_delete, position_delete
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.model import NAN, PartitionHealth, TableHealth
from airflow_iceberg_compaction.health.values import human_partition
from airflow_iceberg_compaction.policy.model import Rewrite, TablePolicy, Thresholds

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def judged(table: Table, *, branch: str = "main", small: int = 500, target: int = 1000, **kwargs: Any) -> TableHealth:
    policy = TablePolicy(
        name="db.made",
        thresholds=Thresholds(small_file_size=small),
        rewrite=Rewrite(target_file_size=target, sort_order=kwargs.pop("sort_order", ())),
    )
    return assess(table, policy, catalog_name="lake", table_name="db.made", now_ms=0, branch=branch, **kwargs)


def by_partition(health: TableHealth) -> dict[tuple[Any, ...], PartitionHealth]:
    assert health.cannot_judge is None
    return {partition.partition: partition for partition in health.partitions}


def test_files_bytes_rows_and_sizes_are_counted_per_partition(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    one = maker.manifest([File(("eu",), size=499, rows=1), File(("eu",), size=500, rows=2), File(("us",), size=1800)])
    two = maker.manifest([File(("eu",), size=1801, rows=4), File(("eu",), size=0, rows=0), File((None,), size=1)])
    maker.snapshot(one, two)
    health = judged(maker.table())
    eu = by_partition(health)[("eu",)]
    assert (eu.data_files, eu.data_bytes, eu.rows) == (4, 2800, 7)
    assert (eu.small_files, eu.small_bytes) == (2, 499)
    assert eu.oversized_files == 1
    assert eu.size_histogram == {0: 1, 8: 2, 10: 1}
    assert by_partition(health)[("us",)].oversized_files == 0
    assert by_partition(health)[(None,)].data_files == 1
    assert health.metadata.data_manifests == 2
    assert health.manifests_read == 2


def test_entries_that_a_snapshot_deleted_do_not_count(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    gone = File(("eu",), status=2, sequence=1, snapshot=1)
    kept = File(("eu",), status=0, sequence=1, snapshot=1)
    maker.snapshot(maker.manifest([gone, kept, File(("eu",))], sequence=2, snapshot=2), snapshot_id=2)
    assert by_partition(judged(maker.table()))[("eu",)].data_files == 2


def test_a_table_without_a_snapshot_is_empty_not_sick(tmp_path: Path) -> None:
    health = judged(TableMaker(tmp_path, SCHEMA, BY_REGION).table())
    assert (health.snapshot_id, health.cannot_judge, health.partitions, health.stage) == (None, None, (), 0)


def test_a_snapshot_without_files_has_no_partitions(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot()
    health = judged(maker.table())
    assert (health.snapshot_id, health.cannot_judge, health.partitions) == (1, None, ())


def test_a_branch_is_judged_by_name_and_main_otherwise(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot(maker.manifest([File(("eu",))]))
    maker.snapshot(maker.manifest([File(("us",)), File(("us",))], snapshot=2), snapshot_id=2, branch="audit")
    table = maker.table()
    assert {p.partition for p in judged(table).partitions} == {("eu",)}
    assert {p.partition for p in judged(table, branch="audit").partitions} == {("us",)}
    assert judged(table, branch="nowhere").cannot_judge == "the table has no branch 'nowhere'"


@pytest.mark.parametrize("format_version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["deflate", "zstandard", "null", "bzip2"])
def test_every_format_and_codec_is_read(tmp_path: Path, format_version: int, codec: str) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, format_version=format_version)
    maker.snapshot(maker.manifest([File(("eu",), size=n, rows=n) for n in range(1, 11)], codec=codec))
    partition = by_partition(judged(maker.table()))[("eu",)]
    assert (partition.data_files, partition.data_bytes, partition.rows) == (10, 55, 55)


_UUID = uuid.UUID("00000000-0000-4000-8000-000000000001")

TRANSFORMED: list[tuple[IcebergType, Transform[Any, Any], Any, Any]] = [
    (BooleanType(), IdentityTransform(), True, True),
    (IntegerType(), IdentityTransform(), -5, -5),
    (LongType(), IdentityTransform(), 2**40, 2**40),
    (FloatType(), IdentityTransform(), 0.5, 0.5),
    (DoubleType(), IdentityTransform(), 0.1, 0.1),
    (DoubleType(), IdentityTransform(), math.inf, "Infinity"),
    (DecimalType(9, 2), IdentityTransform(), Decimal("-1.50"), "-1.50"),
    (
        DecimalType(38, 10),
        IdentityTransform(),
        Decimal("12345678901234567890.0123456789"),
        "12345678901234567890.0123456789",
    ),
    (DateType(), IdentityTransform(), 19_753, "2024-01-31"),
    (DateType(), IdentityTransform(), -1, "1969-12-31"),
    (TimeType(), IdentityTransform(), 3_600_000_001, "01:00:00.000001"),
    (TimestampType(), IdentityTransform(), -1, "1969-12-31T23:59:59.999999"),
    (TimestamptzType(), IdentityTransform(), 0, "1970-01-01T00:00:00+00:00"),
    (StringType(), IdentityTransform(), "it's / größe", "it's / größe"),
    (UUIDType(), IdentityTransform(), _UUID, str(_UUID)),
    (FixedType(2), IdentityTransform(), b"\x00\xff", "00ff"),
    (BinaryType(), IdentityTransform(), b"\x01", "01"),
    (LongType(), BucketTransform(16), 7, 7),
    (StringType(), TruncateTransform(3), "abc", "abc"),
    (LongType(), TruncateTransform(10), -10, -10),
    (DecimalType(9, 2), TruncateTransform(50), Decimal("0.50"), "0.50"),
    (DateType(), YearTransform(), 54, "2024"),
    (DateType(), YearTransform(), -1, "1969"),
    (DateType(), MonthTransform(), 648, "2024-01"),
    (DateType(), MonthTransform(), -1, "1969-12"),
    (TimestampType(), DayTransform(), 19_753, "2024-01-31"),
    (TimestamptzType(), HourTransform(), 19_753 * 24 + 13, "2024-01-31-13"),
    (TimestamptzType(), HourTransform(), -1, "1969-12-31-23"),
    (StringType(), VoidTransform(), None, None),
]


@pytest.mark.parametrize(("kind", "transform", "value", "human"), TRANSFORMED)
def test_partition_values_of_every_type_and_transform(
    tmp_path: Path, kind: IcebergType, transform: Transform[Any, Any], value: Any, human: Any
) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
    spec = PartitionSpec(PartitionField(2, 1000, transform, "p"))
    maker = TableMaker(tmp_path, schema, spec)
    maker.snapshot(maker.manifest([File((value,)), File((value,)), File((None,))]))
    health = judged(maker.table())
    counts = {partition.partition: partition.data_files for partition in health.partitions}
    assert counts == ({(value,): 2, (None,): 1} if value is not None else {(None,): 3})
    assert human_partition(health.specs[0], (value,)) == {"p": human}
    assert human_partition(health.specs[0], (None,)) == {"p": None}


def test_all_nan_partitions_are_one(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", DoubleType()))
    maker = TableMaker(tmp_path, schema, PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "v")))
    manifests = [maker.manifest([File((float("nan"),)), File((1.0,))]) for _ in range(2)]
    maker.snapshot(*manifests)
    health = judged(maker.table())
    assert by_partition(health)[(NAN,)].data_files == 2
    assert human_partition(health.specs[0], (NAN,)) == {"v": "NaN"}


def test_partitions_of_different_specs_are_kept_apart(tmp_path: Path) -> None:
    by_id = PartitionSpec(PartitionField(1, 1001, BucketTransform(4), "id_bucket"), spec_id=1)
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, by_id)
    maker.snapshot(maker.manifest([File(("eu",))]), maker.manifest([File((3,)), File((3,))], spec_id=1))
    health = judged(maker.table())
    assert {(p.spec_id, p.partition): p.data_files for p in health.partitions} == {(0, ("eu",)): 1, (1, (3,)): 2}
    assert health.current_spec_id == 1
    assert health.metadata.manifests_by_spec.keys() == {0, 1}


def test_a_manifest_may_keep_partition_fields_in_another_order(tmp_path: Path) -> None:
    region = PartitionField(2, 1000, IdentityTransform(), "region")
    bucket = PartitionField(1, 1001, BucketTransform(4), "bucket")
    written = TableMaker(tmp_path, SCHEMA, PartitionSpec(bucket, region))
    manifest = written.manifest([File((3, "eu"))])
    maker = TableMaker(tmp_path, SCHEMA, PartitionSpec(region, bucket))
    maker.snapshot(manifest)
    assert by_partition(judged(maker.table())).keys() == {("eu", 3)}


def test_a_renamed_source_column_shows_its_present_name(tmp_path: Path) -> None:
    renamed = Schema(NestedField(1, "id", LongType()), NestedField(2, "country", StringType()))
    maker = TableMaker(tmp_path, renamed, BY_REGION)
    maker.snapshot(maker.manifest([File(("eu",))], file_schema=SCHEMA))
    health = judged(maker.table())
    assert health.specs[0].fields[0].source_name == "country"
    assert by_partition(health)[("eu",)].data_files == 1


def test_a_nested_source_column_has_its_full_name(tmp_path: Path) -> None:
    from pyiceberg.types import StructType

    schema = Schema(NestedField(1, "a", StructType(NestedField(2, "b", StringType()))))
    maker = TableMaker(tmp_path, schema, BY_REGION)
    maker.snapshot(maker.manifest([File(("eu",))]))
    assert judged(maker.table()).specs[0].fields[0].source_name == "a.b"


def test_new_data_is_hot_but_compacted_data_is_not(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    old = File(("eu",), status=0, sequence=1, snapshot=1)
    ours = File(("eu",), status=0, sequence=1, snapshot=2)
    others = File(("us",), status=0, sequence=1, snapshot=3)
    unknown = File(("it",), status=0, sequence=1, snapshot=99)
    for number, (operation, stamp) in enumerate(
        [("append", None), ("replace", "run-1"), ("replace", None), ("append", None)], start=1
    ):
        manifests = [maker.manifest([old, ours, others, unknown], sequence=4, snapshot=4)] if number == 4 else []
        maker.snapshot(*manifests, snapshot_id=number, timestamp_ms=number * 1000, operation=operation, stamp=stamp)
    found = by_partition(judged(maker.table()))
    assert (found[("eu",)].newest_file_ms, found[("eu",)].last_compaction_ms) == (1000, 2000)
    assert (found[("us",)].newest_file_ms, found[("us",)].last_compaction_ms) == (None, None)
    assert (found[("it",)].newest_file_ms, found[("it",)].last_compaction_ms) == (None, None)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_newest_of_all_manifests_counts(tmp_path: Path, order: tuple[int, int]) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    added = [[1, 2], [3, 4]]
    manifests = [
        maker.manifest([File(("eu",), status=0, sequence=1, snapshot=s) for s in added[n]], sequence=5, snapshot=5)
        for n in order
    ]
    for number in range(1, 6):
        ours = {"operation": "replace", "stamp": "run"} if number % 2 == 0 else {}
        listed = manifests if number == 5 else []
        maker.snapshot(*listed, snapshot_id=number, timestamp_ms=number * 1000, **ours)  # type: ignore[arg-type]
    [partition] = judged(maker.table()).partitions
    assert (partition.newest_file_ms, partition.last_compaction_ms) == (3000, 4000)


def test_metadata_debt_is_counted_on_its_own(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, properties={"commit.manifest.target-size-bytes": "1024"})
    data, deletes = maker.manifest([File(("eu",))]), maker.manifest([position_delete(("eu",))], deletes=True)
    maker.snapshot(data, snapshot_id=1)
    maker.snapshot(data, deletes, snapshot_id=2)
    health = judged(maker.table())
    assert (health.metadata.snapshots, health.metadata.data_manifests, health.metadata.delete_manifests) == (2, 1, 1)
    assert health.metadata.manifest_bytes == data.manifest_length + deletes.manifest_length
    assert health.metadata.target_manifest_bytes == 1024
    assert health.metadata.metadata_json_bytes == (tmp_path / "v1.metadata.json").stat().st_size
    assert [ref.name for ref in health.refs] == ["main"]


def test_a_manifest_without_live_files_is_debt_but_not_read(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    dead = maker.manifest([File(("us",), status=2, sequence=1, snapshot=1)])
    maker.snapshot(maker.manifest([File(("eu",))]), dead)
    Path(dead.manifest_path.removeprefix("file://")).unlink()
    health = judged(maker.table())
    assert by_partition(health).keys() == {("eu",)}
    assert (health.metadata.data_manifests, health.manifests_read) == (2, 1)


def test_equality_deletes_count_by_kind_bytes_and_rows(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    target = File(("eu",), sequence=1)
    deletes = [
        equality_delete(("eu",), rows=5, size=70),
        position_delete(("eu",), rows=3, size=20),
        position_delete(("eu",), target=target.path, rows=2, size=10),
    ]
    maker.snapshot(
        maker.manifest([target]), maker.manifest(deletes, deletes=True, sequence=2, snapshot=2), snapshot_id=2
    )
    eu = by_partition(judged(maker.table()))[("eu",)]
    assert (eu.equality_delete_files, eu.position_delete_files, eu.file_scoped_position_delete_files) == (1, 2, 1)
    assert (eu.equality_delete_rows, eu.position_delete_rows, eu.delete_bytes) == (5, 5, 100)
    assert (eu.delete_files, eu.applied_delete_files, eu.dangling_delete_files) == (3, 3, 0)


def test_day_of_a_date_column_is_a_day(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "d", DateType()))
    maker = TableMaker(tmp_path, schema, PartitionSpec(PartitionField(1, 1000, DayTransform(), "day")))
    days = (dt.date(2024, 1, 31) - dt.date(1970, 1, 1)).days
    maker.snapshot(maker.manifest([File((days,))]))
    assert by_partition(judged(maker.table())).keys() == {(days,)}

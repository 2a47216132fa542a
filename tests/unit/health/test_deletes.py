"""Which deletes apply: stage 1 by partition, stage 2 by file, both by the rules of Iceberg's DeleteFileIndex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_tables import File, TableMaker, deletion_vector, equality_delete, long_bytes, position_delete
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.details import read_details
from airflow_iceberg_compaction.health.errors import HealthError
from airflow_iceberg_compaction.health.model import DataFileDetail, TableHealth
from airflow_iceberg_compaction.policy.model import TablePolicy

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "key", LongType(), required=True),
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def judged(table: Table) -> TableHealth:
    return assess(table, TablePolicy(name="db.made"), catalog_name="lake", table_name="db.made", now_ms=0)


def made(
    tmp_path: Path, data: list[File], deletes: list[File], *specs: PartitionSpec, format_version: int = 2
) -> Table:
    """Data of sequence number 5 unless it says otherwise, deletes likewise."""
    maker = TableMaker(tmp_path, SCHEMA, *(specs or (BY_REGION,)), format_version=format_version)
    manifests = [maker.manifest(data, sequence=5)] if data else []
    maker.snapshot(*manifests, maker.manifest(deletes, deletes=True, sequence=5), sequence=9)
    return maker.table()


def details(table: Table) -> dict[str, DataFileDetail]:
    health = judged(table)
    assert health.cannot_judge is None
    keys = [(partition.spec_id, partition.partition) for partition in health.partitions]
    return {file.path: file for detail in read_details(table, health, keys).values() for file in detail.files}


@pytest.mark.parametrize(
    ("delete", "applies"),
    [
        (position_delete(("eu",), sequence=4), False),
        (position_delete(("eu",), sequence=5), True),
        (equality_delete(("eu",), sequence=5), False),
        (equality_delete(("eu",), sequence=6), True),
        (position_delete(("us",), sequence=9), False),
        (equality_delete(("us",), sequence=9), False),
    ],
    ids=["older position", "position of the same commit", "equality of the same commit", "newer equality",
         "position elsewhere", "equality elsewhere"],
)  # fmt: skip
def test_a_delete_applies_by_sequence_number_and_partition(tmp_path: Path, delete: File, applies: bool) -> None:
    file = File(("eu",))
    table = made(tmp_path, [file], [delete])
    partitions = {p.partition: p for p in judged(table).partitions}
    judged_partition = partitions[delete.partition]
    assert (judged_partition.applied_delete_files, judged_partition.dangling_delete_files) == (applies, not applies)
    assert details(table)[file.path].attached_delete_files == applies


def test_dangling_is_decided_by_the_oldest_data_of_all_manifests(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    manifests = [
        maker.manifest([equality_delete(("eu",)), equality_delete(("eu",))], deletes=True, sequence=4),
        maker.manifest([File(("eu",))], sequence=5),
        maker.manifest([File(("eu",), status=0, sequence=3, snapshot=1)], sequence=6),
    ]
    maker.snapshot(*manifests, sequence=9)
    [partition] = judged(maker.table()).partitions
    assert (partition.applied_delete_files, partition.dangling_delete_files) == (2, 0)


def test_a_file_scoped_delete_attaches_to_its_file_only(tmp_path: Path) -> None:
    one, two = File(("eu",)), File(("eu",))
    found = details(made(tmp_path, [one, two], [position_delete(("eu",), target=one.path, rows=7)]))
    assert (found[one.path].attached_delete_files, found[one.path].file_scoped_delete_rows) == (1, 7)
    assert (found[two.path].attached_delete_files, found[two.path].file_scoped_delete_rows) == (0, 0)


def test_a_partition_scoped_delete_attaches_to_every_file_and_has_no_known_rows(tmp_path: Path) -> None:
    one, two = File(("eu",)), File(("eu",))
    found = details(made(tmp_path, [one, two], [position_delete(("eu",), rows=7)]))
    assert {(file.attached_delete_files, file.file_scoped_delete_rows) for file in found.values()} == {(1, 0)}


def test_a_deletion_vector_replaces_the_position_deletes_of_its_file(tmp_path: Path) -> None:
    one, two = File(("eu",)), File(("eu",))
    deletes = [
        deletion_vector(("eu",), target=one.path, rows=3, size=10_000, content_size=40),
        position_delete(("eu",), target=one.path, rows=100),
        position_delete(("eu",)),
        equality_delete(("eu",), sequence=9),
    ]
    table = made(tmp_path, [one, two], deletes, format_version=3)
    found = details(table)
    assert (found[one.path].attached_delete_files, found[one.path].file_scoped_delete_rows) == (2, 3)
    assert (found[two.path].attached_delete_files, found[two.path].file_scoped_delete_rows) == (2, 0)
    [partition] = judged(table).partitions
    assert (partition.deletion_vectors, partition.position_delete_files) == (1, 2)
    assert partition.delete_bytes == 40 + 3 * 1000  # the vector's own bytes, not its Puffin file's


def test_a_deletion_vector_whose_file_is_gone_is_dangling(tmp_path: Path) -> None:
    files = [File(("eu",)), File(("eu",)), File(("us",))]
    targets = [(file.partition, file.path) for file in files] + [(("eu",), "file:///data/gone.parquet")]
    deletes = [deletion_vector(partition, target=path) for partition, path in targets]
    found = {p.partition: p for p in judged(made(tmp_path, files, deletes, format_version=3)).partitions}
    assert (found[("eu",)].deletion_vectors, found[("eu",)].applied_delete_files) == (3, 2)
    assert found[("eu",)].dangling_delete_files == 1
    assert found[("us",)].dangling_delete_files == 0


def test_a_file_scoped_delete_whose_file_is_gone_is_dangling_although_older_data_is_there(tmp_path: Path) -> None:
    file = File(("eu",))
    deletes = [position_delete(("eu",), target=path) for path in (file.path, "gone.parquet", "gone.parquet")]
    [partition] = judged(made(tmp_path, [file], deletes)).partitions
    assert (partition.applied_delete_files, partition.dangling_delete_files) == (1, 2)


def test_a_delete_in_a_partition_without_data_is_dangling_and_seen(tmp_path: Path) -> None:
    partitions = {p.partition: p for p in judged(made(tmp_path, [], [position_delete(("eu",))])).partitions}
    assert (partitions[("eu",)].data_files, partitions[("eu",)].dangling_delete_files) == (0, 1)


def test_equality_deletes_of_an_unpartitioned_spec_apply_to_the_whole_table(tmp_path: Path) -> None:
    unpartitioned = PartitionSpec(spec_id=0)
    by_bucket = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "bucket"), spec_id=1)
    maker = TableMaker(tmp_path, SCHEMA, unpartitioned, by_bucket)
    file = File((3,))
    deletes = [equality_delete(sequence=9), equality_delete(sequence=5), position_delete(sequence=9)]
    maker.snapshot(
        maker.manifest([file], spec_id=1, sequence=5), maker.manifest(deletes, deletes=True, sequence=9), sequence=9
    )
    table = maker.table()
    health = judged(table)
    holder = next(p for p in health.partitions if p.spec_id == 0)
    assert (holder.applied_delete_files, holder.dangling_delete_files) == (1, 2)
    assert health.global_equality_delete_files == 1
    assert read_details(table, health, [(1, (3,))])[1, (3,)].files[0].attached_delete_files == 1


Statistic = dict[str, Any]


def bounds(low: int, high: int, *, nulls: int = 0, values: int = 10) -> Statistic:
    return {
        "lower": {1: long_bytes(low)},
        "upper": {1: long_bytes(high)},
        "value_counts": {1: values},
        "null_counts": {1: nulls},
    }


@pytest.mark.parametrize(
    ("data", "delete", "attached"),
    [
        (bounds(0, 9), bounds(9, 12), True),
        (bounds(0, 9), bounds(-5, 0), True),
        (bounds(0, 9), bounds(10, 12), False),
        (bounds(0, 9), bounds(-5, -1), False),
        (bounds(0, 9, nulls=1), bounds(10, 12, nulls=1), True),
        (bounds(0, 9, nulls=1), bounds(10, 12), False),
        ({}, bounds(10, 12), True),
        (bounds(0, 9), {}, True),
        ({"value_counts": {1: 5}, "null_counts": {1: 5}}, bounds(10, 12), False),
        (bounds(0, 9), {"value_counts": {1: 5}, "null_counts": {1: 5}}, False),
        ({"value_counts": {1: 5}, "null_counts": {1: 5}}, {"value_counts": {1: 5}, "null_counts": {1: 5}}, True),
    ],
)
def test_column_statistics_can_rule_an_equality_delete_out(
    tmp_path: Path, data: Statistic, delete: Statistic, attached: bool
) -> None:
    file = File(("eu",), **data)
    table = made(tmp_path, [file], [equality_delete(("eu",), sequence=9, **delete)])
    assert details(table)[file.path].attached_delete_files == attached


def test_a_required_column_has_no_nulls_whatever_its_statistics_say(tmp_path: Path) -> None:
    ranges = [{"lower": {3: long_bytes(n)}, "upper": {3: long_bytes(n)}} for n in (1, 2)]
    file = File(("eu",), **ranges[0])
    table = made(tmp_path, [file], [equality_delete(("eu",), ids=(3,), sequence=9, **ranges[1])])
    assert details(table)[file.path].attached_delete_files == 0


def test_details_hold_the_wanted_partitions_only_and_read_no_other_manifest(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    eu, us = maker.manifest([File(("eu",)), File(("eu",))]), maker.manifest([File(("us",))])
    maker.snapshot(eu, us)
    table = maker.table()
    health = judged(table)
    Path(us.manifest_path.removeprefix("file://")).unlink()
    found = read_details(table, health, [(0, ("eu",))])
    assert {key: len(detail.files) for key, detail in found.items()} == {(0, ("eu",)): 2}
    with pytest.raises(HealthError, match="missing"):
        read_details(table, health, [(0, ("us",))])


def test_details_of_an_expired_snapshot_say_so(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot(maker.manifest([File(("eu",))]))
    health = judged(maker.table())
    maker.snapshots.clear()
    maker.refs.clear()
    with pytest.raises(HealthError, match="assess the table again"):
        read_details(maker.table(), health, [(0, ("eu",))])

"""Stage 2: the files of chosen partitions, each with the deletes Iceberg would attach to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.health.deletes import DeleteIndex, EqualityDelete, Statistics
from airflow_iceberg_compaction.health.errors import HealthError
from airflow_iceberg_compaction.health.manifests import (
    CONTENT,
    EQUALITY_DELETES,
    EQUALITY_IDS,
    FILE_FORMAT,
    FILE_PATH,
    FILE_SIZE,
    LOWER_BOUNDS,
    NULL_COUNTS,
    PARTITION,
    RECORD_COUNT,
    REFERENCED_DATA_FILE,
    UPPER_BOUNDS,
    VALUE_COUNTS,
    Manifest,
    Projection,
    fetch,
    list_manifests,
    live_entries,
)
from airflow_iceberg_compaction.health.model import DataFileDetail, PartitionDetail, PartitionTuple, TableHealth
from airflow_iceberg_compaction.health.overlap import overlapped
from airflow_iceberg_compaction.health.pruning import may_hold
from airflow_iceberg_compaction.health.specs import partition_field_ids, unpartitioned_spec_ids
from airflow_iceberg_compaction.health.summary import is_deletion_vector, referenced_file

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

Key = tuple[int, PartitionTuple]


def read_details(table: Table, health: TableHealth, keys: Collection[Key]) -> dict[Key, PartitionDetail]:
    """The data files of ``keys`` (spec id, partition tuple) in the snapshot that ``health`` judged, in scan order.

    Raises `HealthError` when that snapshot is gone or a manifest cannot be decoded. Only these partitions are held in
    memory; manifests that cannot hold them are not read.
    """
    wanted = frozenset(keys)
    if not wanted or health.snapshot_id is None:
        return {}
    snapshot = table.metadata.snapshot_by_id(health.snapshot_id)
    if snapshot is None:
        raise HealthError(
            f"snapshot {health.snapshot_id} of {health.table} expired since it was judged; assess the table again"
        )
    manifests = list_manifests(table.io, snapshot)
    index = _index_deletes(table, health, manifests, wanted)
    columns = index.equality_columns
    projection = Projection(
        (PARTITION, FILE_PATH, FILE_SIZE, RECORD_COUNT)
        + ((LOWER_BOUNDS, UPPER_BOUNDS, VALUE_COUNTS, NULL_COUNTS) if columns else ()),
        columns,
    )
    files: dict[Key, list[DataFileDetail]] = {key: [] for key in wanted}
    data_manifests = [
        manifest
        for manifest in manifests
        if not manifest.holds_deletes and may_hold(manifest, health.spec(manifest.spec_id), wanted)
    ]
    for key, sequence, path, size, rows, *statistics in _entries(table, data_manifests, projection, wanted):
        attached = index.attached(key, path, sequence, Statistics(*(statistics or (None,) * 4)))
        files[key].append(
            DataFileDetail(
                path=path,
                size_bytes=size,
                rows=rows,
                sequence_number=sequence,
                attached_delete_files=attached.files,
                file_scoped_delete_rows=attached.file_scoped_rows,
            )
        )
    return {key: PartitionDetail(spec_id=key[0], partition=key[1], files=tuple(found)) for key, found in files.items()}


def _index_deletes(
    table: Table, health: TableHealth, manifests: tuple[Manifest, ...], wanted: frozenset[Key]
) -> DeleteIndex:
    index = DeleteIndex(_fields_of_all_schemas(table))
    unpartitioned = unpartitioned_spec_ids(health.specs)
    projection = Projection(
        (
            PARTITION, RECORD_COUNT, CONTENT, FILE_FORMAT, REFERENCED_DATA_FILE, EQUALITY_IDS, LOWER_BOUNDS,
            UPPER_BOUNDS, VALUE_COUNTS, NULL_COUNTS,
        ),
        None,
    )  # fmt: skip
    deletes = [manifest for manifest in manifests if manifest.holds_deletes]
    # Equality deletes without a partition apply to all of them.
    everywhere = [manifest for manifest in deletes if manifest.spec_id in unpartitioned and manifest.is_live]
    local = [
        manifest
        for manifest in deletes
        if manifest.spec_id not in unpartitioned and may_hold(manifest, health.spec(manifest.spec_id), wanted)
    ]
    for entry in chain(_entries(table, everywhere, projection, None), _entries(table, local, projection, wanted)):
        key, sequence, rows, content, file_format, referenced, equality_ids, *statistics = entry
        if content == EQUALITY_DELETES:
            delete = EqualityDelete(sequence, tuple(equality_ids or ()), Statistics(*statistics))
            index.add_equality(key, delete, is_global=key[0] in unpartitioned)
        elif is_deletion_vector(file_format):
            index.add_vector(referenced or "", rows)
        elif (path := referenced_file(referenced, statistics[0], statistics[1])) is not None:
            index.add_file_scoped(path, sequence, rows)
        else:
            index.add_position(key, sequence)
    return index


def _entries(
    table: Table, manifests: Sequence[Manifest], projection: Projection, wanted: frozenset[Key] | None
) -> Iterator[tuple[Any, ...]]:
    """(key, sequence number, projected fields but the partition ...) of live entries in wanted partitions."""
    spec_fields = partition_field_ids(table.metadata)
    for manifest, data in overlapped(lambda manifest: fetch(table.io, manifest.path, manifest.length), manifests):
        for entries in live_entries(manifest, data, projection, spec_fields[manifest.spec_id]):
            for _, _, sequence, partition, *fields in entries:
                key = (manifest.spec_id, partition)
                if wanted is None or key in wanted:
                    yield key, sequence, *fields


def _fields_of_all_schemas(table: Table) -> dict[int, NestedField]:
    """Equality deletes may name columns that were dropped since."""
    fields: dict[int, NestedField] = {}
    for schema in (*table.metadata.schemas, table.metadata.schema()):
        fields.update(schema._lazy_id_to_field)
    return fields

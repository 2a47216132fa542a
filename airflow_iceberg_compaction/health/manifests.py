"""Manifest lists and manifest entries, with only the fields that a question needs."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_iceberg_compaction.health.avro import AvroFile
from airflow_iceberg_compaction.health.decoding import LiveEntries, Wanted
from airflow_iceberg_compaction.health.errors import ManifestError, StoreError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

DELETED = 2
ADDED = 1

PATH_COLUMN = 2147483546  # the reserved field id of a position delete's file_path

# Field ids of a manifest entry and of the data file in it, from the Iceberg specification.
STATUS, SNAPSHOT_ID, DATA_FILE, SEQUENCE_NUMBER = 0, 1, 2, 3
FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE = 100, 101, 102, 103, 104
VALUE_COUNTS, NULL_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS = 109, 110, 125, 128
CONTENT, EQUALITY_IDS, REFERENCED_DATA_FILE, CONTENT_SIZE = 134, 135, 143, 145

DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2

_KINDS = {
    **dict.fromkeys((STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, RECORD_COUNT, FILE_SIZE, CONTENT, CONTENT_SIZE), "number"),
    **dict.fromkeys((FILE_PATH, FILE_FORMAT, REFERENCED_DATA_FILE), "string"),
    **dict.fromkeys((VALUE_COUNTS, NULL_COUNTS, LOWER_BOUNDS, UPPER_BOUNDS, EQUALITY_IDS), "array"),
    PARTITION: "record",
}
_REQUIRED = frozenset({STATUS, FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE})


class FieldSummary(NamedTuple):
    """What the manifest list says about one partition field of a manifest."""

    contains_null: bool
    contains_nan: bool | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One line of a manifest list."""

    path: str
    length: int
    spec_id: int
    holds_deletes: bool
    sequence_number: int
    snapshot_id: int
    live_files: int | None  # None where the writer did not say (format version 1)
    field_summaries: tuple[FieldSummary, ...] | None = None

    @property
    def is_live(self) -> bool:
        return self.live_files != 0


_LIST_FIELDS = Wanted(
    fields=(500, 501, 502, 517, 515, 503, 504, 505, 507),
    kinds=(
        (500, "string"),
        *((number, "number") for number in range(501, 507)),
        (507, "array"),
        (515, "number"),
        (517, "number"),
    ),
    required=frozenset({500, 501, 502, 503}),
    defaults=((517, 0), (515, 0)),
)


def read_manifest_list(path: str, data: bytes) -> tuple[Manifest, ...]:
    """The manifests of a snapshot."""
    manifests = []
    for block in AvroFile.parse(path, data).records(_LIST_FIELDS):
        for manifest_path, length, spec_id, content, sequence, snapshot, added, existing, summaries in block:
            live = None if added is None or existing is None else added + existing
            fields = None if summaries is None else tuple(_field_summary(summary) for summary in summaries)
            manifests.append(
                Manifest(manifest_path, length, spec_id, content == 1, sequence, snapshot, live, fields),
            )
    return tuple(manifests)


def _field_summary(values: tuple[Any, ...]) -> FieldSummary:
    # Writers before format 2 leave contains_nan out; the bounds are the last two in every version.
    if len(values) == 4:
        return FieldSummary(*values)
    return FieldSummary(values[0], None, *values[-2:])


def fetch(io: FileIO, path: str, length: int | None = None) -> bytes:
    """The bytes of a metadata file; `ManifestError` if there is none, `StoreError` if the store fails.

    With the ``length`` to expect, the bytes are not copied from buffer to larger buffer.
    """
    try:
        with io.new_input(path).open(seekable=False) as stream:
            if length is None:
                return stream.read()
            data = stream.read(length)
            rest = stream.read()
            return data + rest if rest else data
    except FileNotFoundError as error:
        raise ManifestError(path, "the file is missing") from error
    except Exception as error:  # every store has errors of its own
        raise StoreError(path, f"{type(error).__name__}: {error}") from error


def list_manifests(io: FileIO, snapshot: Snapshot) -> tuple[Manifest, ...]:
    """The manifests of ``snapshot``, also those in which nothing is live any more."""
    return read_manifest_list(snapshot.manifest_list, fetch(io, snapshot.manifest_list))


@dataclass(frozen=True, slots=True)
class Projection:
    """Which data-file fields a reader wants, in order."""

    fields: tuple[int, ...]
    bound_columns: frozenset[int] | None = frozenset()  # whose lower and upper bounds; None: of every column
    raw_paths: bool = False  # leave file paths as bytes

    def wanted(self) -> Wanted:
        fields = (STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, *self.fields)
        return Wanted(
            fields=fields,
            kinds=tuple(_KINDS.items()),
            required=_REQUIRED & frozenset(fields),
            enter=frozenset({DATA_FILE}),
            keys=()
            if self.bound_columns is None
            else tuple((f, self.bound_columns) for f in (LOWER_BOUNDS, UPPER_BOUNDS)),
            defaults=((CONTENT, DATA),),
            live=LiveEntries(STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, ADDED, DELETED),
            raw=frozenset({FILE_PATH}) if self.raw_paths else frozenset(),
        )


def live_entries(
    manifest: Manifest,
    data: bytes,
    projection: Projection,
    spec_field_ids: tuple[int, ...],
    *,
    checked: bool = True,
) -> Iterator[list[tuple[Any, ...]]]:
    """(status, adding snapshot, data sequence number, projected fields ...) of live entries, a block at a time.

    Both numbers are inherited from the manifest list where the entry leaves them out, as the specification asks. The
    first projected field must be the partition; its values come in the order of ``spec_field_ids``. Raises
    `ManifestError`. ``checked`` is that of `AvroFile.records`.
    """
    file = AvroFile.parse(manifest.path, data)
    order = _partition_order(file, spec_field_ids)
    live = 0
    for block in file.records(
        projection.wanted(),
        checked=checked,
        own_snapshot=manifest.snapshot_id,
        own_sequence=manifest.sequence_number,
    ):
        live += len(block)
        if order is not None:
            block = [_reordered(entry, order) for entry in block]
        yield block
    # A file that was cut off between two blocks is a valid Avro file; only the manifest list knows better.
    if manifest.live_files is not None and live < manifest.live_files:
        raise ManifestError(
            manifest.path, f"it has {live} live entries where the manifest list promises {manifest.live_files}"
        )


def _reordered(entry: tuple[Any, ...], order: tuple[int | None, ...]) -> tuple[Any, ...]:
    status, snapshot, sequence, values, *rest = entry
    ordered = tuple([None if position is None else values[position] for position in order])
    return (status, snapshot, sequence, ordered, *rest)


def _partition_order(file: AvroFile, spec_field_ids: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """Where the manifest keeps each field of its spec, None when both agree on the order."""
    try:
        written = _partition_field_ids(file.schema_text)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ManifestError(file.path, "its schema has no partition") from error
    if written == spec_field_ids:
        return None
    positions = {field_id: position for position, field_id in enumerate(written)}
    return tuple(positions.get(field_id) for field_id in spec_field_ids)


@functools.lru_cache(maxsize=256)
def _partition_field_ids(schema_text: str) -> tuple[int, ...]:
    schema = json.loads(schema_text)
    data_file = next(field["type"] for field in schema["fields"] if field.get("field-id") == DATA_FILE)
    partition = next(field["type"] for field in data_file["fields"] if field.get("field-id") == PARTITION)
    return tuple(field.get("field-id", -1) for field in partition["fields"])

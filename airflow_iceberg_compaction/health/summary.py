"""What one manifest adds to the health of each partition: small, mergeable, and the same however often it is read.

A summary is all that stage 1 keeps of a manifest and all that the cache stores.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_iceberg_compaction.health.clustering import Ranges
from airflow_iceberg_compaction.health.manifests import (
    CONTENT,
    CONTENT_SIZE,
    EQUALITY_DELETES,
    FILE_FORMAT,
    FILE_PATH,
    FILE_SIZE,
    LOWER_BOUNDS,
    PARTITION,
    PATH_COLUMN,
    RECORD_COUNT,
    REFERENCED_DATA_FILE,
    UPPER_BOUNDS,
    Manifest,
    Projection,
    live_entries,
)
from airflow_iceberg_compaction.health.model import PartitionTuple
from airflow_iceberg_compaction.health.types import primitive_type


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is counted. Two summaries of one manifest are equal if and only if their measures are."""

    small_below_bytes: int
    oversized_above_bytes: int
    spec_fields: Mapping[int, tuple[int, ...]]  # spec id -> its partition field ids
    order_column: int | None = None  # field id of the leading sort column
    order_type: str = ""
    with_paths: bool = False  # remember which data files there are, to tell deletes whose file is gone

    def key(self, spec_id: int) -> str:
        """Identifies what is counted in manifests of ``spec_id``."""
        return f"{self._sizes_and_order()}/{self.spec_fields[spec_id]}/{int(self.with_paths)}"

    def table_key(self) -> str:
        """Identifies what is counted in a whole snapshot."""
        return f"{self._sizes_and_order()}/{sorted(self.spec_fields.items())}"

    def _sizes_and_order(self) -> str:
        return f"{self.small_below_bytes}/{self.oversized_above_bytes}/{self.order_column}/{self.order_type}"


@dataclass(frozen=True, slots=True)
class SnapshotFact:
    """What the snapshot log knows about the snapshot that added a file."""

    timestamp_ms: int
    is_rewrite: bool  # replaced files without changing rows: its files are not new data
    is_ours: bool  # carries our stamp


UNKNOWN = -1  # a time that no known snapshot tells; earlier than any


@dataclass(slots=True)
class DataRow:
    files: int = 0
    bytes: int = 0
    rows: int = 0
    small_files: int = 0
    small_bytes: int = 0
    oversized_files: int = 0
    min_sequence: int = 2**63 - 1
    newest_ms: int = UNKNOWN
    compacted_ms: int = UNKNOWN
    histogram: dict[int, int] = field(default_factory=dict)
    ranges: Ranges | None = None


@dataclass(slots=True)
class DeleteRow:
    position_files: int = 0
    file_scoped_files: int = 0
    equality_files: int = 0
    vectors: int = 0
    bytes: int = 0
    position_rows: int = 0
    equality_rows: int = 0
    position_sequences: dict[int, int] = field(default_factory=dict)  # of partition-scoped ones: number -> files
    equality_sequences: dict[int, int] = field(default_factory=dict)
    targets: list[tuple[int, int]] = field(default_factory=list)  # of vectors and file-scoped ones: number, path hash


@dataclass(slots=True)
class Summary:
    data: dict[PartitionTuple, DataRow] = field(default_factory=dict)
    deletes: dict[PartitionTuple, DeleteRow] = field(default_factory=dict)
    path_hashes: array[int] = field(default_factory=lambda: array("Q"))


def summarize(
    manifest: Manifest, data: bytes, measure: Measure, log: Mapping[int, SnapshotFact], *, checked: bool = True
) -> Summary:
    """Counts the live entries of one manifest; raises `ManifestError`. ``checked`` is that of `AvroFile.records`."""
    if manifest.holds_deletes:
        return _summarize_deletes(manifest, data, measure)
    summary = Summary()
    times = {
        snapshot: (UNKNOWN if fact.is_rewrite else fact.timestamp_ms, fact.timestamp_ms if fact.is_ours else UNKNOWN)
        for snapshot, fact in log.items()
    }
    for entries in live_entries(
        manifest, data, _data_projection(measure), measure.spec_fields[manifest.spec_id], checked=checked
    ):
        _count_files(summary, entries, measure, times)
        if measure.with_paths:
            summary.path_hashes.extend([path_hash(entry[6]) for entry in entries])
        if measure.order_column is not None:
            _add_ranges(summary, entries, measure)
    return summary


def path_hash(path: bytes) -> int:
    """64 bits that stand for a file's path, the same in every process.

    Two cheap checksums instead of a cryptographic hash, because every data file of a table with deletes is hashed.
    Paths end in random names, so the chance that a lost file's checksums are those of another is nil.
    """
    return zlib.crc32(path) | zlib.adler32(path) << 32


def _data_projection(measure: Measure) -> Projection:
    fields: tuple[int, ...] = (PARTITION, RECORD_COUNT, FILE_SIZE)
    if measure.with_paths:
        fields += (FILE_PATH,)
    if measure.order_column is None:
        return Projection(fields, raw_paths=True)
    return Projection((*fields, LOWER_BOUNDS, UPPER_BOUNDS), frozenset({measure.order_column}), raw_paths=True)


def _count_files(
    summary: Summary, entries: list[tuple[Any, ...]], measure: Measure, times: Mapping[int, tuple[int, int]]
) -> None:
    """The innermost loop of an assessment: once for every file of the table."""
    rows = summary.data
    small_below, oversized_above = measure.small_below_bytes, measure.oversized_above_bytes
    unknown = (UNKNOWN, UNKNOWN)
    for _, snapshot, sequence, partition, records, size, *_ in entries:
        row = rows.get(partition)
        if row is None:
            row = rows[partition] = DataRow()
        row.files += 1
        row.bytes += size
        row.rows += records
        if size < small_below:
            row.small_files += 1
            row.small_bytes += size
        if size > oversized_above:
            row.oversized_files += 1
        if sequence < row.min_sequence:
            row.min_sequence = sequence
        bucket = size.bit_length() - 1 if size else 0
        histogram = row.histogram
        histogram[bucket] = histogram.get(bucket, 0) + 1
        added, compacted = times.get(snapshot, unknown)
        if added > row.newest_ms:
            row.newest_ms = added
        if compacted > row.compacted_ms:
            row.compacted_ms = compacted


def _add_ranges(summary: Summary, entries: list[tuple[Any, ...]], measure: Measure) -> None:
    from pyiceberg.conversions import from_bytes

    column, kind = measure.order_column, primitive_type(measure.order_type)
    for entry in entries:
        row = summary.data[entry[3]]
        low, high = ((bounds or {}).get(column) for bounds in entry[-2:])
        if row.ranges is None:
            row.ranges = Ranges()
        if low is None or high is None:
            row.ranges.add(None, None)
        else:
            row.ranges.add(from_bytes(kind, low), from_bytes(kind, high))


def _summarize_deletes(manifest: Manifest, data: bytes, measure: Measure) -> Summary:
    summary = Summary()
    fields = (
        PARTITION, RECORD_COUNT, FILE_SIZE, CONTENT, FILE_FORMAT, LOWER_BOUNDS, UPPER_BOUNDS,
        REFERENCED_DATA_FILE, CONTENT_SIZE,
    )  # fmt: skip
    projection = Projection(fields, frozenset({PATH_COLUMN}))
    blocks = live_entries(manifest, data, projection, measure.spec_fields[manifest.spec_id])
    for entry in (entry for block in blocks for entry in block):
        _, _, sequence, partition, records, size, content, file_format, lower, upper, referenced, content_size = entry
        row = summary.deletes.setdefault(partition, DeleteRow())
        if content == EQUALITY_DELETES:
            row.equality_files += 1
            row.equality_rows += records
            row.bytes += size
            row.equality_sequences[sequence] = row.equality_sequences.get(sequence, 0) + 1
            continue
        row.position_rows += records
        if is_deletion_vector(file_format):
            row.vectors += 1
            # Many vectors share one Puffin file: its size is not theirs.
            row.bytes += size if content_size is None else content_size
            row.targets.append((sequence, path_hash((referenced or "").encode())))
            continue
        row.position_files += 1
        row.bytes += size
        target = referenced_file(referenced, lower, upper)
        if target is None:
            row.position_sequences[sequence] = row.position_sequences.get(sequence, 0) + 1
        else:
            row.file_scoped_files += 1
            row.targets.append((sequence, path_hash(target.encode())))
    return summary


def is_deletion_vector(file_format: str) -> bool:
    return file_format.upper() == "PUFFIN"


def referenced_file(
    referenced: str | None, lower: Mapping[int, bytes] | None, upper: Mapping[int, bytes] | None
) -> str | None:
    """The one data file that a position-delete file is about, or None if it may be about several."""
    if referenced is not None:
        return referenced
    low = (lower or {}).get(PATH_COLUMN)
    high = (upper or {}).get(PATH_COLUMN)
    return low.decode("utf-8") if low is not None and low == high else None

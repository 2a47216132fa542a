"""Adds manifest summaries up to partitions. Data first, then deletes: whether a delete applies depends on all data."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_iceberg_compaction.health.clustering import Ranges
from airflow_iceberg_compaction.health.model import PartitionHealth, PartitionTuple
from airflow_iceberg_compaction.health.summary import UNKNOWN, DataRow, DeleteRow, Summary

Key = tuple[int, PartitionTuple]

HASHES_AT_ONCE = 1_000_000


@dataclass(slots=True)
class _Deletes:
    position_files: int = 0
    file_scoped_files: int = 0
    equality_files: int = 0
    vectors: int = 0
    bytes: int = 0
    position_rows: int = 0
    equality_rows: int = 0
    dangling: int = 0


class Totals:
    """Running totals per partition; memory grows with partitions, not with files.

    One exception: with deletes around, eight bytes per data file, to tell deletes whose file is gone.
    """

    def __init__(self, unpartitioned_specs: Collection[int]) -> None:
        self.global_equality_files = 0  # that apply to files of other specs
        self._unpartitioned_specs = unpartitioned_specs
        self._data: dict[Key, DataRow] = {}
        self._deletes: dict[Key, _Deletes] = {}
        self._oldest_elsewhere: dict[int, int | None] = {}
        self._path_hashes = array("Q")
        self._targeted = _Targeted()

    def add_data(self, spec_id: int, summary: Summary) -> None:
        for partition, row in summary.data.items():
            total = self._data.get((spec_id, partition))
            if total is None:
                self._data[spec_id, partition] = row
            else:
                _add(total, row)
        self._path_hashes.extend(summary.path_hashes)

    def add_deletes(self, spec_id: int, summary: Summary) -> None:
        """Every data manifest must have been added before."""
        for partition, row in summary.deletes.items():
            total = self._deletes.setdefault((spec_id, partition), _Deletes())
            total.position_files += row.position_files
            total.file_scoped_files += row.file_scoped_files
            total.equality_files += row.equality_files
            total.vectors += row.vectors
            total.bytes += row.bytes
            total.position_rows += row.position_rows
            total.equality_rows += row.equality_rows
            total.dangling += self._dangling((spec_id, partition), row)

    def _dangling(self, key: Key, row: DeleteRow) -> int:
        """How many of these deletes apply to no live data file, by Iceberg's own rule.

        A position delete applies to data that is as old or older, an equality delete only to older data. Equality
        deletes of an unpartitioned spec apply to the whole table, whatever spec its files have. Deletes of one file
        are kept for `partitions`, which knows whether it is still there.
        """
        data = self._data.get(key)
        oldest = None if data is None else data.min_sequence
        dangling = sum(n for sequence, n in row.position_sequences.items() if oldest is None or sequence < oldest)
        for sequence, target in row.targets:
            if oldest is None or sequence < oldest:
                dangling += 1
            else:
                self._targeted.add(key, target)
        if key[0] in self._unpartitioned_specs:
            elsewhere = self._oldest_of_other_specs(key[0])
            for sequence, n in row.equality_sequences.items():
                if elsewhere is not None and sequence > elsewhere:
                    self.global_equality_files += n
                elif oldest is None or sequence <= oldest:
                    dangling += n
        else:
            dangling += sum(n for sequence, n in row.equality_sequences.items() if oldest is None or sequence <= oldest)
        return dangling

    def _oldest_of_other_specs(self, spec_id: int) -> int | None:
        if spec_id not in self._oldest_elsewhere:
            sequences = (row.min_sequence for (spec, _), row in self._data.items() if spec != spec_id)
            self._oldest_elsewhere[spec_id] = min(sequences, default=None)
        return self._oldest_elsewhere[spec_id]

    def partitions(self) -> Iterator[PartitionHealth]:
        """Every partition with a live file of any kind, data or delete."""
        for key, lost in self._targeted.without_file(self._path_hashes).items():
            self._deletes[key].dangling += lost
        self._targeted = _Targeted()
        nothing, no_deletes = DataRow(), _Deletes()
        for key in [*self._data, *(key for key in self._deletes if key not in self._data)]:
            data, deletes = self._data.get(key, nothing), self._deletes.get(key, no_deletes)
            delete_files = deletes.position_files + deletes.equality_files + deletes.vectors
            yield PartitionHealth(
                spec_id=key[0],
                partition=key[1],
                data_files=data.files,
                data_bytes=data.bytes,
                rows=data.rows,
                small_files=data.small_files,
                small_bytes=data.small_bytes,
                oversized_files=data.oversized_files,
                size_histogram=dict(sorted(data.histogram.items())),
                position_delete_files=deletes.position_files,
                file_scoped_position_delete_files=deletes.file_scoped_files,
                equality_delete_files=deletes.equality_files,
                deletion_vectors=deletes.vectors,
                delete_bytes=deletes.bytes,
                position_delete_rows=deletes.position_rows,
                equality_delete_rows=deletes.equality_rows,
                applied_delete_files=delete_files - deletes.dangling,
                dangling_delete_files=deletes.dangling,
                newest_file_ms=None if data.newest_ms == UNKNOWN else data.newest_ms,
                last_compaction_ms=None if data.compacted_ms == UNKNOWN else data.compacted_ms,
            )

    def clustering_debt(self) -> float | None:
        """The share of files whose sort-key range overlaps another one of their partition; None when unknown."""
        files = overlapping = 0
        for row in self._data.values():
            if row.ranges is None or row.ranges.overlapping_files is None:
                return None
            files += row.ranges.files - row.ranges.unknown
            overlapping += row.ranges.overlapping_files
        return overlapping / files if files else None


class _Targeted:
    """Deletes of one data file each, by the hash of its path; sixteen bytes each."""

    def __init__(self) -> None:
        self._keys: dict[Key, int] = {}
        self._targets = array("Q")
        self._owners = array("Q")

    def add(self, key: Key, target: int) -> None:
        self._targets.append(target)
        self._owners.append(self._keys.setdefault(key, len(self._keys)))

    def without_file(self, path_hashes: array[int]) -> dict[Key, int]:
        """How many deletes of each partition refer to none of the files ``path_hashes`` stands for."""
        if not self._targets:
            return {}
        import pyarrow.compute

        targets, owners, known = (_as_arrow(numbers) for numbers in (self._targets, self._owners, path_hashes))
        for start in range(0, len(known), HASHES_AT_ONCE):
            found = pyarrow.compute.is_in(targets, value_set=known.slice(start, HASHES_AT_ONCE))
            lost = pyarrow.compute.invert(found)
            targets, owners = targets.filter(lost), owners.filter(lost)
        keys = list(self._keys)
        return {keys[count["values"]]: count["counts"] for count in owners.value_counts().to_pylist()}


def _as_arrow(numbers: array[int]) -> Any:
    import pyarrow

    return pyarrow.Array.from_buffers(pyarrow.uint64(), len(numbers), [None, pyarrow.py_buffer(numbers)])


def _add(total: DataRow, row: DataRow) -> None:
    total.files += row.files
    total.bytes += row.bytes
    total.rows += row.rows
    total.small_files += row.small_files
    total.small_bytes += row.small_bytes
    total.oversized_files += row.oversized_files
    total.min_sequence = min(total.min_sequence, row.min_sequence)
    total.newest_ms = max(total.newest_ms, row.newest_ms)
    total.compacted_ms = max(total.compacted_ms, row.compacted_ms)
    for bucket, count in row.histogram.items():
        total.histogram[bucket] = total.histogram.get(bucket, 0) + count
    if row.ranges is not None:
        total.ranges = total.ranges or Ranges()
        total.ranges.merge(row.ranges)

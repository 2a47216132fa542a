"""Which delete files Iceberg attaches to a data file: the rules of its ``DeleteFileIndex``."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.health.model import PartitionTuple

if TYPE_CHECKING:
    from pyiceberg.types import NestedField

Key = tuple[int, PartitionTuple]
Bounds = Mapping[int, bytes] | None
Counts = Mapping[int, int] | None


@dataclass(slots=True)
class Statistics:
    """Column statistics of one file; None where the writer kept none."""

    lower: Bounds
    upper: Bounds
    value_counts: Counts
    null_counts: Counts


@dataclass(slots=True)
class EqualityDelete:
    sequence: int
    columns: tuple[int, ...]
    statistics: Statistics
    ranges: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # converted once, compared often


@dataclass(slots=True)
class Attached:
    files: int = 0
    file_scoped_rows: int = 0


class DeleteIndex:
    """The live delete files of some partitions, by what they apply to."""

    def __init__(self, fields: Mapping[int, NestedField]) -> None:
        self._fields = fields  # of every schema the table ever had, by id
        self._global: list[EqualityDelete] = []
        self._equality: dict[Key, list[EqualityDelete]] = {}
        self._position: dict[Key, list[int]] = {}
        self._by_path: dict[str, list[tuple[int, int]]] = {}
        self._vectors: dict[str, int] = {}

    def add_equality(self, key: Key, delete: EqualityDelete, *, is_global: bool) -> None:
        (self._global if is_global else self._equality.setdefault(key, [])).append(delete)

    def add_position(self, key: Key, sequence: int) -> None:
        """A position-delete file that may be about any data file of its partition."""
        self._position.setdefault(key, []).append(sequence)

    def add_file_scoped(self, path: str, sequence: int, rows: int) -> None:
        self._by_path.setdefault(path, []).append((sequence, rows))

    def add_vector(self, path: str, rows: int) -> None:
        self._vectors[path] = rows

    @property
    def equality_columns(self) -> frozenset[int]:
        """The columns whose statistics `attached` compares."""
        deletes = [*self._global, *(delete for group in self._equality.values() for delete in group)]
        return frozenset(column for delete in deletes for column in delete.columns)

    def attached(self, key: Key, path: str, sequence: int, statistics: Statistics) -> Attached:
        """What a reader of this data file must apply. A deletion vector replaces all position deletes of its file."""
        result = Attached()
        for delete in (*self._global, *self._equality.get(key, ())):
            result.files += delete.sequence > sequence and self._may_match(delete, statistics)
        vector_rows = self._vectors.get(path)
        if vector_rows is not None:
            result.files += 1
            result.file_scoped_rows += vector_rows
            return result
        result.files += sum(delete >= sequence for delete in self._position.get(key, ()))
        for delete_sequence, rows in self._by_path.get(path, ()):
            if delete_sequence >= sequence:
                result.files += 1
                result.file_scoped_rows += rows
        return result

    def _may_match(self, delete: EqualityDelete, data: Statistics) -> bool:
        """Whether column statistics leave it open that the equality delete removes a row of the data file."""
        has_ranges = None not in (data.lower, data.upper, delete.statistics.lower, delete.statistics.upper)
        for column in delete.columns:
            field = self._fields.get(column)
            if field is None or not field.field_type.is_primitive:
                continue
            required = field.required
            if _contains_null(data.null_counts, column, required) and _contains_null(
                delete.statistics.null_counts, column, required
            ):
                continue
            if _all_null(data, column, required) and _no_null(delete.statistics.null_counts, column, required):
                return False
            if _all_null(delete.statistics, column, required) and _no_null(data.null_counts, column, required):
                return False
            if has_ranges and not self._ranges_overlap(delete, data, field):
                return False
        return True

    def _ranges_overlap(self, delete: EqualityDelete, data: Statistics, field: NestedField) -> bool:
        from pyiceberg.conversions import from_bytes

        column, kind = field.field_id, field.field_type
        bounds = [
            (source or {}).get(column)
            for source in (data.lower, data.upper, delete.statistics.lower, delete.statistics.upper)
        ]
        data_lower, data_upper, delete_lower, delete_upper = bounds
        if data_lower is None or data_upper is None or delete_lower is None or delete_upper is None:
            return True
        try:
            if column not in delete.ranges:
                delete.ranges[column] = (from_bytes(kind, delete_lower), from_bytes(kind, delete_upper))  # type: ignore[arg-type]
            low, high = delete.ranges[column]
            return bool(from_bytes(kind, data_lower) <= high and low <= from_bytes(kind, data_upper))  # type: ignore[arg-type]
        except struct.error:  # written before the column was promoted to a wider type
            return True


def _contains_null(null_counts: Counts, column: int, required: bool) -> bool:
    if required:
        return False
    count = None if null_counts is None else null_counts.get(column)
    return count is None or count > 0


def _no_null(null_counts: Counts, column: int, required: bool) -> bool:
    if required:
        return True
    count = None if null_counts is None else null_counts.get(column)
    return count is not None and count <= 0


def _all_null(statistics: Statistics, column: int, required: bool) -> bool:
    if required or statistics.null_counts is None or statistics.value_counts is None:
        return False
    nulls, values = statistics.null_counts.get(column), statistics.value_counts.get(column)
    return nulls is not None and nulls == values

"""The JSON form of summaries and judgements: for the cache, and for worker processes.

Numbers lie in a few long lists instead of many short ones, because Python builds and scans containers slowly: this is
what a warm assessment spends its time on.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from airflow_iceberg_compaction.health.clustering import Ranges
from airflow_iceberg_compaction.health.model import NAN, MetadataHealth, PartitionHealth, PartitionTuple
from airflow_iceberg_compaction.health.summary import DataRow, DeleteRow, Summary

DATA_NUMBERS = (
    "files", "bytes", "rows", "small_files", "small_bytes", "oversized_files", "min_sequence", "newest_ms",
    "compacted_ms",
)  # fmt: skip
DELETE_NUMBERS = (
    "position_files", "file_scoped_files", "equality_files", "vectors", "bytes", "position_rows", "equality_rows",
)  # fmt: skip
HEALTH_NUMBERS = (
    "spec_id", "data_files", "data_bytes", "rows", "small_files", "small_bytes", "oversized_files",
    "position_delete_files", "file_scoped_position_delete_files", "equality_delete_files", "deletion_vectors",
    "delete_bytes", "position_delete_rows", "equality_delete_rows", "applied_delete_files", "dangling_delete_files",
    "newest_file_ms", "last_compaction_ms",
)  # fmt: skip


def dump_summary(summary: Summary) -> bytes:
    """``load_summary(dump_summary(x)) == x``; NaN comes back as the one `NAN`."""
    data, deletes = list(summary.data.values()), list(summary.deletes.values())
    return _dump(
        [
            _dump_tuples(summary.data),
            [getattr(row, name) for row in data for name in DATA_NUMBERS],
            _dump_maps(row.histogram for row in data),
            [None if row.ranges is None else row.ranges.dump(encode_value) for row in data]
            if any(row.ranges for row in data)
            else None,
            _dump_tuples(summary.deletes),
            [getattr(row, name) for row in deletes for name in DELETE_NUMBERS],
            _dump_maps(row.position_sequences for row in deletes),
            _dump_maps(row.equality_sequences for row in deletes),
            [row.targets for row in deletes],
            base64.b64encode(summary.path_hashes.tobytes()).decode("ascii"),
        ]
    )


def load_summary(text: bytes) -> Summary:
    (
        tuples, numbers, histograms, ranges, delete_tuples, delete_numbers, positions, equalities, targets, hashes,
    ) = json.loads(text)  # fmt: skip
    path_hashes = array("Q")
    path_hashes.frombytes(base64.b64decode(hashes))
    summary = Summary(path_hashes=path_hashes)
    rows = zip(_load_tuples(tuples), _groups(numbers, len(DATA_NUMBERS)), _load_maps(histograms), strict=True)
    for partition, values, histogram in rows:
        row = summary.data[partition] = DataRow(*values)
        row.histogram = histogram
    for row, chains in zip(summary.data.values(), ranges or (), strict=False):
        row.ranges = None if chains is None else Ranges.load(chains, decode_value)
    for partition, values, position, equality, targeted in zip(
        _load_tuples(delete_tuples),
        _groups(delete_numbers, len(DELETE_NUMBERS)),
        _load_maps(positions),
        _load_maps(equalities),
        targets,
        strict=True,
    ):
        deleted = summary.deletes[partition] = DeleteRow(*values)
        deleted.position_sequences, deleted.equality_sequences = position, equality
        deleted.targets = [(sequence, target) for sequence, target in targeted]
    return summary


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What was found out about one snapshot."""

    partitions: tuple[PartitionHealth, ...]
    metadata: MetadataHealth
    global_equality_delete_files: int = 0
    clustering_debt: float | None = None
    manifests_read: int = field(default=0, compare=False)
    manifests_cached: int = field(default=0, compare=False)


def dump_judgement(judgement: Judgement) -> bytes:
    """``load_judgement(dump_judgement(x)) == x``."""
    metadata = judgement.metadata
    return _dump(
        [
            _dump_tuples(p.partition for p in judgement.partitions),
            [getattr(p, name) for p in judgement.partitions for name in HEALTH_NUMBERS],
            _dump_maps(p.size_histogram for p in judgement.partitions),
            [metadata.snapshots, metadata.data_manifests, metadata.delete_manifests, metadata.manifest_bytes],
            [[spec, *numbers] for spec, numbers in metadata.manifests_by_spec.items()],
            [metadata.target_manifest_bytes, metadata.metadata_json_bytes],
            judgement.global_equality_delete_files,
            judgement.clustering_debt,
        ]
    )


def load_judgement(text: bytes) -> Judgement:
    tuples, numbers, histograms, counts, by_spec, sizes, global_deletes, debt = json.loads(text)
    rows = zip(_load_tuples(tuples), _groups(numbers, len(HEALTH_NUMBERS)), _load_maps(histograms), strict=True)
    return Judgement(
        partitions=tuple(
            PartitionHealth(
                partition=partition, size_histogram=histogram, **dict(zip(HEALTH_NUMBERS, values, strict=True))
            )
            for partition, values, histogram in rows
        ),
        metadata=MetadataHealth(
            snapshots=counts[0],
            data_manifests=counts[1],
            delete_manifests=counts[2],
            manifest_bytes=counts[3],
            manifests_by_spec={spec: (count, size) for spec, count, size in by_spec},
            target_manifest_bytes=sizes[0],
            metadata_json_bytes=sizes[1],
        ),
        global_equality_delete_files=global_deletes,
        clustering_debt=debt,
    )


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _dump_tuples(tuples: Iterable[PartitionTuple]) -> list[Any]:
    """Widths differ between specs, so each width comes before its values."""
    flat: list[Any] = []
    for values in tuples:
        flat.append(len(values))
        flat += [encode_value(value) for value in values]
    return flat


def _load_tuples(flat: list[Any]) -> Iterator[PartitionTuple]:
    position, end = 0, len(flat)
    while position < end:
        start = position + 1
        position = start + flat[position]
        values = flat[start:position]
        for value in values:
            if value.__class__ is dict:
                values = [decode_value(v) for v in values]
                break
        yield tuple(values)


def _dump_maps(maps: Iterable[Mapping[int, int]]) -> list[int]:
    flat: list[int] = []
    for mapping in maps:
        flat.append(len(mapping))
        flat += mapping.keys()
        flat += mapping.values()
    return flat


def _load_maps(flat: list[int]) -> Iterator[dict[int, int]]:
    position, end = 0, len(flat)
    while position < end:
        size = flat[position]
        middle = position + 1 + size
        yield dict(zip(flat[position + 1 : middle], flat[middle : middle + size], strict=True))
        position = middle + size


def _groups(flat: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    return zip(*[iter(flat)] * size, strict=True)


def encode_value(value: Any) -> Any:
    """A partition value or bound as JSON; what JSON has no word for becomes a one-key object."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"f": repr(value)}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, Decimal):
        return {"d": str(value)}
    if isinstance(value, UUID):
        return {"u": value.hex}
    raise TypeError(f"{value!r} is no partition value")


def decode_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    [(kind, text)] = value.items()
    match kind:
        case "f":
            return NAN if text == "nan" else float(text)
        case "b":
            return bytes.fromhex(text)
        case "d":
            return Decimal(text)
        case "u":
            return UUID(text)
    raise ValueError(f"{value!r} is no partition value")

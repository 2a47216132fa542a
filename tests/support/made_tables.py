"""Tables made of manifests alone: every entry says exactly what a test wants, and no data file exists."""

from __future__ import annotations

import itertools
import json
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    construct_partition_summaries,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import Record

PATH_COLUMN = 2147483546
SNAPSHOT_TIME_MS = 1_700_000_000_000

_numbers = itertools.count(1)


@dataclass
class File:
    """One manifest entry. ``sequence`` and ``snapshot`` None: inherited from the manifest list."""

    partition: tuple[Any, ...] = ()
    size: int = 1000
    rows: int = 10
    content: int = 0
    path: str = field(default_factory=lambda: f"file:///data/{next(_numbers):06d}.parquet")
    format: str = "PARQUET"
    status: int = 1
    sequence: int | None = None
    snapshot: int | None = None
    lower: dict[int, bytes] | None = None
    upper: dict[int, bytes] | None = None
    value_counts: dict[int, int] | None = None
    null_counts: dict[int, int] | None = None
    equality_ids: list[int] | None = None
    referenced: str | None = None
    content_size: int | None = None


def position_delete(partition: tuple[Any, ...] = (), *, target: str | None = None, **kwargs: Any) -> File:
    """File-scoped if ``target`` is given, by equal path bounds as writers of format 2 do it."""
    bounds = (f"{target}".encode(),) * 2 if target else (b"file:///data/0", b"file:///data/9")
    return File(partition, content=1, lower={PATH_COLUMN: bounds[0]}, upper={PATH_COLUMN: bounds[1]}, **kwargs)


def equality_delete(partition: tuple[Any, ...] = (), *, ids: Sequence[int] = (1,), **kwargs: Any) -> File:
    return File(partition, content=2, equality_ids=list(ids), **kwargs)


def deletion_vector(partition: tuple[Any, ...] = (), *, target: str, **kwargs: Any) -> File:
    return File(partition, content=1, format="PUFFIN", referenced=target, **kwargs)


def long_bytes(value: int) -> bytes:
    return struct.pack("<q", value)


class TableMaker:
    """Collects manifests and snapshots, and makes a PyIceberg table of them."""

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        *specs: PartitionSpec,
        format_version: int = 2,
        properties: dict[str, str] | None = None,
        sort_order: list[dict[str, Any]] | None = None,
    ) -> None:
        self.folder = folder
        self.schema = schema
        self.specs = specs or (PartitionSpec(),)
        self.format_version = format_version
        self.properties = properties or {}
        self.sort_order = sort_order or []
        self.io = PyArrowFileIO()
        self.snapshots: list[dict[str, Any]] = []
        self.refs: dict[str, Any] = {}
        self.uuid = str(uuid.uuid4())

    def manifest(
        self,
        files: Sequence[File],
        *,
        spec_id: int = 0,
        deletes: bool = False,
        sequence: int = 1,
        snapshot: int = 1,
        codec: str = "deflate",
        block_size: int = 3,
        file_schema: Schema | None = None,
    ) -> ManifestFile:
        spec = next(spec for spec in self.specs if spec.spec_id == spec_id)
        schema = file_schema or self.schema
        version: Any = self.format_version
        partition_type = spec.partition_type(schema)
        entry_schema = manifest_entry_schema_with_data_file(version, data_file_with_partition(partition_type, version))
        path = f"file://{self.folder}/{uuid.uuid4()}-m0.avro"
        metadata = {"format-version": str(version), "partition-spec-id": str(spec_id), "avro.codec": codec}
        entries = [self._entry(file, snapshot) for file in files]
        with AvroOutputFile(
            self.io.new_output(path), file_schema=entry_schema, schema_name="manifest_entry", metadata=metadata
        ) as writer:
            for start in range(0, len(entries), block_size):
                writer.write_block(entries[start : start + block_size])
        live = [file for file in files if file.status != 2]
        added = sum(file.status == 1 for file in files)
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=len(self.io.new_input(path)),
            partition_spec_id=spec_id,
            content=ManifestContent.DELETES if deletes else ManifestContent.DATA,
            sequence_number=0 if version == 1 else sequence,
            min_sequence_number=0,
            added_snapshot_id=snapshot,
            added_files_count=added,
            existing_files_count=len(live) - added,
            deleted_files_count=len(files) - len(live),
            added_rows_count=0,
            existing_rows_count=0,
            deleted_rows_count=0,
            partitions=construct_partition_summaries(spec, schema, [Record(*file.partition) for file in files]),
            key_metadata=None,
        )

    def _entry(self, file: File, snapshot: int) -> ManifestEntry:
        version: Any = self.format_version
        values: dict[str, Any] = {
            "file_path": file.path,
            "file_format": FileFormat(file.format),
            "partition": Record(*file.partition),
            "record_count": file.rows,
            "file_size_in_bytes": file.size,
            "lower_bounds": file.lower,
            "upper_bounds": file.upper,
            "value_counts": file.value_counts,
            "null_value_counts": file.null_counts,
        }
        numbers: dict[str, Any] = {"status": ManifestEntryStatus(file.status), "snapshot_id": file.snapshot}
        if version == 1:
            values["block_size_in_bytes"] = 1
            numbers["snapshot_id"] = snapshot if file.snapshot is None else file.snapshot
        else:
            values |= {"content": DataFileContent(file.content), "equality_ids": file.equality_ids}
            numbers |= {"sequence_number": file.sequence, "file_sequence_number": file.sequence}
        if version == 3:
            values |= {"referenced_data_file": file.referenced, "content_size_in_bytes": file.content_size}
        data_file = DataFile.from_args(_table_format_version=version, **values)
        return ManifestEntry.from_args(_table_format_version=version, **numbers, data_file=data_file)

    def snapshot(
        self,
        *manifests: ManifestFile,
        snapshot_id: int = 1,
        sequence: int | None = None,
        timestamp_ms: int | None = None,
        operation: str = "append",
        stamp: str | None = None,
        branch: str = "main",
    ) -> None:
        sequence = snapshot_id if sequence is None else sequence
        path = f"file://{self.folder}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
        version: Any = 1 if self.format_version == 1 else 2
        parent = self.snapshots[-1]["snapshot-id"] if self.snapshots else None
        with write_manifest_list(version, self.io.new_output(path), snapshot_id, parent, sequence, "deflate") as writer:
            writer.add_manifests(list(manifests))
        summary = {"operation": operation} | ({"iceberg-compaction.run-id": stamp} if stamp else {})
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": SNAPSHOT_TIME_MS + snapshot_id * 1000 if timestamp_ms is None else timestamp_ms,
            "manifest-list": path,
            "summary": summary,
            "schema-id": 0,
        }
        if self.format_version > 1:
            snapshot["sequence-number"] = sequence
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        if self.format_version == 3:
            snapshot |= {"first-row-id": 0, "added-rows": 0}
        self.snapshots.append(snapshot)
        self.refs[branch] = {"snapshot-id": snapshot_id, "type": "branch"}

    def table(self, **changes: Any) -> Table:
        """The table as it stands; ``changes`` overwrite keys of metadata.json (underscores for dashes)."""
        main = self.refs.get("main", {}).get("snapshot-id")
        document: dict[str, Any] = {
            "format-version": self.format_version,
            "table-uuid": self.uuid,
            "location": f"file://{self.folder}",
            "last-updated-ms": SNAPSHOT_TIME_MS + 10**9,
            "last-column-id": self.schema.highest_field_id,
            "schemas": [json.loads(self.schema.model_dump_json())],
            "current-schema-id": self.schema.schema_id,
            "partition-specs": [json.loads(spec.model_dump_json()) for spec in self.specs],
            "default-spec-id": self.specs[-1].spec_id,
            "last-partition-id": 1999,
            "properties": self.properties,
            "snapshots": self.snapshots,
            "refs": self.refs,
            "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": self.sort_order}],
            "default-sort-order-id": 1 if self.sort_order else 0,
        }
        if main is not None:
            document["current-snapshot-id"] = main
        if self.format_version == 1:
            document |= {"schema": document["schemas"][0], "partition-spec": document["partition-specs"][-1]["fields"]}
        else:
            document["last-sequence-number"] = 1000
        if self.format_version == 3:
            document["next-row-id"] = 10**9
        document |= {key.replace("_", "-"): value for key, value in changes.items()}
        location = f"{self.folder}/v1.metadata.json"
        Path(location).write_text(json.dumps(document), encoding="utf-8")
        return Table(
            identifier=("db", "made"),
            metadata=TableMetadataUtil.parse_obj(document),
            metadata_location=f"file://{location}",
            io=self.io,
            catalog=NoopCatalog("made"),
        )

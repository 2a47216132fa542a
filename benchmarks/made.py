"""Makes Iceberg tables of N data files for benchmarks: manifests as Java writes them, and no data files at all.

Java writes manifests of about 8 MB, deflated, in blocks of about 64 kB. Bounds and counts are there for every column,
as in real tables: stepping over them is what a reader of manifests spends its time on.
"""

from __future__ import annotations

import json
import random
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    ManifestContent,
    ManifestFile,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

COLUMNS = 20
BUCKETS = 16
FIRST_DAY = 19_723
PATH_COLUMN, POSITION_COLUMN = 2147483546, 2147483545
SNAPSHOT = 1234567890123456789
BLOCK_BYTES = 64_000
SYNC = bytes(range(16))

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestamptzType()),
    *(NestedField(n, f"c{n}", (StringType(), LongType(), DoubleType())[n % 3]) for n in range(3, COLUMNS + 1)),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, DayTransform(), "ts_day"), PartitionField(1, 1001, BucketTransform(BUCKETS), "id_bucket")
)


def load_table(folder: Path) -> Table:
    return _catalog(folder).load_table("db.made")


def make_table(folder: Path, files: int, *, per_manifest: int | None = None, delete_share: float = 0.05) -> Table:
    """A table of ``files`` data files in time order, some with a position-delete file of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = _catalog(folder)
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table("db.made", SCHEMA, partition_spec=SPEC, properties={"format-version": "2"})
    metadata = folder / "warehouse" / "db" / "made" / "metadata"
    days = max(1, min(365, files // 100))
    partitions = [(FIRST_DAY + day, bucket) for day in range(days) for bucket in range(BUCKETS)]
    choose = random.Random(7)
    deletes: list[tuple[tuple[int, int], bytes]] = []
    per_manifest = per_manifest or 13_250  # about 8 MB

    def data() -> Iterator[tuple[tuple[int, int], bytes]]:
        for n in range(files):
            partition = partitions[n * len(partitions) // files]
            path = _path(partition, n, choose)
            if choose.random() < delete_share:
                deletes.append((partition, _delete_entry(partition, path, choose)))
            yield partition, _data_entry(partition, path, choose)

    manifests = list(_write_all(metadata, data(), per_manifest, ManifestContent.DATA, SNAPSHOT))
    manifests += _write_all(metadata, iter(deletes), per_manifest, ManifestContent.DELETES, SNAPSHOT)
    return _commit(catalog, table, manifests, metadata, SNAPSHOT, 1)


def add_manifest(folder: Path, files: int = 13_250) -> Table:
    """One more commit to an existing table: one manifest of ``files`` data files on the last day."""
    catalog = _catalog(folder)
    table = catalog.load_table("db.made")
    snapshot = table.current_snapshot()
    if snapshot is None:
        raise ValueError("the table has no snapshot; make it first")
    choose = random.Random(snapshot.snapshot_id)
    metadata = folder / "warehouse" / "db" / "made" / "metadata"
    partitions = [(FIRST_DAY + 364, n % BUCKETS) for n in range(files)]
    entries = ((p, _data_entry(p, _path(p, n, choose), choose)) for n, p in enumerate(partitions))
    snapshot_id = snapshot.snapshot_id + 1
    manifests = [
        *snapshot.manifests(table.io),
        *_write_all(metadata, entries, files, ManifestContent.DATA, snapshot_id),
    ]
    return _commit(catalog, table, manifests, metadata, snapshot_id, table.metadata.last_sequence_number + 1)


def _catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def _commit(
    catalog: SqlCatalog, table: Table, manifests: list[ManifestFile], metadata: Path, snapshot_id: int, sequence: int
) -> Table:
    path = f"file://{metadata}/snap-{snapshot_id}-{uuid.uuid4()}.avro"
    parent = table.metadata.current_snapshot_id
    with write_manifest_list(2, table.io.new_output(path), snapshot_id, parent, sequence, "deflate") as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent,
        sequence_number=sequence,
        timestamp_ms=int(time.time() * 1000) + sequence,
        manifest_list=path,
        summary=Summary(Operation.APPEND),
        schema_id=table.schema().schema_id,
    )
    head = SetSnapshotRefUpdate(
        ref_name="main",
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
    catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), head))
    return catalog.load_table("db.made")


def _write_all(
    metadata: Path,
    entries: Iterator[tuple[tuple[int, int], bytes]],
    per_manifest: int,
    content: ManifestContent,
    snapshot_id: int,
) -> Iterator[ManifestFile]:
    while True:
        part = [entry for _, entry in zip(range(per_manifest), entries, strict=False)]
        if not part:
            return
        yield _write(metadata / f"{uuid.uuid4()}-m0.avro", part, content, snapshot_id)


def _write(
    path: Path, entries: list[tuple[tuple[int, int], bytes]], content: ManifestContent, snapshot_id: int
) -> ManifestFile:
    partition_type = SPEC.partition_type(SCHEMA)
    entry_schema = manifest_entry_schema_with_data_file(2, data_file_with_partition(partition_type, 2))
    header = {
        "avro.schema": json.dumps(AvroSchemaConversion().iceberg_to_avro(entry_schema, schema_name="manifest_entry")),
        "avro.codec": "deflate",
        "format-version": "2",
        "partition-spec-id": "0",
        "content": "data" if content == ManifestContent.DATA else "deletes",
    }
    with path.open("wb") as out:
        out.write(b"Obj\x01" + _long(len(header)))
        for key, value in header.items():
            out.write(_string(key) + _string(value))
        out.write(_long(0) + SYNC)
        block: list[bytes] = []
        size = 0
        for _, entry in [*entries, ((0, 0), b"")]:
            if block and (not entry or size > BLOCK_BYTES):
                packer = zlib.compressobj(9, zlib.DEFLATED, -15)
                packed = packer.compress(b"".join(block)) + packer.flush()
                out.write(_long(len(block)) + _long(len(packed)) + packed + SYNC)
                block, size = [], 0
            block.append(entry)
            size += len(entry)
    ranges = [[partition[n] for partition, _ in entries] for n in (0, 1)]
    return ManifestFile.from_args(
        manifest_path=f"file://{path}",
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=content,
        sequence_number=-1,
        min_sequence_number=-1,
        added_snapshot_id=snapshot_id,
        added_files_count=len(entries),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=0,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[
            PartitionFieldSummary(False, False, struct.pack("<i", min(values)), struct.pack("<i", max(values)))
            for values in ranges
        ],
        key_metadata=None,
    )


# ---------------------------------------------------------------------------------------------------- Avro, by the byte


def _long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _string(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _long(len(data)) + data


def _counts(values: dict[int, int]) -> bytes:
    if not values:
        return b"\x02\x00"
    return b"\x02" + _long(len(values)) + b"".join(_long(k) + _long(v) for k, v in values.items()) + b"\x00"


def _bounds(values: dict[int, bytes]) -> bytes:
    return b"\x02" + _long(len(values)) + b"".join(_long(k) + _string(v) for k, v in values.items()) + b"\x00"


def _path(partition: tuple[int, int], n: int, choose: random.Random) -> str:
    day = time.strftime("%Y-%m-%d", time.gmtime(partition[0] * 86_400))
    return (
        f"s3://lake-prod-eu/warehouse/sales.db/events/data/ts_day={day}/id_bucket={partition[1]}/"
        f"{n % 200:05d}-{n}-{uuid.UUID(int=choose.getrandbits(128))}-0-00001.parquet"
    )


def _data_entry(partition: tuple[int, int], path: str, choose: random.Random) -> bytes:
    rows = choose.randint(1_000, 200_000)
    columns = range(1, COLUMNS + 1)
    return _entry(
        0, path, partition, rows, choose.randint(50_000, 600_000_000),
        {n: choose.randint(1_000, 5_000_000) for n in columns},
        dict.fromkeys(columns, rows),
        {n: choose.randint(0, 9) for n in columns},
        {n: 0 for n in columns if n > 2 and n % 3 == 2},
        {n: _bound(n, False, choose) for n in columns},
        {n: _bound(n, True, choose) for n in columns},
    )  # fmt: skip


def _delete_entry(partition: tuple[int, int], path: str, choose: random.Random) -> bytes:
    columns = (PATH_COLUMN, POSITION_COLUMN)
    return _entry(
        1, path.replace(".parquet", "-deletes.parquet"), partition, choose.randint(1, 500),
        choose.randint(1_000, 20_000), dict.fromkeys(columns, 300), dict.fromkeys(columns, 9), dict.fromkeys(columns, 0),
        {}, {PATH_COLUMN: path.encode(), POSITION_COLUMN: bytes(8)},
        {PATH_COLUMN: path.encode(), POSITION_COLUMN: struct.pack("<q", 9)},
    )  # fmt: skip


def _bound(column: int, upper: bool, choose: random.Random) -> bytes:
    if column <= 2 or column % 3 == 1:
        return struct.pack("<q", choose.getrandbits(50) + (1 << 50 if upper else 0))
    if column % 3 == 2:
        return struct.pack("<d", choose.random() * (1e6 if upper else 1.0))
    return bytes(choose.choices(b"abcdefghijklmnop", k=16))


def _entry(content: int, path: str, partition: tuple[int, int], rows: int, size: int, *statistics: Any) -> bytes:
    sizes, values, nulls, nans, lower, upper = statistics
    return b"".join(
        (
            _long(1), b"\x02", _long(SNAPSHOT), b"\x00", b"\x00",  # added; snapshot; both sequence numbers inherited
            _long(content), _string(path), _string("PARQUET"),
            b"\x02", _long(partition[0]), b"\x02", _long(partition[1]), _long(rows), _long(size),
            _counts(sizes), _counts(values), _counts(nulls), _counts(nans), _bounds(lower), _bounds(upper),
            b"\x00", b"\x02\x02\x08\x00", b"\x00", b"\x02\x00",  # no key; one split offset; no equality ids; sort order 0
        )
    )  # fmt: skip

"""What cannot be judged is its own outcome: with a reason, never healthy, never a traceback."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from made_tables import File, TableMaker, equality_delete
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, UnknownTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.avro import AvroFile
from airflow_iceberg_compaction.health.errors import ManifestError, StoreError
from airflow_iceberg_compaction.health.manifests import PARTITION, Projection
from airflow_iceberg_compaction.health.model import TableHealth
from airflow_iceberg_compaction.policy.model import TablePolicy

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def judged(table: Table) -> TableHealth:
    return assess(table, TablePolicy(name="db.made"), catalog_name="lake", table_name="db.made", now_ms=0)


def one_manifest(tmp_path: Path, codec: str = "deflate") -> tuple[TableMaker, ManifestFile, Path]:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    manifest = maker.manifest([File(("eu",)) for _ in range(9)], codec=codec)
    maker.snapshot(manifest)
    return maker, manifest, Path(manifest.manifest_path.removeprefix("file://"))


def test_a_manifest_cut_off_anywhere_is_never_a_smaller_healthy_table(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    whole = path.read_bytes()
    assert judged(maker.table()).cannot_judge is None
    for length in range(0, len(whole), 5):
        path.write_bytes(whole[:length])
        health = judged(maker.table())
        assert health.cannot_judge is not None
        assert "cannot decode" in health.cannot_judge
        assert health.partitions == ()


def test_a_manifest_cut_off_between_two_blocks_is_found_by_its_count(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    file = AvroFile.parse("m", path.read_bytes())
    second_block = path.read_bytes().index(file.sync, file.start) + len(file.sync)
    path.write_bytes(path.read_bytes()[:second_block])
    reason = judged(maker.table()).cannot_judge
    assert reason is not None
    assert "3 live entries where the manifest list promises 9" in reason


def test_a_block_must_end_in_the_sync_marker(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert "sync marker" in (judged(maker.table()).cannot_judge or "")


@pytest.mark.parametrize("records", [2, 4])
def test_a_block_must_hold_as_many_records_as_it_says(tmp_path: Path, records: int) -> None:
    _, _, path = one_manifest(tmp_path)
    data = path.read_bytes()
    start = AvroFile.parse("m", data).start
    assert data[start : start + 1] == _varint(3)
    file = AvroFile.parse("m", data[:start] + _varint(records) + data[start + 1 :])
    with pytest.raises(ManifestError, match="longer or shorter|does not match"):
        list(file.records(Projection((PARTITION,)).wanted()))


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_a_flipped_bit_never_raises_and_never_kills(tmp_path: Path, codec: str) -> None:
    """In a process of its own: what this guards against is a crash of the interpreter."""
    _, manifest, path = one_manifest(tmp_path, codec)
    script = tmp_path / "flip.py"
    script.write_text(_FLIPS, encoding="utf-8")
    arguments = [sys.executable, str(script), str(path), str(manifest.manifest_length)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


_FLIPS = """
import sys
from pathlib import Path
from airflow_iceberg_compaction.health.errors import ManifestError, StoreError
from airflow_iceberg_compaction.health.manifests import Manifest
from airflow_iceberg_compaction.health.summary import Measure, summarize
data = Path(sys.argv[1]).read_bytes()
manifest = Manifest(path="m", length=int(sys.argv[2]), spec_id=0, holds_deletes=False, sequence_number=1, snapshot_id=1,
                    live_files=9)
measure = Measure(small_below_bytes=1, oversized_above_bytes=2, spec_fields={0: (1000,)})
found = 0
for position in range(len(data)):
    damaged = bytearray(data)
    damaged[position] ^= 1 << position % 8
    try:
        summarize(manifest, bytes(damaged), measure, {})
    except ManifestError:
        found += 1
print(found)
"""


def test_random_bytes_are_not_a_manifest(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    choose = random.Random(1)
    for _ in range(50):
        path.write_bytes(b"Obj\x01" + choose.randbytes(choose.randint(0, 300)))
        assert judged(maker.table()).cannot_judge is not None


def test_a_missing_manifest_names_the_file(tmp_path: Path) -> None:
    maker, manifest, path = one_manifest(tmp_path)
    path.unlink()
    reason = judged(maker.table()).cannot_judge
    assert reason is not None
    assert manifest.manifest_path in reason
    assert "missing" in reason


def test_a_missing_manifest_list_names_the_file(tmp_path: Path) -> None:
    maker, _, _ = one_manifest(tmp_path)
    Path(maker.snapshots[0]["manifest-list"].removeprefix("file://")).unlink()
    reason = judged(maker.table()).cannot_judge
    assert reason is not None
    assert "snap-1-" in reason


def test_an_unknown_codec_is_named(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"deflate", b"inflate"))
    reason = judged(maker.table()).cannot_judge
    assert reason is not None
    assert "'inflate'" in reason


def test_snappy_manifests_are_read_without_python_snappy(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path, "null")
    path.write_bytes(_with_snappy(path.read_bytes()))
    [partition] = judged(maker.table()).partitions
    assert partition.data_files == 9


def test_a_snappy_block_with_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path, "null")
    path.write_bytes(_with_snappy(path.read_bytes(), checksum=1))
    assert "checksum" in (judged(maker.table()).cannot_judge or "")


def _with_snappy(data: bytes, checksum: int = 0) -> bytes:
    """The same container, its blocks compressed as Avro asks: snappy, then the CRC-32 of the plain bytes."""
    file = AvroFile.parse("m", data)
    header = data[: file.start].replace(b"avro.codec\x08null", b"avro.codec\x0csnappy")
    result = bytearray(header)
    for count, block in file.blocks():
        packed = pyarrow.compress(block, codec="snappy", asbytes=True)
        packed += (zlib.crc32(block) ^ checksum).to_bytes(4, "big")
        result += _varint(count) + _varint(len(packed)) + packed + file.sync
    return bytes(result)


def _varint(value: int) -> bytes:
    value <<= 1
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def test_an_entry_that_is_not_new_must_have_a_sequence_number(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot(maker.manifest([File(("eu",), status=0, sequence=None)]))
    assert "no sequence number" in (judged(maker.table()).cannot_judge or "")


def test_a_format_newer_than_ours_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    path.unlink()
    table = maker.table()
    object.__setattr__(table.metadata, "format_version", 4)  # PyIceberg itself refuses to parse it
    health = judged(table)
    assert "format version 4" in (health.cannot_judge or "")


def test_a_dropped_source_column_refuses_its_spec_and_judges_the_rest(tmp_path: Path) -> None:
    by_id = PartitionSpec(PartitionField(1, 1001, IdentityTransform(), "id"), spec_id=1)
    maker = TableMaker(tmp_path, Schema(NestedField(1, "id", LongType())), BY_REGION, by_id)
    maker.snapshot(maker.manifest([File(("eu",))], file_schema=SCHEMA), maker.manifest([File((1,))], spec_id=1))
    health = judged(maker.table())
    assert health.cannot_judge is None
    assert health.unjudged == ((0, "the source column of its partition field 'region' was dropped"),)
    assert {(p.spec_id, p.partition) for p in health.partitions} == {(0, ("eu",)), (1, (1,))}


def test_an_unknown_transform_refuses_its_spec(tmp_path: Path) -> None:
    maker, _, _ = one_manifest(tmp_path)
    strange: Any = {"spec-id": 0, "fields": [{"name": "p", "source-id": 2, "field-id": 1000, "transform": "zig[3]"}]}
    table = maker.table(partition_specs=[strange])
    assert isinstance(table.spec().fields[0].transform, UnknownTransform)
    health = judged(table)
    assert health.unjudged == ((0, "its partition field 'p' has the unknown transform 'zig[3]'"),)


def test_a_manifest_of_an_unknown_spec_is_refused(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, PartitionSpec(spec_id=1))
    maker.snapshot(maker.manifest([File()], spec_id=1))
    maker.specs = (BY_REGION,)
    assert "partition spec" in (judged(maker.table()).cannot_judge or "")


def test_a_damaged_delete_manifest_is_as_bad_as_a_damaged_data_manifest(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    deletes = maker.manifest([equality_delete(("eu",))], deletes=True)
    maker.snapshot(maker.manifest([File(("eu",))]), deletes)
    Path(deletes.manifest_path.removeprefix("file://")).write_bytes(b"nothing")
    assert "not an Avro file" in (judged(maker.table()).cannot_judge or "")


def test_a_store_that_cannot_be_reached_is_no_judgement(tmp_path: Path) -> None:
    maker, _, path = one_manifest(tmp_path)
    path.unlink()
    path.mkdir()  # there, but not to be read
    with pytest.raises(StoreError, match="try again"):
        judged(maker.table())


def test_errors_end_in_what_to_do() -> None:
    assert "roll back" in str(ManifestError("m", "reason"))

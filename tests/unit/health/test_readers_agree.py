"""Our reader against PyIceberg's public one, and every way of counting against every other."""

from __future__ import annotations

import math
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_tables import File, TableMaker, deletion_vector, equality_delete, position_delete
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from airflow_iceberg_compaction.health import manifests as manifests_module
from airflow_iceberg_compaction.health import reader as reader_module
from airflow_iceberg_compaction.health import selfcheck
from airflow_iceberg_compaction.health.assessment import judge, measure_of
from airflow_iceberg_compaction.health.errors import HealthError, ManifestError
from airflow_iceberg_compaction.health.manifests import (
    FILE_PATH,
    FILE_SIZE,
    LOWER_BOUNDS,
    NULL_COUNTS,
    PARTITION,
    RECORD_COUNT,
    UPPER_BOUNDS,
    VALUE_COUNTS,
    Manifest,
    Projection,
    live_entries,
)
from airflow_iceberg_compaction.health.overlap import MAX_BYTES_IN_FLIGHT, overlapped
from airflow_iceberg_compaction.health.reader import SummaryReader
from airflow_iceberg_compaction.health.summary import Measure, summarize
from airflow_iceberg_compaction.health.worker import WorkerPool
from airflow_iceberg_compaction.policy.model import TablePolicy

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "region", StringType()), NestedField(3, "x", DoubleType())
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "region"), PartitionField(1, 1001, BucketTransform(4), "bucket")
)
MEASURE = Measure(small_below_bytes=500, oversized_above_bytes=5000, spec_fields={0: (1000, 1001)})

counts = st.none() | st.dictionaries(st.integers(1, 5), st.integers(0, 2**40), max_size=4)
bounds = st.none() | st.dictionaries(st.integers(1, 5), st.binary(max_size=20), max_size=4)
files = st.builds(
    File,
    partition=st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(0, 3)),
    size=st.integers(0, 2**50),
    rows=st.integers(0, 2**40),
    status=st.integers(0, 2),
    sequence=st.integers(0, 2**33),
    snapshot=st.none() | st.integers(1, 2**62),
    lower=bounds,
    upper=bounds,
    value_counts=counts,
    null_counts=counts,
)


def as_manifest(file: ManifestFile, *, deletes: bool = False) -> Manifest:
    return Manifest(
        path=file.manifest_path,
        length=file.manifest_length,
        spec_id=file.partition_spec_id,
        holds_deletes=deletes,
        sequence_number=file.sequence_number,
        snapshot_id=file.added_snapshot_id or 0,
        live_files=(file.added_files_count or 0) + (file.existing_files_count or 0),
    )


def content(file: ManifestFile) -> bytes:
    return Path(file.manifest_path.removeprefix("file://")).read_bytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(files, min_size=1, max_size=12), block_size=st.integers(1, 12), checked=st.booleans())
def test_our_reader_equals_the_public_one(tmp_path: Path, entries: list[File], block_size: int, checked: bool) -> None:
    written = TableMaker(tmp_path, SCHEMA, SPEC).manifest(entries, block_size=block_size, sequence=7, snapshot=70)
    projection = Projection(
        (PARTITION, FILE_PATH, RECORD_COUNT, FILE_SIZE, LOWER_BOUNDS, UPPER_BOUNDS, VALUE_COUNTS, NULL_COUNTS), None
    )
    blocks = live_entries(as_manifest(written), content(written), projection, (1000, 1001), checked=checked)
    ours = [entry[1:] for block in blocks for entry in block]
    theirs = [
        (
            entry.snapshot_id,
            entry.sequence_number,
            tuple(entry.data_file.partition._data),
            entry.data_file.file_path,
            entry.data_file.record_count,
            entry.data_file.file_size_in_bytes,
            entry.data_file.lower_bounds,
            entry.data_file.upper_bounds,
            _plain(entry.data_file.value_counts),
            _plain(entry.data_file.null_value_counts),
        )
        for entry in written.fetch_manifest_entry(PyArrowFileIO())
    ]
    assert ours == theirs


def _plain(mapping: Any) -> dict[int, int] | None:
    return None if mapping is None else dict(mapping)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(files, min_size=1, max_size=20))
def test_fast_and_checked_counting_agree(tmp_path: Path, entries: list[File]) -> None:
    written = TableMaker(tmp_path, SCHEMA, SPEC).manifest(entries)
    manifest, data = as_manifest(written), content(written)
    assert summarize(manifest, data, MEASURE, {}) == summarize(manifest, data, MEASURE, {}, checked=False)


def mixed_table(tmp_path: Path) -> TableMaker:
    maker = TableMaker(tmp_path, SCHEMA, SPEC, format_version=3)
    data = [File((region, n % 4), size=n * 97, rows=n) for n in range(40) for region in ("eu", None, "ü")]
    deletes = [
        *(position_delete(file.partition, target=file.path) for file in data[:9]),
        *(equality_delete(file.partition, sequence=2) for file in data[5:20]),
        *(deletion_vector(file.partition, target=file.path, content_size=9) for file in data[20:30]),
        deletion_vector(("eu", 0), target="gone"),
    ]
    manifests = [maker.manifest(data[n::5]) for n in range(5)]
    manifests += [maker.manifest(deletes[n::2], deletes=True, sequence=2) for n in range(2)]
    maker.snapshot(*manifests, snapshot_id=1)
    maker.snapshot(*manifests, snapshot_id=2)
    return maker


def test_worker_processes_count_like_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = mixed_table(tmp_path).table()
    measure = measure_of(table.metadata, TablePolicy(name="db.made"))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    alone = judge(table, snapshot, measure)
    started = []
    monkeypatch.setattr(reader_module, "MIN_BYTES_FOR_WORKERS", 0)
    monkeypatch.setattr(reader_module, "WorkerPool", lambda *args: started.append(WorkerPool(*args)) or started[-1])
    monkeypatch.setattr(reader_module, "_cores", lambda: 3)
    assert judge(table, snapshot, measure) == alone
    assert len(started) == 1
    assert len(alone.partitions) == 12


def test_a_worker_that_dies_is_made_up_for(tmp_path: Path) -> None:
    written = TableMaker(tmp_path, SCHEMA, SPEC).manifest([File(("eu", 1), size=n) for n in range(10)])
    manifest, data = as_manifest(written), content(written)
    pool = WorkerPool(1, MEASURE, {})
    try:
        expected = summarize(manifest, data, MEASURE, {})
        assert pool.summarize(manifest, lambda: data) == expected
        os.kill(pool._all[0]._process.pid, signal.SIGKILL)
        assert pool.summarize(manifest, lambda: data) == expected
        assert pool.summarize(manifest, lambda: data) == expected
    finally:
        pool.close()


def test_a_worker_passes_damage_on_by_name(tmp_path: Path) -> None:
    written = TableMaker(tmp_path, SCHEMA, SPEC).manifest([File(("eu", 1))])
    pool = WorkerPool(1, MEASURE, {})
    try:
        with pytest.raises(ManifestError, match="not an Avro file"):
            pool.summarize(as_manifest(written), lambda: b"nothing")
    finally:
        pool.close()


def test_the_self_check_compares_real_entries(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "x"))
    maker = TableMaker(tmp_path, SCHEMA, spec)
    written = maker.manifest([File((0.1,)), File((math.nan,)), File((None,)), File((1e300,))], block_size=4)
    assert selfcheck.compare(written.manifest_path, content(written)) == 4


def test_readers_that_disagree_leave_the_table_unjudged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = TableMaker(tmp_path, SCHEMA, SPEC)
    written = maker.manifest([File(("eu", 1))])
    monkeypatch.setattr(selfcheck, "_read_with_pyiceberg", lambda data: [("something", "else")])
    with pytest.raises(HealthError, match="two readers disagree"):
        selfcheck.compare(written.manifest_path, content(written))


def test_manifests_come_in_the_order_asked_for_with_progress(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, SPEC)
    manifests = [as_manifest(maker.manifest([File(("eu", 1))] * n)) for n in range(1, 20)]
    steps: list[tuple[int, int]] = []
    with SummaryReader(maker.io, MEASURE, {}, None, lambda *step: steps.append(step)) as reader:
        found = [summary.data["eu", 1].files for _, summary in reader.summaries(manifests)]
    assert found == list(range(1, 20))
    assert steps == [(n, 19) for n in range(1, 20)]


def test_manifests_are_fetched_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = TableMaker(tmp_path, SCHEMA, SPEC)
    manifests = [as_manifest(maker.manifest([File(("eu", 1))])) for _ in range(8)]
    together = threading.Barrier(4, timeout=30)
    real = reader_module.fetch

    def fetch(io: Any, path: str, length: int) -> bytes:
        together.wait()  # passes only if four of them wait at once
        return real(io, path, length)

    monkeypatch.setattr(reader_module, "fetch", fetch)
    with SummaryReader(maker.io, MEASURE, {}, None, lambda *_: None) as reader:
        assert len(list(reader.summaries(manifests))) == 8


def test_what_is_on_its_way_is_bounded(tmp_path: Path) -> None:
    lengths = [n * MAX_BYTES_IN_FLIGHT // 4 for n in (1, 9, 0, 2, 2, 2, 2, 1)]
    maker = TableMaker(tmp_path, SCHEMA, SPEC)
    manifest = as_manifest(maker.manifest([File(("eu", 1))]))
    under_way: list[int] = []
    done = 0
    for _, length in overlapped(
        lambda m: under_way.append(m.length) or m.length, [replace(manifest, length=length) for length in lengths]
    ):
        on_its_way = sum(under_way) - done
        assert on_its_way <= max(MAX_BYTES_IN_FLIGHT, length)
        done += length
    assert under_way == lengths


@pytest.mark.parametrize("wrong", [-7, 0, 7])
def test_a_length_that_is_wrong_in_the_list_does_no_harm(tmp_path: Path, wrong: int) -> None:
    written = TableMaker(tmp_path, SCHEMA, SPEC).manifest([File(("eu", 1))])
    assert manifests_module.fetch(PyArrowFileIO(), written.manifest_path, written.manifest_length + wrong) == content(
        written
    )

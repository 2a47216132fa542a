from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tables import File, TableMaker, long_bytes
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction.health import clustering
from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.clustering import Ranges
from airflow_iceberg_compaction.policy.model import Rewrite, TablePolicy

intervals = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: tuple(sorted(pair))))


def overlapping(files: list[tuple[int, int]]) -> int:
    """By comparing every pair: two ranges overlap if they share more than an end point."""
    found: set[int] = set()
    for (i, a), (j, b) in itertools.combinations(enumerate(files), 2):
        if a[0] < b[1] and b[0] < a[1]:
            found |= {i, j}
    return len(found)


@given(intervals)
def test_the_count_equals_that_of_comparing_every_pair(files: list[tuple[int, int]]) -> None:
    ranges = Ranges()
    for low, high in files:
        ranges.add(low, high)
    assert ranges.overlapping_files == overlapping(files)
    assert ranges.files == len(files)


@given(st.lists(intervals, max_size=4))
def test_manifests_may_be_merged_in_any_grouping(parts: list[list[tuple[int, int]]]) -> None:
    total = Ranges()
    for part in parts:
        ranges = Ranges()
        for low, high in part:
            ranges.add(low, high)
        total.merge(Ranges.load(ranges.dump(lambda v: v), lambda v: v))
    assert total.overlapping_files == overlapping([file for part in parts for file in part])
    assert total.files == sum(map(len, parts))


def test_too_many_ranges_are_no_answer_instead_of_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "MAX_CHAINS", 3)
    ranges = Ranges()
    for n in range(5):
        ranges.add(2 * n, 2 * n + 1)
    assert ranges.overlapping_files is None
    total = Ranges()
    total.merge(ranges)
    assert total.overlapping_files is None


SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "region", StringType()), NestedField(3, "ts", LongType())
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
BY_REGION_THEN_TS = [
    {"source-id": 2, "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
    {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
]


def ranged(region: str, low: int | None, high: int | None, column: int = 3) -> File:
    if low is None or high is None:
        return File((region,))
    return File((region,), lower={column: long_bytes(low)}, upper={column: long_bytes(high)})


def debt(maker: TableMaker, sort_order: tuple[str, ...] = ()) -> float | None:
    policy = TablePolicy(
        name="db.made", rewrite=Rewrite(strategy="sort" if sort_order else "binpack", sort_order=sort_order)
    )
    return assess(maker.table(), policy, catalog_name="lake", table_name="db.made", now_ms=0).clustering_debt


def test_debt_is_the_share_of_overlapping_files_within_partitions(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, sort_order=BY_REGION_THEN_TS)
    one = maker.manifest([ranged("eu", 0, 10), ranged("us", 0, 10), ranged("us", 10, 20)])
    two = maker.manifest([ranged("eu", 5, 15), ranged("us", None, None)])
    maker.snapshot(one, two)
    assert debt(maker) == 0.5  # two of four with known ranges; the sort's first column is constant in a partition


def test_the_policys_order_wins_over_the_tables(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION, sort_order=BY_REGION_THEN_TS)
    maker.snapshot(maker.manifest([ranged("eu", 0, 10, column=1), ranged("eu", 5, 15, column=1)]))
    assert debt(maker) is None  # no file has a range of ts
    assert debt(maker, ("id desc nulls last", "ts")) == 1.0


def test_an_unordered_table_has_no_debt_to_speak_of(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot(maker.manifest([ranged("eu", 0, 10), ranged("eu", 0, 10)]))
    assert debt(maker) is None


def test_an_order_by_a_column_that_is_not_there_is_no_debt(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    maker.snapshot(maker.manifest([ranged("eu", 0, 10)]))
    assert debt(maker, ("nothing",)) is None

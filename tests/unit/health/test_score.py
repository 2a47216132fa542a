from __future__ import annotations

import datetime as dt
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.health.model import PartitionField, PartitionHealth, Spec
from airflow_iceberg_compaction.health.score import fragment_ratio, optimization_type, score
from airflow_iceberg_compaction.health.values import iso_date, partition_path
from airflow_iceberg_compaction.policy.model import Rewrite, TablePolicy, Thresholds

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
POLICY = TablePolicy(name="db.t", thresholds=Thresholds(min_small_files=20, delete_files=10, delete_ratio=0.1))


def partition(**numbers: int | None) -> PartitionHealth:
    return PartitionHealth(spec_id=0, partition=(), **numbers)  # type: ignore[arg-type]


def test_the_score_is_the_weighted_sum_of_four_factors() -> None:
    sick = partition(data_files=50, small_files=25, applied_delete_files=10, last_compaction_ms=NOW_MS - 12 * HOUR_MS)
    assert score(sick, POLICY, NOW_MS) == pytest.approx(0.3 * 0.5 + 0.3 * 0.2 + 0.2 * 0.5 + 0.2 * 0.5)


counts = st.integers(0, 10**7)


@given(counts, counts, counts, st.none() | st.integers(0, 2 * NOW_MS))
def test_the_score_lies_between_zero_and_one(data: int, small: int, deletes: int, compacted: int | None) -> None:
    any_partition = partition(
        data_files=data, small_files=min(small, data), applied_delete_files=deletes, last_compaction_ms=compacted
    )
    assert 0.0 <= score(any_partition, POLICY, NOW_MS) <= 1.0


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 200))
def test_more_deletes_never_lower_the_score(data: int, deletes: int, more: int) -> None:
    less_sick = partition(data_files=data, applied_delete_files=deletes)
    sicker = replace(less_sick, applied_delete_files=deletes + more)
    assert score(less_sick, POLICY, NOW_MS) <= score(sicker, POLICY, NOW_MS)


def test_dangling_deletes_are_no_reason_to_rewrite_data() -> None:
    dangling = partition(data_files=1, position_delete_files=50, dangling_delete_files=50)
    assert fragment_ratio(dangling) == 0.0
    assert optimization_type(dangling, POLICY, now_ms=NOW_MS) == "none"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"data_files": 100, "applied_delete_files": 11}, "major"),
        ({"data_files": 100, "applied_delete_files": 10}, "major"),
        ({"data_files": 100, "applied_delete_files": 9}, "none"),
        ({"data_files": 9, "applied_delete_files": 1}, "major"),
        ({"data_files": 10, "applied_delete_files": 1}, "none"),
        ({"data_files": 100, "applied_delete_files": 50, "small_files": 100}, "major"),
        ({"data_files": 100, "small_files": 20}, "minor"),
        ({"data_files": 100, "small_files": 19}, "none"),
        ({"data_files": 0, "applied_delete_files": 0, "position_delete_files": 99}, "none"),
    ],
)
def test_major_for_deletes_else_minor_for_small_files(numbers: dict[str, int], expected: str) -> None:
    assert optimization_type(partition(**numbers), POLICY, now_ms=NOW_MS) == expected


def test_full_when_forced_or_due() -> None:
    healthy = partition(data_files=1, last_compaction_ms=NOW_MS - 48 * HOUR_MS)
    daily = POLICY.model_copy(update={"rewrite": Rewrite(full_every=timedelta(days=1))})
    weekly = POLICY.model_copy(update={"rewrite": Rewrite(full_every=timedelta(days=7))})
    assert optimization_type(healthy, POLICY, now_ms=NOW_MS) == "none"
    assert optimization_type(healthy, POLICY, now_ms=NOW_MS, forced=True) == "full"
    assert optimization_type(healthy, daily, now_ms=NOW_MS) == "full"
    assert optimization_type(healthy, weekly, now_ms=NOW_MS) == "none"


@given(st.dates())
def test_dates_are_those_of_the_calendar(date: dt.date) -> None:
    assert iso_date((date - dt.date(1970, 1, 1)).days) == date.isoformat()


def test_dates_reach_beyond_the_calendar_of_python() -> None:
    assert iso_date(2_932_897) == "10000-01-01"
    assert iso_date(-719_529) == "-001-12-31"


def test_a_partition_fits_on_one_line() -> None:
    fields = [
        PartitionField(name="day", transform="day", source_name="ts", source_type="timestamptz", result_type="date"),
        PartitionField(name="r", transform="identity", source_name="r", source_type="string", result_type="string"),
    ]
    assert partition_path(Spec(spec_id=0, fields=tuple(fields)), (19_753, None)) == "day=2024-01-31/r=null"

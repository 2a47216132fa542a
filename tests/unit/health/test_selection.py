from __future__ import annotations

from pathlib import Path

import pytest
from made_tables import File, TableMaker
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.errors import SelectionError
from airflow_iceberg_compaction.health.model import NAN
from airflow_iceberg_compaction.health.selection import select_partitions
from airflow_iceberg_compaction.policy.model import TablePolicy

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "region", StringType()),
    NestedField(3, "ts", TimestamptzType()),
    NestedField(4, "x", DoubleType()),
)
DAY = 19_753  # 2024-01-31


def selected(
    tmp_path: Path, spec: PartitionSpec, tuples: list[tuple[object, ...]], text: str
) -> set[tuple[object, ...]]:
    maker = TableMaker(tmp_path, SCHEMA, spec)
    maker.snapshot(maker.manifest([File(values) for values in tuples]))
    table = maker.table()
    health = assess(table, TablePolicy(name="db.made"), catalog_name="lake", table_name="db.made", now_ms=0)
    return {partition for _, partition in select_partitions(table, health, text)}


BY_DAY_AND_REGION = PartitionSpec(
    PartitionField(3, 1000, DayTransform(), "ts_day"), PartitionField(2, 1001, IdentityTransform(), "region")
)
DAYS: list[tuple[object, ...]] = [(DAY, "eu"), (DAY, "us"), (DAY + 1, "eu"), (None, "it's"), (DAY, None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts >= '2024-02-01T00:00:00+00:00'", {(DAY + 1, "eu")}),
        ("ts < '2024-01-31T12:00:00+00:00'", {(DAY, "eu"), (DAY, "us"), (DAY, None)}),
        ("ts_day = '2024-01-31' and region in ('eu', 'us')", {(DAY, "eu"), (DAY, "us")}),
        ("region = 'it''s'", {(None, "it's")}),
        ("region is null", {(DAY, None)}),
        ("ts is null", {(None, "it's")}),
        ("not (region = 'eu' or region is null)", {(DAY, "us"), (None, "it's")}),
        ("ts_day = '2024-02-01' or region = 'us'", {(DAY + 1, "eu"), (DAY, "us")}),
        ("region like 'e%'", {(DAY, "eu"), (DAY + 1, "eu")}),
        ("ts_day = '1999-01-01'", set()),
    ],
)
def test_partitions_that_may_hold_a_match_are_selected(
    tmp_path: Path, text: str, expected: set[tuple[object, ...]]
) -> None:
    assert selected(tmp_path, BY_DAY_AND_REGION, DAYS, text) == expected


@pytest.mark.parametrize(
    ("transform", "name", "ordinal", "text"),
    [
        (YearTransform(), "ts_year", 54, "ts_year = '2024'"),
        (MonthTransform(), "ts_month", 648, "ts_month in ('2024-01', '1999-01')"),
        (HourTransform(), "ts_hour", DAY * 24 + 13, "ts_hour >= '2024-01-31-13'"),
    ],
)
def test_years_months_and_hours_are_written_as_health_prints_them(
    tmp_path: Path, transform: YearTransform, name: str, ordinal: int, text: str
) -> None:
    spec = PartitionSpec(PartitionField(3, 1000, transform, name))
    assert selected(tmp_path, spec, [(ordinal,), (ordinal - 1,)], text) == {(ordinal,)}


def test_a_bucket_is_found_by_its_number_or_by_a_value_in_it(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(16), "id_bucket"))
    tuples: list[tuple[object, ...]] = [(n,) for n in range(16)]
    bucket = BucketTransform(16).transform(LongType())(34)
    assert selected(tmp_path, spec, tuples, "id = 34") == {(bucket,)}
    assert selected(tmp_path, spec, tuples, "id_bucket = 3") == {(3,)}


def test_nan_is_a_value_of_its_own(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "x"))
    assert selected(tmp_path, spec, [(NAN,), (1.0,), (None,)], "x is nan") == {(NAN,)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = 1", "not partitioned by 'id'; it is partitioned by region, ts, ts_day"),
        ("ts >=", "cannot be parsed"),
        ("ts >= 'yesterday'", "write values of the column's type"),
        ("ts_day = 'x'", "write values of the column's type"),
    ],
)
def test_what_cannot_narrow_is_an_error_with_advice(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        selected(tmp_path, BY_DAY_AND_REGION, DAYS, text)


def test_a_spec_that_says_nothing_about_the_column_may_hold_matches(tmp_path: Path) -> None:
    old = PartitionSpec(PartitionField(2, 1001, IdentityTransform(), "region"), spec_id=0)
    new = PartitionSpec(PartitionField(3, 1000, DayTransform(), "ts_day"), spec_id=1)
    maker = TableMaker(tmp_path, SCHEMA, old, new)
    maker.snapshot(maker.manifest([File(("eu",))]), maker.manifest([File((DAY,)), File((DAY + 1,))], spec_id=1))
    table = maker.table()
    health = assess(table, TablePolicy(name="db.made"), catalog_name="lake", table_name="db.made", now_ms=0)
    assert select_partitions(table, health, "ts_day = '2024-01-31'") == {(0, ("eu",)), (1, (DAY,))}

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_iceberg_compaction.health.model import NAN, PartitionField, PartitionTuple, Spec
from airflow_iceberg_compaction.plan import literals
from airflow_iceberg_compaction.plan.errors import PredicateError
from airflow_iceberg_compaction.plan.predicate import any_of, partitions_filter
from airflow_iceberg_compaction.plan.projection import PartitionIndex


def field(transform: str, source_type: str, name: str = "c") -> PartitionField:
    return PartitionField(
        name=f"{name}_{transform.partition('[')[0]}",
        transform=transform,
        source_name=name,
        source_type=source_type,
        result_type="",
    )


def spec(*fields: PartitionField, spec_id: int = 0) -> Spec:
    return Spec(spec_id=spec_id, fields=fields)


def one_field(transform: str, source_type: str, *values: Any) -> Any:
    return partitions_filter(spec(field(transform, source_type)), [(value,) for value in values])


@pytest.mark.parametrize(
    ("source_type", "value", "written"),
    [
        ("boolean", True, True),
        ("int", -7, -7),
        ("long", 2**40, 2**40),
        ("float", 1.0, 1.0),
        ("double", 0.1, 0.1),
        ("decimal(10,2)", Decimal("1.5"), "1.50"),
        (
            "decimal(38,10)",
            Decimal("1234567890123456789012345678.0000000001"),
            "1234567890123456789012345678.0000000001",
        ),
        ("string", "'; DROP TABLE x --\0\\\"", "'; DROP TABLE x --\0\\\""),
        ("uuid", uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ("uuid", uuid.UUID(int=5).bytes, "00000000-0000-0000-0000-000000000005"),
        ("time", 3_723_000_001, "01:02:03.000001"),
        ("timestamp", 1, "1970-01-01T00:00:00.000001"),
        ("timestamptz", -1, "1969-12-31T23:59:59.999999+00:00"),
        ("timestamp_ns", 1, "1970-01-01T00:00:00.000000001"),
        ("timestamptz_ns", 1_000_001, "1970-01-01T00:00:00.001000001+00:00"),
        ("binary", b"\x00\xff", "00FF"),
        ("fixed[2]", b"\xab\x01", "AB01"),
    ],
)
def test_an_identity_value_is_an_equality_typed_as_iceberg_reads_it(source_type: str, value: Any, written: Any) -> None:
    assert one_field("identity", source_type, value) == {"type": "eq", "term": "c", "value": written}


def test_null_and_nan_have_predicates_of_their_own() -> None:
    assert one_field("identity", "string", None) == {"type": "is-null", "term": "c"}
    assert one_field("bucket[4]", "string", None) == {"type": "is-null", "term": "c"}
    assert one_field("identity", "double", NAN) == {"type": "is-nan", "term": "c"}


def test_bucket_and_truncate_are_transform_terms() -> None:
    term = {"type": "transform", "transform": "bucket[16]", "term": "c"}
    assert one_field("bucket[16]", "long", 3) == {"type": "eq", "term": term, "value": 3}
    term = {"type": "transform", "transform": "truncate[2]", "term": "c"}
    assert one_field("truncate[2]", "string", "ab") == {"type": "eq", "term": term, "value": "ab"}


def test_a_day_is_a_half_open_range_of_its_source() -> None:
    assert one_field("day", "timestamptz", 0) == {
        "type": "and",
        "left": {"type": "gt-eq", "term": "c", "value": "1970-01-01T00:00:00.000000+00:00"},
        "right": {"type": "lt", "term": "c", "value": "1970-01-02T00:00:00.000000+00:00"},
    }


@pytest.mark.parametrize(
    ("transform", "value", "start", "end"),
    [
        ("year", 54, "2024-01-01", "2025-01-01"),
        ("month", 649, "2024-02-01", "2024-03-01"),
        ("day", 19782, "2024-02-29", "2024-03-01"),
    ],
)
def test_times_of_a_date_are_ranges_of_dates(transform: str, value: int, start: str, end: str) -> None:
    assert one_field(transform, "date", value) == {
        "type": "and",
        "left": {"type": "gt-eq", "term": "c", "value": start},
        "right": {"type": "lt", "term": "c", "value": end},
    }


def test_adjacent_days_are_joined_to_one_range() -> None:
    filter = one_field("day", "date", 3, 1, 2, 9)
    assert json.dumps(filter).count("gt-eq") == 2
    assert filter["left"]["left"]["value"] == "1970-01-02"
    assert filter["left"]["right"]["value"] == "1970-01-05"


def test_tuples_that_share_a_field_share_its_predicate() -> None:
    days_by_region = spec(field("identity", "string", "region"), field("day", "date", "d"))
    filter = partitions_filter(days_by_region, [("eu", 1), ("eu", 2), ("eu", 3)])
    assert filter["left"] == {"type": "eq", "term": "region", "value": "eu"}
    assert filter["right"]["left"] == {"type": "gt-eq", "term": "d", "value": "1970-01-02"}


def test_an_unpartitioned_table_needs_no_filter() -> None:
    assert partitions_filter(spec(), [()]) == {"type": "literal", "value": True}
    assert partitions_filter(spec(field("void", "int")), [(None,)]) == {"type": "literal", "value": True}


def test_an_identity_field_answers_for_the_buckets_of_its_column() -> None:
    # Iceberg would project bucket(c) = 3 onto the identity field as c = 3 and select nothing.
    both = spec(field("identity", "int"), field("bucket[4]", "int"))
    assert partitions_filter(both, [(9, 3)]) == {"type": "eq", "term": "c", "value": 9}


def test_what_cannot_be_filtered_is_an_error_with_the_field() -> None:
    with pytest.raises(PredicateError, match="c_zorder: transform 'zorder"):
        one_field("zorder[2]", "int", 1)
    dropped = PartitionField(name="gone", transform="identity", source_name=None, source_type="", result_type="int")
    with pytest.raises(PredicateError, match="gone: its source column was dropped"):
        partitions_filter(spec(dropped), [(1,)])


def test_a_disjunction_of_many_is_a_shallow_tree() -> None:
    def depth(expression: Any) -> int:
        return 1 + max(depth(expression["left"]), depth(expression["right"])) if "left" in expression else 1

    assert depth(any_of([{"type": "eq", "term": "c", "value": i} for i in range(5000)])) == 14


@given(st.integers(-(10**8), 10**8))
@example(-719528)  # year 0
@example(2932897)  # year 10000
def test_dates_are_read_back_far_beyond_the_years_of_datetime(days: int) -> None:
    assert literals.from_json("date", literals.to_json("c", "date", days)) == days
    assert (
        literals.days_of_month(literals.month_of_days(days))
        <= days
        < literals.days_of_month(literals.month_of_days(days) + 1)
    )
    assert (
        literals.days_of_year(literals.year_of_days(days))
        <= days
        < literals.days_of_year(literals.year_of_days(days) + 1)
    )


VALUES: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("identity", "string"): st.text(max_size=4),
    ("identity", "double"): st.one_of(st.floats(allow_nan=False), st.just(NAN)),
    ("identity", "date"): st.integers(-5, 5),
    ("identity", "decimal(9,2)"): st.decimals(-9, 9, places=2),
    ("identity", "timestamptz"): st.integers(-(10**15), 10**15),
    ("identity", "binary"): st.binary(max_size=3),
    ("identity", "boolean"): st.booleans(),
    ("bucket[8]", "long"): st.integers(0, 7),
    ("truncate[2]", "string"): st.text(max_size=2),
    ("truncate[10]", "int"): st.integers(-5, 5).map(lambda n: n * 10),
    ("year", "date"): st.integers(-3, 3),
    ("month", "timestamp"): st.integers(-14, 14),
    ("day", "timestamptz"): st.integers(-5, 5),
    ("day", "timestamp_ns"): st.integers(-5, 5),
    ("day", "date"): st.integers(-5, 5),
    ("hour", "timestamptz"): st.integers(-30, 30),
}


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[Spec, list[PartitionTuple], set[PartitionTuple]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    chosen = spec(*(field(transform, kind, f"c{i}") for i, (transform, kind) in enumerate(kinds)))
    value_tuples = st.tuples(*(st.one_of(st.none(), VALUES[kind]) for kind in kinds))
    tuples = draw(st.lists(value_tuples, min_size=1, max_size=30, unique=True))
    wanted = draw(st.sets(st.sampled_from(tuples), min_size=1))
    return chosen, tuples, wanted


@given(partitioned())
def test_a_filter_selects_exactly_its_partitions(case: tuple[Spec, list[PartitionTuple], set[PartitionTuple]]) -> None:
    chosen, tuples, wanted = case
    index = PartitionIndex([chosen], [(0, values) for values in tuples])
    filter = json.loads(json.dumps(partitions_filter(chosen, sorted(wanted, key=repr)), allow_nan=False))
    assert index.selected(filter) == {(0, values) for values in wanted}


def test_a_time_range_keeps_other_granularities_of_the_same_column_out() -> None:
    days, hours = spec(field("day", "timestamp")), spec(field("hour", "timestamp"), spec_id=1)
    index = PartitionIndex([days, hours], [(0, (d,)) for d in range(3)] + [(1, (h,)) for h in range(72)])
    assert index.selected(partitions_filter(hours, [(25,)])) == {(1, (25,)), (0, (1,))}
    assert index.selected(partitions_filter(days, [(1,)])) == {(0, (1,))} | {(1, (h,)) for h in range(24, 48)}


def test_a_bucket_filter_may_select_anything_of_another_spec() -> None:
    buckets, names = spec(field("bucket[4]", "string", "a")), spec(field("identity", "string", "b"), spec_id=1)
    index = PartitionIndex([buckets, names], [(0, (0,)), (0, (1,)), (1, ("x",)), (1, (None,))])
    assert index.selected(partitions_filter(buckets, [(1,)])) == {(0, (1,)), (1, ("x",)), (1, (None,))}


def test_the_year_before_1970_pulls_in_its_neighbour_of_another_spec_as_iceberg_does() -> None:
    days = spec(field("day", "timestamp"))
    index = PartitionIndex([days], [(0, (d,)) for d in range(-3, 3)])
    plain_range = {
        "type": "and",
        "left": {"type": "gt-eq", "term": "c", "value": "1969-12-31T00:00:00"},
        "right": {"type": "lt", "term": "c", "value": "1970-01-01T00:00:00"},
    }
    assert index.selected(plain_range) == {(0, (-1,)), (0, (0,))}
    assert index.selected(partitions_filter(days, [(-1,)])) == {(0, (-1,))}


def test_null_lies_below_every_bound_and_nan_above_as_in_java() -> None:
    numbers = spec(field("identity", "double"))
    index = PartitionIndex([numbers], [(0, (value,)) for value in (None, -1.0, 1.0, NAN)])
    assert index.selected({"type": "lt", "term": "c", "value": 0.0}) == {(0, (None,)), (0, (-1.0,))}
    assert index.selected({"type": "gt-eq", "term": "c", "value": 0.0}) == {(0, (1.0,)), (0, (NAN,))}

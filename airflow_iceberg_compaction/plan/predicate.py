"""Partition tuples as Iceberg expression JSON (Java's ``ExpressionParser``). No SQL text is ever built from a value.

identity becomes an equality, a time transform a half-open range on its source column (which also keeps files of other
specs out), bucket and truncate become transform terms, null is-null and NaN is-nan. Tuples that differ in one field
only share one set or range, and disjunctions are balanced trees: Java parses and binds them recursively.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from airflow_iceberg_compaction.health.model import PartitionField, PartitionTuple, Spec
from airflow_iceberg_compaction.plan import literals
from airflow_iceberg_compaction.plan.errors import PredicateError

Expression = dict[str, Any]

ALWAYS_TRUE: Expression = {"type": "literal", "value": True}
TIME_TRANSFORMS = ("year", "month", "day", "hour")

_LARGEST = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}


def partitions_filter(spec: Spec, partitions: Iterable[PartitionTuple]) -> Expression:
    """A filter that selects exactly ``partitions`` among the partitions of ``spec``.

    Raises PredicateError when a field has no filter: an unknown transform, or a source column that was dropped.
    """
    fields = _deciding_fields(spec)
    if not fields:
        return ALWAYS_TRUE
    tuples = list(partitions)
    pivot = max(fields, key=lambda i: len({values[i] for values in tuples}))
    rest = [i for i in fields if i != pivot]
    pivot_values: dict[PartitionTuple, list[Any]] = defaultdict(list)
    for values in tuples:
        pivot_values[tuple(values[i] for i in rest)].append(values[pivot])
    return any_of(
        [
            all_of(
                [_values(spec.fields[i], [value]) for i, value in zip(rest, others, strict=True)]
                + [_values(spec.fields[pivot], wanted)]
            )
            for others, wanted in pivot_values.items()
        ]
    )


def any_of(expressions: Sequence[Expression]) -> Expression:
    """The disjunction as a balanced tree."""
    return _balanced("or", expressions)


def all_of(expressions: Sequence[Expression]) -> Expression:
    return _balanced("and", expressions)


def _deciding_fields(spec: Spec) -> list[int]:
    """Fields that tell partitions apart; an identity field decides every other field of the same column.

    It must also decide alone: Iceberg projects ``bucket(id) = 3`` onto an identity partition as ``id = 3``.
    """
    identities = {f.source_name for f in spec.fields if f.transform == "identity"}
    return [
        i
        for i, f in enumerate(spec.fields)
        if f.transform != "void" and (f.transform == "identity" or f.source_name not in identities)
    ]


def _balanced(operation: str, expressions: Sequence[Expression]) -> Expression:
    if len(expressions) == 1:
        return expressions[0]
    middle = len(expressions) // 2
    return {
        "type": operation,
        "left": _balanced(operation, expressions[:middle]),
        "right": _balanced(operation, expressions[middle:]),
    }


def _values(field: PartitionField, values: Sequence[Any]) -> Expression:
    """``field`` has one of ``values``."""
    if field.source_name is None:
        raise PredicateError(field.name, "its source column was dropped; rewrite the files of that spec by hand")
    alternatives: list[Expression] = []
    plain: list[Any] = []
    for value in values:
        if value is None:
            alternatives.append({"type": "is-null", "term": field.source_name})
        elif literals.is_nan(value):
            alternatives.append({"type": "is-nan", "term": field.source_name})
        elif value in (float("inf"), float("-inf")) and field.source_type in _LARGEST:
            alternatives.append(_infinity(field, value > 0))
        else:
            plain.append(value)
    if plain:
        alternatives.append(_plain_values(field, sorted(set(plain))))
    return any_of(alternatives)


def _plain_values(field: PartitionField, values: list[Any]) -> Expression:
    kind = field.transform.partition("[")[0]
    if field.transform in TIME_TRANSFORMS or (kind == "identity" and field.source_type == "date"):
        return any_of([_time_range(field, first, last) for first, last in _runs(values)])
    if kind == "identity":
        if field.source_type in _LARGEST and 0.0 in values:
            values = [*values, -0.0]  # equal in Python, two partitions in Java
        return _one_of(field.source_name, field, field.source_type, values)
    if kind in ("bucket", "truncate"):
        term = {"type": "transform", "transform": field.transform, "term": field.source_name}
        return _one_of(term, field, "int" if kind == "bucket" else field.source_type, values)
    raise PredicateError(field.name, f"transform {field.transform!r} is not known to this release")


def _one_of(term: Any, field: PartitionField, type_name: str, values: list[Any]) -> Expression:
    wanted = [literals.to_json(field.name, type_name, value) for value in values]
    if len(wanted) == 1:
        return {"type": "eq", "term": term, "value": wanted[0]}
    return {"type": "in", "term": term, "values": wanted}


def _runs(values: list[int]) -> list[tuple[int, int]]:
    """First and last of every run of neighbours in a sorted list."""
    starts = [values[0]] + [b for a, b in pairwise(values) if b != a + 1]
    ends = [a for a, b in pairwise(values) if b != a + 1] + [values[-1]]
    return list(zip(starts, ends, strict=True))


def _time_range(field: PartitionField, first: int, last: int) -> Expression:
    start, end = (
        literals.to_json(field.name, field.source_type, bound)
        for bound in source_range(field.transform, field.source_type, first, last)
    )
    parts: list[Expression] = [
        {"type": "gt-eq", "term": field.source_name, "value": start},
        {"type": "lt", "term": field.source_name, "value": end},
    ]
    if last < 0 and field.transform != "identity":
        # Before 1970 Iceberg widens a range by one partition, for files of releases that rounded towards zero.
        parts.append(
            {
                "type": "lt-eq",
                "term": {"type": "transform", "transform": field.transform, "term": field.source_name},
                "value": literals.iso_date(last) if field.transform == "day" else last,
            }
        )
    return all_of(parts)


def source_range(transform: str, source_type: str, first: int, last: int) -> tuple[int, int]:
    """The half-open range of source values whose transform lies in ``first..last``, in the unit of the source."""
    if transform == "hour":
        start, end = first * literals.MICROS_PER_HOUR, (last + 1) * literals.MICROS_PER_HOUR
    else:
        start_day, end_day = _day_of(transform, first), _day_of(transform, last + 1)
        if source_type == "date":
            return start_day, end_day
        start, end = start_day * literals.MICROS_PER_DAY, end_day * literals.MICROS_PER_DAY
    return (start * 1000, end * 1000) if source_type.endswith("_ns") else (start, end)


def _day_of(transform: str, value: int) -> int:
    if transform == "year":
        return literals.days_of_year(value)
    if transform == "month":
        return literals.days_of_month(value)
    return value


def _infinity(field: PartitionField, positive: bool) -> Expression:
    """JSON has no infinity; beyond the largest number lie only infinity and, for Java's order, NaN or null."""
    bound = _LARGEST[field.source_type]
    if positive:
        beyond: Expression = {"type": "gt", "term": field.source_name, "value": bound}
        return all_of([beyond, {"type": "not-nan", "term": field.source_name}])
    beyond = {"type": "lt", "term": field.source_name, "value": -bound}
    return all_of([beyond, {"type": "not-null", "term": field.source_name}])

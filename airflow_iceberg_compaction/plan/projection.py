"""Which partitions a filter selects, by Iceberg's own inclusive projection: the proof that a batch touches no other.

A filter is compiled once for each spec and answered from an index of the live partition tuples, so that proving a plan
of many batches stays linear in its size. Where Iceberg's answer is not certain from the tuple alone, this one is
"selected": it errs towards refusing.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from airflow_iceberg_compaction.health.model import PartitionField, PartitionTuple, Spec
from airflow_iceberg_compaction.plan import literals
from airflow_iceberg_compaction.plan.predicate import TIME_TRANSFORMS, Expression

Key = tuple[int, PartitionTuple]
Test = Callable[[Any], bool]


class PartitionIndex:
    """The live partition tuples of a table, ready to say what a filter selects among them."""

    def __init__(self, specs: Iterable[Spec], keys: Iterable[Key]) -> None:
        tuples: dict[int, set[PartitionTuple]] = defaultdict(set)
        for spec_id, values in keys:
            tuples[spec_id].add(values)
        self._specs = [_SpecIndex(spec, tuples[spec.spec_id]) for spec in specs if spec.spec_id in tuples]

    @property
    def live_specs(self) -> int:
        return len(self._specs)

    def selected(self, expression: Expression) -> set[Key]:
        """Every partition whose files the filter may select, of whatever spec."""
        return {
            (index.spec.spec_id, values)
            for index in self._specs
            for clause in _clauses(expression, index)
            for values in index.passing(clause)
        }


# What a filter asks of some partition fields at once: for each position the values that pass, among those that exist.
# A position that is not there may have any value.
Clause = dict[int, frozenset[Any]]


class _SpecIndex:
    """The tuples of one spec, by the values of each field."""

    def __init__(self, spec: Spec, tuples: set[PartitionTuple]) -> None:
        self.spec = spec
        self._tuples = tuples
        self._by_value: dict[int, dict[Any, list[PartitionTuple]]] = {}
        self._sorted: dict[int, list[Any]] = {}

    def by_value(self, position: int) -> dict[Any, list[PartitionTuple]]:
        if position not in self._by_value:
            index: dict[Any, list[PartitionTuple]] = defaultdict(list)
            for values in self._tuples:
                index[values[position]].append(values)
            self._by_value[position] = dict(index)
        return self._by_value[position]

    def between(self, position: int, low: Any, high: Any) -> Iterable[Any]:
        """Existing values of a field that may lie from ``low`` to ``high``; None is an open end, or null itself."""
        by_value = self.by_value(position)
        if position not in self._sorted:
            if any(value != value for value in by_value):  # NaN breaks the order that bisection needs
                return by_value
            self._sorted[position] = sorted(value for value in by_value if value is not None)
        ordered = self._sorted[position]
        start = 0 if low is None else bisect_left(ordered, low)
        found = ordered[start : len(ordered) if high is None else bisect_right(ordered, high)]
        return [*found, None] if low is None and None in by_value else found

    def passing(self, clause: Clause) -> Iterator[PartitionTuple]:
        """The tuples that pass a clause, by whichever way looks at fewer of them."""
        if not clause:
            yield from self._tuples
            return
        sizes = {
            position: sum(len(self.by_value(position)[value]) for value in values)
            for position, values in clause.items()
        }
        narrowest = min(sizes, key=lambda position: sizes[position])
        if len(clause) == len(self.spec.fields):
            combinations = math.prod(len(values) for values in clause.values())
            if combinations <= sizes[narrowest]:
                ordered = [clause[position] for position in range(len(clause))]
                yield from (values for values in itertools.product(*ordered) if values in self._tuples)
                return
        others = [(position, values) for position, values in clause.items() if position != narrowest]
        for value in clause[narrowest]:
            for candidate in self.by_value(narrowest)[value]:
                if all(candidate[position] in values for position, values in others):
                    yield candidate


def _clauses(expression: Expression, index: _SpecIndex) -> list[Clause]:
    """The filter as a disjunction of clauses; filters of ours are nearly that already."""
    kind = expression["type"]
    if kind == "literal":
        return [{}] if expression["value"] else []
    if kind == "or":
        return _merged([clause for part in _flatten("or", expression) for clause in _clauses(part, index)])
    parts = _flatten("and", expression) if kind == "and" else [expression]
    bounds: dict[int, _Bounds] = {}
    alternatives: list[list[Clause]] = []
    for part in parts:
        if part["type"] in ("or", "and", "literal"):
            alternatives.append(_clauses(part, index))
        else:
            for position, asked in _asked(part, index.spec):
                bounds[position] = bounds[position] & asked if position in bounds else asked
    common = {position: asked.existing(index, position) for position, asked in bounds.items()}
    return reduce(_product, alternatives, [common])


def _flatten(kind: str, expression: Expression) -> list[Expression]:
    parts, stack = [], [expression]
    while stack:
        part = stack.pop()
        if part["type"] == kind:
            stack += [part["right"], part["left"]]
        else:
            parts.append(part)
    return parts


def _merged(clauses: list[Clause]) -> list[Clause]:
    """Clauses about the same single field are one clause."""
    by_position: dict[int, list[frozenset[Any]]] = defaultdict(list)
    rest = []
    for clause in clauses:
        if len(clause) == 1:
            ((position, values),) = clause.items()
            by_position[position].append(values)
        else:
            rest.append(clause)
    return [{position: frozenset().union(*values)} for position, values in by_position.items()] + rest


def _product(left: list[Clause], right: list[Clause]) -> list[Clause]:
    return [_both(a, b) for a in left for b in right]


def _both(left: Clause, right: Clause) -> Clause:
    shared = left.keys() & right.keys()
    return {**left, **right, **{position: left[position] & right[position] for position in shared}}


@dataclass(frozen=True)
class _Bounds:
    """What is asked of one field: certain values, or a range to look in, and a test that settles it."""

    test: Test
    values: frozenset[Any] | None = None
    low: Any = None
    high: Any = None

    def __and__(self, other: _Bounds) -> _Bounds:
        first, second = self.test, other.test
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        return _Bounds(
            lambda value: first(value) and second(value),
            self.values if other.values is None else other.values,
            max(lows, default=None),
            min(highs, default=None),
        )

    def existing(self, index: _SpecIndex, position: int) -> frozenset[Any]:
        by_value = index.by_value(position)
        if self.values is not None:
            return frozenset(value for value in self.values if value in by_value and self.test(value))
        return frozenset(value for value in index.between(position, self.low, self.high) if self.test(value))


def _asked(expression: Expression, spec: Spec) -> Iterator[tuple[int, _Bounds]]:
    """Iceberg asks every partition field of the predicate's column; fields of other columns say nothing."""
    term = expression["term"]
    column, transform = (term["term"], term["transform"]) if isinstance(term, dict) else (term, None)
    for position, field in enumerate(spec.fields):
        if field.source_name == column and field.transform != "void":
            asked = _ask(expression, transform, field)
            if asked is not None:
                yield position, asked


def _ask(expression: Expression, transform: str | None, field: PartitionField) -> _Bounds | None:
    """The predicate as asked of one field, None when it says nothing certain about that field."""
    operation = expression["type"]
    if operation in _UNARY:
        return _Bounds(_UNARY[operation]) if transform is None else None
    if transform is not None:
        if transform != field.transform:
            return None
        return _compare(operation, _operands(expression, _result_type(field)))
    operands = _operands(expression, field.source_type)
    if field.transform == "identity":
        return _compare(operation, operands)
    if field.transform in TIME_TRANSFORMS:
        return _compare_time(operation, operands, field)
    if field.transform.startswith("truncate[") and operation in ("eq", "in") and field.source_type in _TRUNCATED:
        width = int(field.transform[len("truncate[") : -1])
        return _compare(operation, [_truncate(value, width) for value in operands])
    return None


def _compare(operation: str, operands: list[Any]) -> _Bounds | None:
    if operation in ("eq", "in"):
        wanted = frozenset(operands)
        return _Bounds(wanted.__contains__, values=wanted)
    bound = operands[0]
    match operation:  # in Java's order null comes first and NaN last
        case "gt-eq":
            return _Bounds(lambda value: value is not None and (value >= bound or value != value), low=bound)
        case "gt":
            return _Bounds(lambda value: value is not None and (value > bound or value != value), low=bound)
        case "lt-eq":
            return _Bounds(lambda value: value is None or value <= bound, high=bound)
        case "lt":
            return _Bounds(lambda value: value is None or value < bound, high=bound)
    return None


def _compare_time(operation: str, operands: list[int], field: PartitionField) -> _Bounds | None:
    """Like Java's ``truncateLong`` with ``fixInclusiveTimeProjection``: before 1970 one partition more may match."""

    def partition_of(value: int) -> int:
        return _apply_time(field.transform, field.source_type, value)

    def widened(value: int) -> int:
        is_exact = field.source_type == "date" and field.transform == "day"
        return value + 1 if value < 0 and not is_exact else value

    if operation in ("eq", "in"):
        exact = [partition_of(value) for value in operands]
        return _compare("in", exact + [widened(value) for value in exact])
    bound = operands[0]
    match operation:
        case "lt":
            return _compare("lt-eq", [widened(partition_of(bound - 1))])
        case "lt-eq":
            return _compare("lt-eq", [widened(partition_of(bound))])
        case "gt":
            return _compare("gt-eq", [partition_of(bound + 1)])
        case "gt-eq":
            return _compare("gt-eq", [partition_of(bound)])
    return None


def _apply_time(transform: str, source_type: str, value: int) -> int:
    if source_type == "date":
        days = value
    else:
        micros = value // 1000 if source_type.endswith("_ns") else value
        if transform == "hour":
            return micros // literals.MICROS_PER_HOUR
        days = micros // literals.MICROS_PER_DAY
    if transform == "year":
        return literals.year_of_days(days)
    return literals.month_of_days(days) if transform == "month" else days


def _operands(expression: Expression, type_name: str) -> list[Any]:
    raw = expression["values"] if "values" in expression else [expression["value"]]
    return [literals.from_json(type_name, value) for value in raw]


def _result_type(field: PartitionField) -> str:
    if field.transform == "day":
        return "date"
    if field.transform.startswith("truncate["):
        return field.source_type
    return "int"


_TRUNCATED = ("int", "long", "string")


def _truncate(value: Any, width: int) -> Any:
    return value[:width] if isinstance(value, str) else value - value % width


_UNARY: dict[str, Test] = {
    "is-null": lambda value: value is None,
    "not-null": lambda value: value is not None,
    "is-nan": lambda value: value != value,
    "not-nan": lambda value: value == value,
}

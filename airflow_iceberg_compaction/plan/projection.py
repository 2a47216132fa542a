"""Which partitions a filter selects, by Iceberg's own inclusive projection: the proof that a batch touches no other.

A filter is compiled once for each spec and answered from an index of the live partition tuples, so that proving a plan
of many batches stays linear in its size. Where Iceberg's answer is not certain from the tuple alone, this one is
"selected": it errs towards refusing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from airflow_iceberg_compaction.health.model import PartitionField, PartitionTuple, Spec
from airflow_iceberg_compaction.plan import literals
from airflow_iceberg_compaction.plan.predicate import TIME_TRANSFORMS, Expression

Key = tuple[int, PartitionTuple]
Test = Callable[[Any], bool]


class PartitionIndex:
    """The live partition tuples of a table, ready to say what a filter selects among them."""

    def __init__(self, specs: Iterable[Spec], keys: Iterable[Key]) -> None:
        tuples: dict[int, list[PartitionTuple]] = defaultdict(list)
        for spec_id, values in keys:
            tuples[spec_id].append(values)
        self._specs = [_SpecIndex(spec, tuples[spec.spec_id]) for spec in specs if spec.spec_id in tuples]

    def selected(self, expression: Expression) -> set[Key]:
        """Every partition whose files the filter may select, of whatever spec."""
        return {
            (index.spec.spec_id, values) for index in self._specs for values in _compile(expression, index).tuples()
        }


class _SpecIndex:
    def __init__(self, spec: Spec, tuples: list[PartitionTuple]) -> None:
        self.spec = spec
        self.tuples = tuples
        self._by_value: dict[int, dict[Any, list[PartitionTuple]]] = {}
        self._sorted: dict[int, list[Any]] = {}

    def by_value(self, position: int) -> dict[Any, list[PartitionTuple]]:
        if position not in self._by_value:
            index: dict[Any, list[PartitionTuple]] = defaultdict(list)
            for values in self.tuples:
                index[values[position]].append(values)
            self._by_value[position] = dict(index)
        return self._by_value[position]

    def between(self, position: int, low: Any, high: Any) -> list[Any]:
        """The non-null values of a field from ``low`` to ``high``, both included; None is an open end."""
        if position not in self._sorted:
            self._sorted[position] = sorted(v for v in self.by_value(position) if v is not None)
        ordered = self._sorted[position]
        start = 0 if low is None else bisect_left(ordered, low)
        return ordered[start : len(ordered) if high is None else bisect_right(ordered, high)]


class _Node:
    """A compiled filter: a test of one tuple, and the tuples that pass it."""

    def __init__(self, size: int, test: Callable[[PartitionTuple], bool], tuples: Callable[[], Any]) -> None:
        self.size = size  # at most this many tuples pass
        self.test = test
        self.tuples: Callable[[], Iterable[PartitionTuple]] = tuples


@dataclass(frozen=True)
class _Values:
    """What a filter asks of one partition field: certain values, or a range and a test."""

    position: int
    values: list[Any]
    test: Test


def _compile(expression: Expression, index: _SpecIndex) -> _Node:
    kind = expression["type"]
    if kind == "literal":
        passing = index.tuples if expression["value"] else []
        return _Node(len(passing), lambda _: bool(passing), lambda: passing)
    if kind == "or":
        return _any([_compile(part, index) for part in _flatten("or", expression)])
    if kind == "and":
        return _all([_compile(part, index) for part in _flatten("and", expression)])
    return _leaf(expression, index)


def _flatten(kind: str, expression: Expression) -> list[Expression]:
    parts, stack = [], [expression]
    while stack:
        part = stack.pop()
        if part["type"] == kind:
            stack += [part["right"], part["left"]]
        else:
            parts.append(part)
    return parts


def _any(nodes: list[_Node]) -> _Node:
    return _Node(
        sum(node.size for node in nodes),
        lambda values: any(node.test(values) for node in nodes),
        lambda: {values for node in nodes for values in node.tuples()},
    )


def _all(nodes: list[_Node]) -> _Node:
    narrowest = min(nodes, key=lambda node: node.size)
    others = [node for node in nodes if node is not narrowest]
    return _Node(
        narrowest.size,
        lambda values: all(node.test(values) for node in nodes),
        lambda: [values for values in narrowest.tuples() if all(node.test(values) for node in others)],
    )


def _leaf(expression: Expression, index: _SpecIndex) -> _Node:
    """Iceberg asks every partition field of the predicate's column; fields of other columns say nothing."""
    term = expression["term"]
    column, transform = (term["term"], term["transform"]) if isinstance(term, dict) else (term, None)
    nodes = []
    for position, field in enumerate(index.spec.fields):
        if field.source_name == column:
            asked = _ask(expression, transform, field, position, index)
            if asked is not None:
                nodes.append(_field_node(asked, index))
    if not nodes:
        return _Node(len(index.tuples), lambda _: True, lambda: index.tuples)
    return nodes[0] if len(nodes) == 1 else _all(nodes)


def _field_node(asked: _Values, index: _SpecIndex) -> _Node:
    by_value = index.by_value(asked.position)
    position, test = asked.position, asked.test
    lists = [by_value[value] for value in asked.values if value in by_value]
    return _Node(
        sum(map(len, lists)),
        lambda values: test(values[position]),
        lambda: lists[0] if len(lists) == 1 else [values for part in lists for values in part],
    )


def _ask(
    expression: Expression, transform: str | None, field: PartitionField, position: int, index: _SpecIndex
) -> _Values | None:
    """The predicate as asked of one field, None when it says nothing about that field."""
    operation = expression["type"]
    if transform is None and field.transform != "void" and operation in _UNARY:
        test = _UNARY[operation]
        return _Values(position, [value for value in index.by_value(position) if test(value)], test)
    if operation in _UNARY or field.transform == "void":
        return None
    if transform is not None:
        if transform != field.transform:
            return None  # an identity field is asked the wrong question by Iceberg; certain is only the same transform
        return _compare(operation, _operands(expression, _result_type(field)), position, index)
    operands = _operands(expression, field.source_type)
    if field.transform == "identity":
        return _compare(operation, operands, position, index)
    if field.transform in TIME_TRANSFORMS:
        return _compare_time(operation, operands, field, position, index)
    if field.transform.startswith("truncate[") and operation in ("eq", "in") and field.source_type in _TRUNCATED:
        width = int(field.transform[len("truncate[") : -1])
        return _compare(operation, [_truncate(value, width) for value in operands], position, index)
    return None


def _compare(operation: str, operands: list[Any], position: int, index: _SpecIndex) -> _Values | None:
    if operation in ("eq", "in"):
        wanted = set(operands)
        return _Values(position, list(wanted), lambda value: value in wanted)
    bound = operands[0]
    if operation == "gt-eq":
        return _range(index, position, bound, None, lambda value: value is not None and value >= bound)
    if operation == "gt":
        return _range(
            index, position, bound, None, lambda value: value is not None and (value > bound or value != value)
        )
    if operation == "lt-eq":  # null sorts first in Java, so it is below every bound
        return _range(index, position, None, bound, lambda value: value is None or value <= bound)
    if operation == "lt":
        return _range(index, position, None, bound, lambda value: value is None or value < bound)
    return None


def _range(index: _SpecIndex, position: int, low: Any, high: Any, test: Test) -> _Values:
    by_value = index.by_value(position)
    if any(value != value for value in by_value):  # NaN breaks the order that bisection needs
        return _Values(position, [value for value in by_value if test(value)], test)
    values = [value for value in index.between(position, low, high) if test(value)]
    return _Values(position, [None, *values] if test(None) else values, test)


def _compare_time(
    operation: str, operands: list[int], field: PartitionField, position: int, index: _SpecIndex
) -> _Values | None:
    """Like Java's ``truncateLong`` with ``fixInclusiveTimeProjection``: before 1970 one partition more may match."""

    def partition_of(value: int) -> int:
        return _apply_time(field.transform, field.source_type, value)

    def widened(value: int) -> int:
        is_exact = field.source_type == "date" and field.transform == "day"
        return value + 1 if value < 0 and not is_exact else value

    if operation in ("eq", "in"):
        exact = [partition_of(value) for value in operands]
        return _compare("in", exact + [widened(value) for value in exact], position, index)
    bound = operands[0]
    match operation:
        case "lt":
            return _compare("lt-eq", [widened(partition_of(bound - 1))], position, index)
        case "lt-eq":
            return _compare("lt-eq", [widened(partition_of(bound))], position, index)
        case "gt":
            return _compare("gt-eq", [partition_of(bound + 1)], position, index)
        case "gt-eq":
            return _compare("gt-eq", [partition_of(bound)], position, index)
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

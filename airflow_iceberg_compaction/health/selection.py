"""Partitions named by a filter in PyIceberg's syntax, decided on partition tuples alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.health.errors import SelectionError
from airflow_iceberg_compaction.health.model import PartitionTuple, Spec, TableHealth

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

Key = tuple[int, PartitionTuple]

_ORDINAL = re.compile(r"(-?\d{4,})(?:-(\d\d))?(?:-(\d\d))?(?:[-T](\d\d))?")


def select_partitions(table: Table, health: TableHealth, text: str) -> frozenset[Key]:
    """The partitions that may hold a row matching ``text``.

    Names are source columns (``event_ts >= '2025-01-16'``) or partition fields as health prints them
    (``event_ts_day = '2025-01-16'``). A column that no spec partitions by raises `SelectionError`: it could not narrow
    anything. Partitions of specs that cannot be judged are never selected.
    """
    from pyiceberg.expressions.parser import parse

    try:
        expression = parse(text)
    except Exception as error:  # pyparsing's own classes, whose text is the whole grammar
        column = getattr(error, "column", 1)
        raise SelectionError(
            text, f"cannot be parsed from column {column} on; write for example \"day = '2025-01-16'\""
        ) from error
    unjudged = {spec_id for spec_id, _ in health.unjudged}
    specs = {spec.spec_id: spec for spec in health.specs if spec.spec_id not in unjudged}
    _check_names(text, expression, tuple(specs.values()))
    selected: set[Key] = set()
    for spec_id, spec in specs.items():
        tuples = [p.partition for p in health.partitions if p.spec_id == spec_id]
        if tuples:
            try:
                matches = _Evaluator(table.schema(), table.specs()[spec_id], spec, expression)
                selected.update((spec_id, values) for values in tuples if matches(values))
            except (TypeError, ValueError) as error:
                raise SelectionError(text, f"{error}; write values of the column's type") from error
    return frozenset(selected)


def _check_names(text: str, expression: BooleanExpression, specs: tuple[Spec, ...]) -> None:
    known = {name for spec in specs for field in spec.fields for name in (field.name, field.source_name) if name}
    for name in sorted(_names(expression)):
        if name not in known:
            names = ", ".join(sorted(known)) or "none: the table is not partitioned"
            raise SelectionError(text, f"the table is not partitioned by {name!r}; it is partitioned by {names}")


def _names(expression: Any) -> set[str]:
    from pyiceberg.expressions import And, Not, Or, UnboundPredicate

    if isinstance(expression, UnboundPredicate):
        return {_name(expression)}
    if isinstance(expression, And | Or):
        return _names(expression.left) | _names(expression.right)
    return _names(expression.child) if isinstance(expression, Not) else set()


def _name(predicate: Any) -> str:
    return str(predicate.term.name)


class _Evaluator:
    """Decides one filter for the partition tuples of one spec."""

    def __init__(self, schema: Schema, iceberg_spec: PartitionSpec, spec: Spec, expression: BooleanExpression) -> None:
        from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, rewrite_not
        from pyiceberg.schema import Schema as PartitionSchema

        self._project = inclusive_projection(schema, iceberg_spec, case_sensitive=True)
        self._sources = {field.source_name for field in spec.fields if field.transform != "void"}
        self._fields = {field.name: field for field in spec.fields if field.transform != "void"}
        projected = self._rewrite(rewrite_not(expression))
        partition_schema = PartitionSchema(*iceberg_spec.partition_type(schema).fields)
        self._matches = expression_evaluator(partition_schema, projected, case_sensitive=True)

    def __call__(self, values: PartitionTuple) -> bool:
        from pyiceberg.typedef import Record

        return self._matches(Record(*values))

    def _rewrite(self, expression: Any) -> BooleanExpression:
        """The filter over partition values: a row that matches lies in a partition that matches."""
        from pyiceberg.expressions import AlwaysTrue, And, Or, UnboundPredicate

        if isinstance(expression, And | Or):
            combine: Any = And if isinstance(expression, And) else Or
            return combine(self._rewrite(expression.left), self._rewrite(expression.right))  # type: ignore[no-any-return]
        if not isinstance(expression, UnboundPredicate):
            return expression  # type: ignore[no-any-return]
        name = _name(expression)
        if name in self._sources:
            return self._project(expression)
        if name in self._fields:
            return _with_ordinals(expression, self._fields[name].transform)
        return AlwaysTrue()  # this spec says nothing about the column, so any of its partitions may match


def _with_ordinals(predicate: Any, transform: str) -> BooleanExpression:
    """Years, months and hours are stored as counts since 1970, but nobody writes them so."""
    from pyiceberg.expressions import LiteralPredicate, SetPredicate

    if transform not in ("year", "month", "hour"):
        return predicate  # type: ignore[no-any-return]
    if isinstance(predicate, LiteralPredicate):
        return type(predicate)(predicate.term, _ordinal(predicate.literal.value, transform))
    if isinstance(predicate, SetPredicate):
        return type(predicate)(predicate.term, {_ordinal(literal.value, transform) for literal in predicate.literals})
    return predicate  # type: ignore[no-any-return]


def _ordinal(value: Any, transform: str) -> Any:
    if isinstance(value, int):
        return value
    match = _ORDINAL.fullmatch(str(value))
    parts = [int(part) for part in match.groups() if part is not None] if match else []
    if len(parts) != {"year": 1, "month": 2, "hour": 4}[transform]:
        example = {"year": "2024", "month": "2024-01", "hour": "2024-01-31-13"}[transform]
        raise ValueError(f"{value!r} is not a {transform} such as {example!r}")
    if transform == "year":
        return parts[0] - 1970
    if transform == "month":
        return (parts[0] - 1970) * 12 + parts[1] - 1
    from datetime import date

    return (date(parts[0], parts[1], parts[2]) - date(1970, 1, 1)).days * 24 + parts[3]

"""Reads the companion file that lists the tables of name patterns."""

from __future__ import annotations

from airflow_iceberg_compaction.policy.errors import Problem
from airflow_iceberg_compaction.policy.fields import check_table_name
from airflow_iceberg_compaction.policy.messages import problem_at
from airflow_iceberg_compaction.policy.names import companion_path
from airflow_iceberg_compaction.policy.nodes import Mapping, Scalar, Sequence
from airflow_iceberg_compaction.policy.source import Source, parse, read_source

_AGAIN = "run `iceberg-compaction tables --write` again"


def read_companion(policy: str) -> dict[str, list[str]]:
    """Names by pattern; empty if there is no companion yet, PolicyError if it was damaged."""
    path = companion_path(policy)
    if not path.exists():
        return {}
    source = read_source(path)
    root = parse(source)
    patterns = root.entries.get("patterns")
    if not isinstance(patterns, Mapping):
        source.problems.append(source.problem(1, 1, "patterns", f"the companion lists no patterns; {_AGAIN}"))
        raise source.error()
    listed = {pattern: _names(source, node) for pattern, node in patterns.entries.items()}
    if source.problems:
        raise source.error()
    return listed


def _names(source: Source, node: Mapping | Sequence | Scalar) -> list[str]:
    if not isinstance(node, Sequence):
        source.problems.append(problem_at(source, node, f"is not a list of tables; {_AGAIN}"))
        return []
    found = []
    for item in node.items:
        try:
            found.append(check_table_name(str(item.value) if isinstance(item, Scalar) else ""))
        except ValueError as error:
            source.problems.append(_damaged(source, item, error))
    return found


def _damaged(source: Source, item: Mapping | Sequence | Scalar, error: ValueError) -> Problem:
    return problem_at(source, item, f"{str(error).partition(';')[0]}; {_AGAIN}")

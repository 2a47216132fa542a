"""Reads a policy file: the one way in.

A file that does not validate never yields a policy. ``load_policy_isolated`` is for a caller that shows each broken table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from airflow_iceberg_compaction.policy import names
from airflow_iceberg_compaction.policy.companion import read_companion
from airflow_iceberg_compaction.policy.errors import PolicyError, Problem
from airflow_iceberg_compaction.policy.excerpt import excerpt
from airflow_iceberg_compaction.policy.messages import problem_at
from airflow_iceberg_compaction.policy.model import Catalog, Policy, PolicyHeader, TablePolicy
from airflow_iceberg_compaction.policy.nodes import Mapping as Tree
from airflow_iceberg_compaction.policy.origins import Origins
from airflow_iceberg_compaction.policy.resolution import Entry, Resolution, resolve
from airflow_iceberg_compaction.policy.source import Source, in_file_order, parse, read_source
from airflow_iceberg_compaction.policy.suggestions import did_you_mean


def load_policy(path: str | Path, *, only: str | None = None, environment: Mapping[str, str] | None = None) -> Policy:
    """The policy of a file, every table resolved; PolicyError with all its mistakes if it has any.

    :param only: resolve this table alone and check nothing that concerns only others: for a task, whose file was checked as
        a whole when its Dag was parsed. PolicyError if there is no such table.
    :param environment: where ``${NAME}`` is looked up; the process's environment unless given.
    """
    source = read_source(path)
    if only is not None and (short := excerpt(source.text, only)) is not None:
        try:
            return _load(Source(source.file, short), environment, only)
        except PolicyError:
            pass  # judge the whole file, which knows better what is wrong
    return _load(source, environment, only)


def load_policy_isolated(
    path: str | Path, *, environment: Mapping[str, str] | None = None
) -> tuple[Policy, dict[str, PolicyError]]:
    """The policy with its valid tables, and the errors of each other table by its name.

    PolicyError if something is wrong that every table shares.
    """
    source = read_source(path)
    resolution = resolve(source, parse(source), _environment(environment))
    if resolution.problems or resolution.header is None:
        raise PolicyError(in_file_order(resolution.problems))
    tables, problems = _tables(source, resolution)
    errors = {name: PolicyError(in_file_order(found)) for name, found in problems.items()}
    valid = {name: found for name, found in tables.items() if name not in errors}
    return _policy(source, resolution, resolution.header, valid), errors


def load_patterns(
    path: str | Path, *, environment: Mapping[str, str] | None = None
) -> tuple[Catalog, dict[str, tuple[str, ...]]]:
    """The catalog and the name patterns of a file, each with its exclusions; the companion need not exist."""
    source = read_source(path)
    resolution = resolve(source, parse(source), _environment(environment))
    problems = [*resolution.problems, *(problem for entry in resolution.entries for problem in entry.problems)]
    if problems or resolution.header is None:
        raise PolicyError(in_file_order(problems))
    return resolution.header.catalog, {entry.name: entry.exclude for entry in resolution.entries if entry.is_pattern}


def _load(source: Source, environment: Mapping[str, str] | None, only: str | None) -> Policy:
    resolution = resolve(source, parse(source), _environment(environment), only)
    tables, by_table = _tables(source, resolution)
    problems = [*resolution.problems, *(problem for found in by_table.values() for problem in found)]
    if problems or resolution.header is None:
        raise PolicyError(in_file_order(problems))
    if only is not None:
        if only not in tables:
            place = resolution.tree.entries["tables"]
            near = did_you_mean(only, tables) or "add it, or check the name"
            raise PolicyError([problem_at(source, place, f"there is no table {only[:80]!r}; {near}")])
        tables = {only: tables[only]}
    return _policy(source, resolution, resolution.header, tables)


def _policy(
    source: Source, resolution: Resolution, header: PolicyHeader, tables: dict[str, tuple[TablePolicy, Tree]]
) -> Policy:
    fields = {name: getattr(header, name) for name in PolicyHeader.model_fields}
    # Everything was validated already: what is left is to put it together.
    policy = Policy.model_construct(
        _fields_set={*header.model_fields_set, "path", "tables"},
        path=source.file,
        tables=tuple(table for table, _ in tables.values()),
        **fields,
    )
    trees = {name: tree for name, (_, tree) in tables.items()}
    policy._origins = Origins(file=Path(source.file).name, header=resolution.tree, tables=trees)
    return policy


def _tables(
    source: Source, resolution: Resolution
) -> tuple[dict[str, tuple[TablePolicy, Tree]], dict[str, list[Problem]]]:
    """Every table with the tree it came from, and the problems by table; patterns stand for what their companion lists."""
    problems: dict[str, list[Problem]] = {}
    for entry in resolution.entries:
        if entry.problems:
            problems.setdefault(entry.name, []).extend(entry.problems)
    named = {
        entry.name: (entry.table, entry.tree) for entry in resolution.entries if entry.table and not entry.is_pattern
    }
    tables = dict(named)
    patterns = [entry for entry in resolution.entries if entry.table and entry.is_pattern]
    companion = read_companion(source.file) if patterns else {}
    for entry in patterns:
        if entry.table is None:
            continue
        if entry.name not in companion:
            problems.setdefault(entry.name, []).append(_unlisted(source, entry))
            continue
        for name in names.matching(companion[entry.name], entry.name, entry.exclude):
            # A table that is named, or fits a pattern further up, has its settings from there.
            tables.setdefault(name, (entry.table.model_copy(update={"name": name}), entry.tree))
    return tables, problems


def _unlisted(source: Source, entry: Entry) -> Problem:
    companion = names.companion_path(source.file).name
    complaint = (
        f"the tables of {entry.name!r} are not listed in {companion}; run `iceberg-compaction tables --write --policy "
        f"{source.file}`"
    )
    return problem_at(source, entry.tree.entries["name"], complaint)


def _environment(given: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if given is None else given

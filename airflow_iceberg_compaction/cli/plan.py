"""``iceberg-compaction plan``: what a run would do, why, and what it would cost. Nothing is started or changed."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.cli import common, parameters

if TYPE_CHECKING:
    import argparse

    from rich.console import RenderableType
    from rich.table import Table as RichTable

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.documents import PartitionPlan, Plan
    from airflow_iceberg_compaction.health.model import PartitionHealth, TableHealth
    from airflow_iceberg_compaction.plan.explain import Rule
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy

SHOWN_PARTITIONS = 20
WIDE = 120  # terminals that have room for a sentence in each row
COLOURS = {
    "rewrite": "green", "defer": "yellow", "refuse": "magenta", "skip": "dim",
    "work": "green", "healthy": "cyan", "cannot_judge": "magenta", "empty": "dim",
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="namespace.name; every enabled table when left out")
    parser.add_argument("--all", action="store_true", help="list every partition, those left alone too")
    parser.add_argument(
        "--explain",
        metavar="PARTITION",
        help="every rule for a partition, written as in day=2025-01-16/region=eu or as a filter",
    )
    parameters.add_parameter_arguments(parser)
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """0 when every table could be planned in full, 1 when something could not be judged or was refused."""
    given = parameters.run_parameters(args, dry_run=True)
    policy = common.load(args)
    tables = common.find_tables(policy, args.tables)
    if args.explain is not None and len(tables) != 1:
        raise common.UsageError("--explain is about one partition of one table; name the table")
    config = common.find_catalog(policy)
    problems = False
    for table in tables:
        health, plan = _plan(config, policy, table, given)
        problems |= plan.outcome == "cannot_judge" or any(r.decision == "refuse" for r in plan.rewrite.partitions)
        if args.explain is not None:
            _explain(config, policy, table, given, health, plan, args)
        elif args.json:
            print(plan.to_json())
        else:
            common.stdout().print(_render(plan, shows_all=args.all))
    return 1 if problems else 0


def _plan(config: CatalogConfig, policy: Policy, table: TablePolicy, given: RunParameters) -> tuple[TableHealth, Plan]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from airflow_iceberg_compaction.maintenance import assess_and_plan

    now_ms = time.time_ns() // 1_000_000
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=common.stderr(), transient=True) as progress:
        task = progress.add_task(f"{table.name}: manifests", total=None)
        return assess_and_plan(
            config,
            policy,
            table,
            given,
            run_id=f"plan-{now_ms}",
            now_ms=now_ms,
            cache=common.open_cache(policy),
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )


# --------------------------------------------------------------------------------------------------------------- people


def _render(plan: Plan, *, shows_all: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    headline = Text.assemble(
        (f"{plan.catalog}.{plan.table}", "bold"), "  ", _coloured(plan.outcome), f"  {plan.reason}"
    )
    rows = [row for row in plan.rewrite.partitions if shows_all or row.decision != "skip"]
    shown = rows if shows_all else rows[:SHOWN_PARTITIONS]
    parts: list[RenderableType] = [headline, _sections(plan)]
    if shown:
        parts.append(_partitions(shown))
    if len(rows) > len(shown):
        parts.append(Text(f"and {len(rows) - len(shown)} more; --all lists every partition", style="dim"))
    parts += [Text(line) for line in (*_left_alone(plan), *_cost(plan))]
    return Group(*parts, Text(""))


def _coloured(word: str) -> Any:
    from rich.text import Text

    return Text(word.replace("_", " "), style=COLOURS.get(word, ""))


def _sections(plan: Plan) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    from airflow_iceberg_compaction.documents import SECTIONS
    from airflow_iceberg_compaction.report import text

    rewrite = plan.rewrite
    why = {
        "rewrite": f"{rewrite.strategy}: {rewrite.input_files:,} files ({text.size(rewrite.input_bytes)}) become "
        f"{rewrite.output_files:,}, {rewrite.input_delete_files:,} delete files applied, "
        f"{len(rewrite.batches):,} commits",
        "delete_files": plan.delete_files.reason,
        "manifests": plan.manifests.reason,
        "expire": plan.expire.reason,
        "orphans": plan.orphans.reason,
    }
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("step", "work", "why"):
        shown.add_column(column)
    for section in SECTIONS:
        busy = plan.has_work(section)
        word = Text("yes", style="green") if busy else Text("no", style="dim")
        idle = section == "rewrite" and not busy
        shown.add_row(section, word, Text("no partition is rewritten" if idle else why[section]))
    return shown


def _partitions(rows: list[PartitionPlan]) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    from airflow_iceberg_compaction.report import text

    is_wide = common.stdout().width >= WIDE
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("partition", overflow="fold", min_width=12)
    shown.add_column("decision", no_wrap=True)
    shown.add_column("reason", no_wrap=True)
    for column in ("score", "files", "read", "size", "written", "cost"):
        shown.add_column(column, justify="right", no_wrap=True)
    if is_wide:
        shown.add_column("why")
    several_specs = len({row.spec_id for row in rows}) > 1
    for row in rows:
        spec = f" (spec {row.spec_id})" if several_specs else ""
        shown.add_row(
            Text(text.partition(row.partition) + spec),
            _coloured(row.decision),
            row.reason,
            f"{row.score:.2f}",
            f"{row.data_files:,}",
            f"{row.input_files:,}",
            text.size(row.input_bytes),
            f"{row.output_files:,}",
            f"{row.cost:.4f}",
            *([Text(row.detail)] if is_wide else []),
        )
    return shown


def _left_alone(plan: Plan) -> list[str]:
    reasons = Counter(row.reason for row in plan.rewrite.partitions if row.decision == "skip")
    if not reasons:
        return []
    return ["left alone: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())]


def _cost(plan: Plan) -> list[str]:
    from airflow_iceberg_compaction.report import text

    cost = plan.cost
    if not plan.has_work("rewrite"):
        return []
    money = [
        f"{name} {value:.4f}"
        for name, value in (
            ("requests", cost.requests_cost),
            ("compute", cost.compute_cost),
            ("storage", cost.storage_cost),
        )
    ]
    return [
        f"cost: {cost.total:.4f} {cost.currency} ({', '.join(money)}), about {text.duration(cost.compute_seconds * 1000)} "
        f"of Spark; readers save {cost.savings_per_day:.4f} {cost.currency} a day",
        *(f"  assumed: {assumption}" for assumption in cost.assumptions),
    ]


# -------------------------------------------------------------------------------------------------------------- explain


def _explain(
    config: CatalogConfig,
    policy: Policy,
    table: TablePolicy,
    given: RunParameters,
    health: TableHealth,
    plan: Plan,
    args: argparse.Namespace,
) -> None:
    from airflow_iceberg_compaction.health.details import read_details
    from airflow_iceberg_compaction.health.errors import SelectionError
    from airflow_iceberg_compaction.health.selection import select_partitions
    from airflow_iceberg_compaction.plan.explain import explain

    loaded = config.load_table(table.name)
    found = _named(health, args.explain)
    if not found:
        try:
            keys = select_partitions(loaded, health, args.explain)
        except SelectionError:
            keys = frozenset()
        found = [p for p in health.partitions if (p.spec_id, p.partition) in keys]
    if not found:
        raise common.UsageError(
            f"no partition of {table.name} is named or selected by {args.explain!r}; list them with --all"
        )
    details = read_details(loaded, health, [(p.spec_id, p.partition) for p in found])
    selected = select_partitions(loaded, health, given.partition_filter) if given.partition_filter else None
    rows = _rows_by_key(health, plan)
    origins = _origins(policy, table.name)
    explained = [
        (
            rows[partition.spec_id, partition.partition],
            explain(
                health,
                partition,
                details.get((partition.spec_id, partition.partition)),
                rows[partition.spec_id, partition.partition],
                table,
                given,
                plan.created_at_ms,
                selected,
            ),
        )
        for partition in found
    ]
    if args.json:
        print(json.dumps([_explained_to_dict(row, rules, origins) for row, rules in explained], ensure_ascii=False))
        return
    for row, rules in explained:
        common.stdout().print(_render_rules(row, rules, origins))


def _named(health: TableHealth, name: str) -> list[PartitionHealth]:
    """Partitions by their path; the empty name is that of an unpartitioned table."""
    from airflow_iceberg_compaction.health.values import partition_path

    return [p for p in health.partitions if partition_path(health.spec(p.spec_id), p.partition) == name]


def _rows_by_key(health: TableHealth, plan: Plan) -> dict[Any, PartitionPlan]:
    from airflow_iceberg_compaction.health.values import human_partition

    rows = {(row.spec_id, json.dumps(row.partition)): row for row in plan.rewrite.partitions}
    return {
        (p.spec_id, p.partition): rows[p.spec_id, json.dumps(human_partition(health.spec(p.spec_id), p.partition))]
        for p in health.partitions
    }


def _origins(policy: Policy, table: str) -> dict[str, str]:
    """Where each setting was made: file:line, profile or built in."""
    from airflow_iceberg_compaction.policy.origins import effective_values

    return {value.path: str(value.origin) for value in effective_values(policy, table)}


def _explained_to_dict(row: PartitionPlan, rules: tuple[Rule, ...], origins: dict[str, str]) -> dict[str, Any]:
    return {
        "partition": row.partition,
        "spec_id": row.spec_id,
        "decision": row.decision,
        "reason": row.reason,
        "detail": row.detail,
        "rules": [
            {
                "rule": rule.name,
                "passed": rule.passed,
                "numbers": rule.numbers,
                "setting": rule.setting,
                "set_in": origins.get(rule.setting) if rule.setting else None,
            }
            for rule in rules
        ],
    }


def _render_rules(row: PartitionPlan, rules: tuple[Rule, ...], origins: dict[str, str]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from airflow_iceberg_compaction.report import text

    headline = Text.assemble(
        (text.partition(row.partition), "bold"), "  ", _coloured(row.decision), f"  {row.reason}: {row.detail}"
    )
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("rule", "", "numbers", "setting", "set in"):
        shown.add_column(column)
    for rule in rules:
        where = origins.get(rule.setting, "") if rule.setting else ""
        mark = Text("yes", style="green") if rule.passed else Text("no", style="yellow")
        shown.add_row(rule.name, mark, Text(rule.numbers), rule.setting or "", Text(where))
    return Group(headline, shown, Text(""))

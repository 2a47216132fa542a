"""Why a partition was decided on as it was: every rule in its order, with the numbers and the setting behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import PartitionPlan
from airflow_iceberg_compaction.health.model import PartitionDetail, PartitionHealth, TableHealth
from airflow_iceberg_compaction.health.score import fragment_ratio
from airflow_iceberg_compaction.plan.options import OptionSets
from airflow_iceberg_compaction.plan.rules import PlannerOptions, is_eligible, plan_groups
from airflow_iceberg_compaction.plan.selection import Key, compacted_before_ms, log_start_ms, partition_end_ms

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import TablePolicy


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule as it came out: ``passed`` means that it speaks for a rewrite, or at least not against it."""

    name: str
    passed: bool
    numbers: str
    setting: str | None = None  # the policy's key that decides, None when Iceberg or the table does


def explain(
    health: TableHealth,
    partition: PartitionHealth,
    detail: PartitionDetail | None,
    row: PartitionPlan,
    policy: TablePolicy,
    parameters: RunParameters,
    now_ms: int,
    selected: Collection[Key] | None = None,
) -> tuple[Rule, ...]:
    """The rules for one partition in the order in which they are asked. ``row`` is what the plan decided."""
    rules = [
        *_gates(health, partition, policy, now_ms, selected),
        *_triggers(health, partition, policy, parameters, now_ms),
    ]
    if detail is not None:
        options = OptionSets(health, policy, parameters).of(row.type if row.type != "none" else "minor", partition)
        rules += _iceberg_rules(detail, options, row)
    if row.decision in ("rewrite", "defer"):
        rules.append(
            Rule(
                name="the run's budget",
                passed=row.decision == "rewrite",
                numbers=row.detail
                if row.decision == "defer"
                else f"{row.input_files} files, {row.input_bytes:,} bytes fit",
                setting=_BUDGETS.get(row.reason, "rewrite.max_files"),
            )
        )
    return tuple(rules)


_BUDGETS = {
    "budget_files": "rewrite.max_files",
    "budget_bytes": "rewrite.max_bytes",
    "budget_cost": "rewrite.max_cost",
    "max_partitions": "rewrite.max_partitions",
}


def _gates(
    health: TableHealth,
    partition: PartitionHealth,
    policy: TablePolicy,
    now_ms: int,
    selected: Collection[Key] | None,
) -> Iterator[Rule]:
    unjudged = dict(health.unjudged).get(partition.spec_id)
    yield Rule(name="can be judged", passed=unjudged is None, numbers=unjudged or "metadata read in full")
    if selected is not None:
        chosen = (partition.spec_id, partition.partition) in selected
        yield Rule(name="in the run's partition_filter", passed=chosen, numbers="selected" if chosen else "left out")
    yield Rule(name="rewriting is on", passed=policy.rewrite.enabled, numbers="", setting="rewrite.enabled")
    current = partition.spec_id == health.current_spec_id
    yield Rule(
        name="current partition spec",
        passed=current or policy.rewrite.old_specs,
        numbers=f"spec {partition.spec_id}, current is {health.current_spec_id}",
        setting=None if current else "rewrite.old_specs",
    )
    if policy.rewrite.partitions is not None:
        end = partition_end_ms(health.spec(partition.spec_id), partition.partition)
        ago = "tells no time" if end is None else f"ended {_span(now_ms - end)} ago"
        yield Rule(
            name="within the window",
            passed=end is None or end > now_ms - _ms(policy.rewrite.partitions),
            numbers=f"{ago}, window {_span(_ms(policy.rewrite.partitions))}",
            setting="rewrite.partitions",
        )
    age = None if partition.newest_file_ms is None else now_ms - partition.newest_file_ms
    yield Rule(
        name="quiet",
        passed=age is None or age >= _ms(policy.rewrite.min_quiet),
        numbers=f"newest file {'of an expired snapshot' if age is None else _span(age) + ' old'}, "
        f"asked for {_span(_ms(policy.rewrite.min_quiet))}",
        setting="rewrite.min_quiet",
    )


def _triggers(
    health: TableHealth, partition: PartitionHealth, policy: TablePolicy, parameters: RunParameters, now_ms: int
) -> Iterator[Rule]:
    thresholds = policy.thresholds
    if parameters.force:
        yield Rule(name="forced by the run", passed=True, numbers="thresholds and quiet time do not count")
    yield Rule(
        name="enough delete files",
        passed=partition.applied_delete_files >= max(1, thresholds.delete_files),
        numbers=f"{partition.applied_delete_files} apply, {partition.dangling_delete_files} dangle, "
        f"from {thresholds.delete_files}",
        setting="thresholds.delete_files",
    )
    yield Rule(
        name="enough delete files for its data files",
        passed=fragment_ratio(partition) > thresholds.delete_ratio,
        numbers=f"{fragment_ratio(partition):.3f}, above {thresholds.delete_ratio:g}",
        setting="thresholds.delete_ratio",
    )
    yield Rule(
        name="enough small files",
        passed=partition.small_files >= max(1, thresholds.min_small_files),
        numbers=f"{partition.small_files} of {partition.data_files} below {thresholds.small_file_size:,} bytes, "
        f"from {thresholds.min_small_files}",
        setting="thresholds.min_small_files",
    )
    if policy.rewrite.full_every is not None:
        since = compacted_before_ms(partition, log_start_ms(health))
        known = "compacted" if partition.last_compaction_ms is not None else "no compaction in the log, which began"
        yield Rule(
            name="full rewrite due",
            passed=now_ms - since >= _ms(policy.rewrite.full_every),
            numbers=f"{known} {_span(now_ms - since)} ago, every {_span(_ms(policy.rewrite.full_every))}",
            setting="rewrite.full_every",
        )


def _iceberg_rules(detail: PartitionDetail, options: PlannerOptions, row: PartitionPlan) -> Iterator[Rule]:
    files = detail.files
    small = sum(file.size_bytes < options.min_file_size_bytes for file in files)
    large = sum(file.size_bytes > options.max_file_size_bytes for file in files)
    eligible = [file for file in files if options.rewrite_all or is_eligible(file, options)]
    with_deletes = sum(file.attached_delete_files > 0 for file in files)
    yield Rule(
        name="Iceberg picks files",
        passed=bool(eligible),
        numbers=f"{len(eligible)} of {len(files)}: {small} below {options.min_file_size_bytes:,} bytes, {large} above "
        f"{options.max_file_size_bytes:,}, {with_deletes} with deletes attached",
        setting="thresholds.small_file_size",
    )
    groups = plan_groups(files, options)
    yield Rule(
        name="Iceberg finds a group worth rewriting",
        passed=bool(groups),
        numbers=f"{len(groups)} groups of at least {options.min_input_files} files or more than "
        f"{options.target_file_size_bytes:,} bytes" + _group_exception(eligible, groups, options),
        setting="rewrite.min_input_files",
    )
    if groups:
        picked, written = sum(len(group.files) for group in groups), sum(group.output_files for group in groups)
        yield Rule(
            name="the partition is better afterwards",
            passed=row.reason != "no_gain",
            numbers=f"{picked} files become {written}",
        )
        exact = row.reason not in ("filter_not_exact", "cannot_filter")
        yield Rule(
            name="a filter selects it alone",
            passed=exact,
            numbers="proven against all partitions of all specs" if exact else row.detail,
        )


def _group_exception(eligible: Sequence[object], groups: Sequence[object], options: PlannerOptions) -> str:
    if options.rewrite_all:
        return " (all files, rewrite-all)"
    if groups and len(eligible) < options.min_input_files:
        return " (by bytes or deletes)"
    return ""


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)


def _span(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{seconds / length:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds} s"

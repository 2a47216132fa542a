"""The rewrite section: from judged partitions and their files to decisions, batches and totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Decision, PartitionPlan, RewriteSection
from airflow_iceberg_compaction.health.model import PartitionDetail, TableHealth
from airflow_iceberg_compaction.health.values import human_partition
from airflow_iceberg_compaction.plan.batches import FilterProof, Prospect, make_batches
from airflow_iceberg_compaction.plan.budget import Budget
from airflow_iceberg_compaction.plan.cost import Tariff, Work
from airflow_iceberg_compaction.plan.old_specs import component_prospect, find_components
from airflow_iceberg_compaction.plan.options import OptionSets, strategy, strategy_problem
from airflow_iceberg_compaction.plan.rules import FileGroup, PlannerOptions, is_eligible, plan_groups
from airflow_iceberg_compaction.plan.selection import Judgement, Key, Trigger, judge_partitions

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import TablePolicy

_ORDER: tuple[Decision, ...] = ("rewrite", "defer", "refuse", "skip")

Verdict = tuple[Decision, str, str]  # decision, reason word, sentence


def plan_rewrite(
    health: TableHealth,
    details: Mapping[Key, PartitionDetail],
    policy: TablePolicy,
    parameters: RunParameters,
    tariff: Tariff,
    now_ms: int,
    selected: Collection[Key] | None = None,
) -> tuple[RewriteSection, tuple[Prospect, ...]]:
    """The section, and the partitions that it rewrites with their files."""
    judgements = judge_partitions(health, policy, parameters, now_ms, selected)
    verdicts: dict[Key, Verdict] = {}
    proof = FilterProof.of(health)
    prospects = _find_prospects(health, details, policy, parameters, judgements, proof, verdicts)
    chosen = _within_budget(prospects, details, Budget.of(policy, parameters, tariff), verdicts)
    batches, batch_ids = make_batches(chosen, proof)
    by_key = {key: prospect for prospect in (*prospects, *chosen) for key in prospect.shares}
    rows = _rows(health, judgements, by_key, verdicts, batch_ids, tariff)
    total = Work.total(prospect.work for prospect in chosen)
    section = RewriteSection(
        strategy=strategy(policy, parameters),
        sort_order=policy.rewrite.sort_order,
        input_files=total.input_files,
        input_bytes=total.input_bytes,
        output_files=total.output_files,
        input_delete_files=total.input_delete_files,
        audit=policy.audit,
        probe=policy.probe,
        partitions=tuple(rows),
        batches=tuple(batches),
    )
    return section, tuple(chosen)


def keys_to_read(
    health: TableHealth,
    policy: TablePolicy,
    parameters: RunParameters,
    now_ms: int,
    selected: Collection[Key] | None = None,
) -> tuple[Key, ...]:
    """The partitions whose files ``plan_rewrite`` needs, most urgent first."""
    judgements = judge_partitions(health, policy, parameters, now_ms, selected)
    keys = {judgement.key: None for judgement in judgements if judgement.is_candidate}
    if any(spec_id != health.current_spec_id for spec_id, _ in keys):
        components, _ = find_components(judgements, health.current_spec_id, FilterProof.of(health))
        keys.update((key, None) for component in components for key in component.reached)
    return tuple(keys)


def _find_prospects(
    health: TableHealth,
    details: Mapping[Key, PartitionDetail],
    policy: TablePolicy,
    parameters: RunParameters,
    judgements: list[Judgement],
    proof: FilterProof,
    verdicts: dict[Key, Verdict],
) -> list[Prospect]:
    """What Iceberg would rewrite to good effect, most urgent first; ``verdicts`` says why the rest is left."""
    wanted = [judgement for judgement in judgements if judgement.is_candidate]
    problem = strategy_problem(health, policy, parameters)
    if problem is not None:
        verdicts.update((judgement.key, ("refuse", "no_sort_order", problem)) for judgement in wanted)
        return []
    option_sets = OptionSets(health, policy, parameters)
    prospects = _former_prospects(health, details, judgements, option_sets, proof, verdicts)
    taken = {key for prospect in prospects for key in prospect.shares} | verdicts.keys()
    sorts = strategy(policy, parameters) != "binpack"
    found: list[Prospect] = []
    for judgement in wanted:
        if judgement.key not in taken:
            outcome = _prospect(judgement, details.get(judgement.key), option_sets, sorts=sorts)
            if isinstance(outcome, Prospect):
                found.append(outcome)
            else:
                verdicts[judgement.key] = outcome
    for key, (reason, detail) in proof.refusals([prospect.key for prospect in found]).items():
        verdicts[key] = ("refuse", reason, detail)
    prospects += [prospect for prospect in found if prospect.key not in verdicts]
    return sorted(prospects, key=lambda prospect: -prospect.judgement.priority)


def _former_prospects(
    health: TableHealth,
    details: Mapping[Key, PartitionDetail],
    judgements: list[Judgement],
    option_sets: OptionSets,
    proof: FilterProof,
    verdicts: dict[Key, Verdict],
) -> list[Prospect]:
    if all(judgement.health.spec_id == health.current_spec_id for judgement in judgements if judgement.is_candidate):
        return []
    components, unnamed = find_components(judgements, health.current_spec_id, proof)
    verdicts.update((key, ("refuse", "cannot_filter", why)) for key, why in unnamed.items())
    prospects = []
    for component in components:
        if component.problem is None and component.reached <= details.keys():
            prospects.append(component_prospect(component, health, details, option_sets))
        else:
            why = component.problem or "its files were not read; please report this"
            verdicts.update((judgement.key, ("refuse", "filter_not_exact", why)) for judgement in component.former)
    return prospects


def _prospect(
    judgement: Judgement, detail: PartitionDetail | None, option_sets: OptionSets, *, sorts: bool
) -> Prospect | Verdict:
    """The first trigger that leads to a rewrite with an effect decides."""
    if detail is None:
        return "refuse", "cannot_judge", "its files were not read; please report this"
    verdict: Verdict = ("skip", "healthy", judgement.detail)
    for trigger in judgement.triggers:
        options = option_sets.of(trigger.type, judgement.health)
        groups = plan_groups(detail.files, options)
        if not groups:
            verdict = _nothing_eligible(detail, options)
        elif not _has_effect(groups, trigger, options, sorts=sorts):
            files = sum(len(group.files) for group in groups)
            verdict = ("skip", "no_gain", f"{files} files would become {sum(g.output_files for g in groups)}")
        else:
            return Prospect.of_one(judgement, trigger, options, groups)
    return verdict


def _has_effect(groups: tuple[FileGroup, ...], trigger: Trigger, options: PlannerOptions, *, sorts: bool) -> bool:
    """Whether the partition is better afterwards: else the same files would qualify again, for ever.

    Fewer files, applied deletes and split oversized files are better; a new order is, when it was asked for.
    """
    if sorts and trigger.type == "full":
        return True
    if sum(group.output_files for group in groups) < sum(len(group.files) for group in groups):
        return True
    return any(
        file.attached_delete_files or file.size_bytes > options.max_file_size_bytes
        for group in groups
        for file in group.files
    )


def _nothing_eligible(detail: PartitionDetail, options: PlannerOptions) -> Verdict:
    eligible = sum(is_eligible(file, options) for file in detail.files)
    if eligible == 0:
        return "skip", "nothing_eligible", "Iceberg would pick none of its files: right size, no deletes attached"
    return (
        "skip",
        "below_min_input",
        (f"{eligible} files are eligible, Iceberg takes {options.min_input_files} or more than a target file's bytes"),
    )


def _within_budget(
    prospects: list[Prospect], details: Mapping[Key, PartitionDetail], budget: Budget, verdicts: dict[Key, Verdict]
) -> list[Prospect]:
    """Prospects in order until the budget is spent; what no longer fits is deferred, smaller ones may still fit."""
    chosen = []
    for prospect in prospects:
        candidate = _cut(prospect, details, budget)
        over = budget.refusal(candidate.work, len(candidate.shares))
        if over is None:
            budget.spend(candidate.work, len(candidate.shares))
            chosen.append(candidate)
        else:
            verdicts.update((key, ("defer", *over)) for key in prospect.shares)
    return chosen


def _cut(prospect: Prospect, details: Mapping[Key, PartitionDetail], budget: Budget) -> Prospect:
    """A partition with more files than any run may take is taken in parts, or it would wait for ever."""
    limit = budget.max_files
    if limit is None or budget.partitions or len(prospect.shares) > 1 or prospect.work.input_files <= limit:
        return prospect
    options = dataclasses.replace(prospect.options, max_files_to_rewrite=limit)
    groups = plan_groups(details[prospect.key].files, options)
    if not _has_effect(groups, prospect.trigger, options, sorts=False):
        return prospect  # too small a part to make anything better: deferred as a whole, or it would repeat for ever
    detail = f"{prospect.trigger.detail}; only {limit} of {prospect.work.input_files} files, rewrite.max_files"
    trigger = prospect.trigger._replace(detail=detail)
    return Prospect.of_one(prospect.judgement, trigger, options, groups)


def _rows(
    health: TableHealth,
    judgements: list[Judgement],
    prospects: Mapping[Key, Prospect],
    verdicts: Mapping[Key, Verdict],
    batch_ids: Mapping[Key, str],
    tariff: Tariff,
) -> list[PartitionPlan]:
    """One row for every partition: what is done first, then what waits, what is refused and what is left."""
    specs = {spec.spec_id: spec for spec in health.specs}
    nothing = Work()
    rows: dict[Decision, list[PartitionPlan]] = {decision: [] for decision in _ORDER}
    for judgement in judgements:
        partition = judgement.health
        prospect = prospects.get(judgement.key)
        verdict = verdicts.get(judgement.key)
        if verdict is None and prospect is not None:
            verdict = ("rewrite", prospect.trigger.reason, prospect.trigger.detail)
        decision, reason, detail = verdict or (judgement.decision, judgement.reason, judgement.detail)
        work = nothing if prospect is None else prospect.shares[judgement.key]
        rows[decision].append(
            PartitionPlan(
                spec_id=partition.spec_id,
                partition=human_partition(specs[partition.spec_id], partition.partition),
                decision=decision,
                reason=reason,
                detail=detail,
                type="none" if prospect is None else prospect.trigger.type,
                score=round(judgement.score, 4),
                data_files=partition.data_files,
                data_bytes=partition.data_bytes,
                small_files=partition.small_files,
                delete_files=partition.delete_files,
                input_files=work.input_files,
                input_bytes=work.input_bytes,
                output_files=work.output_files,
                input_delete_files=work.input_delete_files,
                cost=0.0 if prospect is None else tariff.total(work),
                batch_id=batch_ids.get(judgement.key),
            )
        )
    return [row for decision in _ORDER for row in rows[decision]]

"""The plan: what a run will do to one table, decided from metadata before Spark starts.

Pure: the same health, policy and parameters give the same plan. Its rewrite says what Iceberg's planner will pick, so
an empty rewrite means that Iceberg would do nothing.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import SECTIONS, Plan, PlanOutcome, TableNumbers
from airflow_iceberg_compaction.health.model import PartitionDetail, TableHealth
from airflow_iceberg_compaction.plan import sections
from airflow_iceberg_compaction.plan.cost import Tariff, Work
from airflow_iceberg_compaction.plan.rewrite import keys_to_read, plan_rewrite
from airflow_iceberg_compaction.plan.selection import Key

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import Prices, TablePolicy


def candidates(
    health: TableHealth,
    policy: TablePolicy,
    parameters: RunParameters,
    now_ms: int,
    selected: Collection[Key] | None = None,
) -> tuple[Key, ...]:
    """The partitions whose files ``make_plan`` needs: those that crossed a threshold, most urgent first."""
    if health.cannot_judge is not None:
        return ()
    return keys_to_read(health, policy, parameters, now_ms, selected)


def make_plan(
    health: TableHealth,
    details: Mapping[Key, PartitionDetail],
    policy: TablePolicy,
    prices: Prices,
    parameters: RunParameters,
    *,
    run_id: str,
    now_ms: int,
    selected: Collection[Key] | None = None,
    throughput: float | None = None,
    last_orphan_sweep_ms: int | None = None,
    other_locations: Iterable[str] = (),
) -> Plan:
    """The plan for one table. ``details`` must hold the partitions that ``candidates`` named for the same arguments.

    ``selected`` are the partitions of the run's ``partition_filter``, None without one. ``throughput`` is what past
    runs of the table reached in bytes a second, None before there were any.
    """
    if health.cannot_judge is not None or health.snapshot_id is None:
        outcome: PlanOutcome = "empty" if health.cannot_judge is None else "cannot_judge"
        return Plan(
            run_id=run_id,
            catalog=health.catalog,
            table=health.table,
            table_uuid=health.table_uuid,
            snapshot_id=health.snapshot_id,
            created_at_ms=now_ms,
            outcome=outcome,
            reason=health.cannot_judge or "the table has no snapshot yet",
            dry_run=parameters.dry_run,
            parameters=parameters.to_mapping(),
            before=table_numbers(health),
        )
    tariff = Tariff.of(prices, throughput, sections.retention_ms(policy, parameters) / sections.MS_PER_HOUR / 24)
    with _without_collector():
        rewrite, chosen = plan_rewrite(health, details, policy, parameters, tariff, now_ms, selected)
    plan = Plan(
        run_id=run_id,
        catalog=health.catalog,
        table=health.table,
        table_uuid=health.table_uuid,
        snapshot_id=health.snapshot_id,
        created_at_ms=now_ms,
        outcome="work",
        dry_run=parameters.dry_run,
        parameters=parameters.to_mapping(),
        before=table_numbers(health),
        rewrite=rewrite,
        delete_files=sections.plan_delete_files(health, policy, chosen),
        manifests=sections.plan_manifests(health, policy),
        expire=sections.plan_expiry(health, policy, parameters, now_ms),
        orphans=sections.plan_orphans(health, policy, now_ms, last_orphan_sweep_ms, tuple(other_locations)),
        cost=tariff.cost(
            Work(
                input_files=rewrite.input_files,
                input_bytes=rewrite.input_bytes,
                input_delete_files=rewrite.input_delete_files,
                output_files=rewrite.output_files,
            )
        ),
    )
    return _with_outcome(plan)


def table_numbers(health: TableHealth) -> TableNumbers:
    """The table's totals, for comparisons of before and after."""
    return TableNumbers(
        data_files=sum(p.data_files for p in health.partitions),
        data_bytes=sum(p.data_bytes for p in health.partitions),
        rows=sum(p.rows for p in health.partitions),
        small_files=sum(p.small_files for p in health.partitions),
        delete_files=sum(p.delete_files for p in health.partitions),
        snapshots=len(health.snapshots),
        manifests=health.metadata.data_manifests + health.metadata.delete_manifests,
    )


@contextmanager
def _without_collector() -> Iterator[None]:
    """A large plan is a million small objects and not one cycle: looking for cycles takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _with_outcome(plan: Plan) -> Plan:
    """Healthy is said only of a table with nothing to do, nothing put off and nothing that could not be judged."""
    busy = [section for section in SECTIONS if plan.has_work(section)]
    refused = [row for row in plan.rewrite.partitions if row.decision == "refuse"]
    deferred = [row for row in plan.rewrite.partitions if row.decision == "defer"]
    outcome: PlanOutcome
    if busy:
        outcome, reason = "work", "work for " + ", ".join(busy)
    elif refused:
        outcome, reason = (
            "cannot_judge",
            f"{len(refused)} partitions are refused, the first because {refused[0].detail}",
        )
    elif deferred:
        outcome, reason = "work", f"all {len(deferred)} partitions are put off, the first because {deferred[0].detail}"
    else:
        outcome, reason = "healthy", "nothing to do"
    return dataclasses.replace(plan, outcome=outcome, reason=reason)

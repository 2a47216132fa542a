"""Snapshots: the ones the plan predicted, as far as they may still go, and those the run's own commits pushed out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Law, StepResult
from spark_jobs.errors import ConflictError
from spark_jobs.jvm import translate
from spark_jobs.progress import note

if TYPE_CHECKING:
    from spark_jobs.context import Context

_BEFORE_ANYTHING_MS = 1  # an age rule that no snapshot meets: only the ids we name may go


def run(context: Context) -> StepResult:
    """Expire what Iceberg's own retention rules let go at the plan's cut-off, and delete what only that held.

    The run's own commits count among the snapshots to retain, so as many older ones may go on top of the planned. All
    of them are older than the cut-off; leaving them would make work for the next run out of nothing.
    """
    started = time.monotonic()
    section = context.plan.expire
    table = context.load_table()
    present = table.snapshot_ids()
    planned = set(section.snapshots) & present
    allowed = table.would_expire(section.older_than_ms, section.retain_last)
    chosen = sorted(allowed)
    remarks = []
    if planned - allowed:
        remarks.append(f"{len(planned - allowed)} planned snapshots are held by a new branch, tag or rule and stay")
    if allowed - planned:
        note(f"{len(allowed - planned)} more snapshots than planned go, pushed out by this run's own commits")
    if not chosen:
        return StepResult(
            section="expire",
            outcome="nothing_to_do",
            reason="; ".join(remarks) or "the planned snapshots are gone already",
            duration_ms=int((time.monotonic() - started) * 1000),
            numbers={"snapshots_expired": 0},
        )
    result = _expire(context, chosen, section.retain_last)
    after = context.load_table()
    left = after.snapshot_ids()
    gone, surprised = present - left, (present - left) - set(chosen)
    stayed = set(chosen) & left
    law = Law(
        name="expired_snapshots",
        scope="table",
        before=len(chosen),
        after=len(chosen) - len(stayed),
        verdict="violated" if stayed else "held",
        checked="after_publish",
        detail=f"{len(surprised)} others went by the table's own branch rules or another expiry" if surprised else "",
    )
    numbers = {
        "snapshots_expired": len(gone & set(chosen)),
        "deleted_data_files": int(result.deletedDataFilesCount()),
        "deleted_position_delete_files": int(result.deletedPositionDeleteFilesCount()),
        "deleted_equality_delete_files": int(result.deletedEqualityDeleteFilesCount()),
        "deleted_manifests": int(result.deletedManifestsCount()),
        "deleted_manifest_lists": int(result.deletedManifestListsCount()),
        "deleted_statistics_files": int(result.deletedStatisticsFilesCount()),
    }
    return StepResult(
        section="expire",
        outcome="failed" if stayed else "succeeded",
        reason=f"{len(stayed)} chosen snapshots are still there" if stayed else "; ".join(remarks),
        duration_ms=int((time.monotonic() - started) * 1000),
        numbers=numbers,
        laws=(law,),
    )


def _expire(context: Context, chosen: list[int], retain_last: int):  # type: ignore[no-untyped-def]  # a Java result
    for attempt in range(1, context.max_attempts + 1):
        table = context.load_table()
        # A rollback or a new branch since may hold some of them.
        present = table.would_expire(context.plan.expire.older_than_ms, retain_last)
        action = context.gateway.action("expireSnapshots", table)
        action.option("stream-results", "true").expireOlderThan(_BEFORE_ANYTHING_MS).retainLast(retain_last)
        for snapshot_id in chosen:
            if snapshot_id in present:
                action.expireSnapshotId(snapshot_id)
        try:
            return action.execute()
        except Exception as error:
            known = translate(error, f"expiry of {context.plan.table} failed", of_commit=True)
            if not isinstance(known, ConflictError) or attempt == context.max_attempts:
                raise known from error
            note(f"expiry attempt {attempt} lost a race: {known}")
            context.back_off(attempt)
    return None

"""What the steps share that change metadata only: one stamped commit with retries, and the law that data stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import Law
from spark_jobs.context import BATCH_ID, CLOCK_SKEW_MS, PLAN_ID
from spark_jobs.errors import ConflictError, InputGoneError, JobError, UnknownCommitStateError
from spark_jobs.jvm import translate
from spark_jobs.progress import note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_iceberg_compaction.documents import Section
    from spark_jobs.context import Context
    from spark_jobs.jvm import IcebergTable, SnapshotFacts

_TOTALS = ("total-data-files", "total-records")


def commit(
    context: Context, section: Section, name: str, change: Callable[[dict[str, str]], None]
) -> list[SnapshotFacts]:
    """Run ``change`` until it wins the race, and return the snapshots it made; nothing runs twice in one run."""
    stamps = context.stamps(section, **{BATCH_ID: f"{section}/{name}"})
    done = _stamped(context, stamps)
    if done:
        return done
    for attempt in range(1, context.max_attempts + 1):
        head = context.load_table().head()
        try:
            change(stamps)
            return _stamped(context, stamps)
        except Exception as error:
            known = translate(error, f"{name} of {context.plan.table} failed", of_commit=True, of_inputs=True)
            if isinstance(known, UnknownCommitStateError):
                done = _stamped(context, stamps)
                if done:
                    return done
            elif not isinstance(known, ConflictError):
                raise known from error
            elif isinstance(known, InputGoneError) and context.load_table().head() == head:
                raise JobError(f"{known}; nobody committed anything, so the table is damaged") from error
            if attempt == context.max_attempts:
                raise ConflictError(f"{known}; gave up after {attempt} attempts, the next run tries again") from error
            note(f"{name} attempt {attempt} lost a race: {known}")
            context.back_off(attempt)
    return []


def configure(action: Any, options: Mapping[str, str], stamps: Mapping[str, str]) -> None:
    for key, value in options.items():
        action.option(key, value)
    for key, value in stamps.items():
        action.snapshotProperty(key, value)


def iceberg_before(context: Context, major: int, minor: int) -> bool:
    """Whether the cluster's Iceberg is older; one that does not tell its version counts as old."""
    match = re.match(r"(\d+)\.(\d+)", context.gateway.iceberg_version)
    return match is None or (int(match[1]), int(match[2])) < (major, minor)


def data_untouched(table: IcebergTable, snapshot: SnapshotFacts) -> list[Law]:
    """A commit that changes metadata only leaves the number of data files and of stored rows as its parent had them."""
    parent = None if snapshot.parent_id is None else table.snapshot(snapshot.parent_id)
    scope = f"snapshot {snapshot.snapshot_id}"
    before = {} if parent is None else {key: parent.number(key) for key in _TOTALS}
    after = {key: snapshot.number(key) for key in _TOTALS}
    if parent is None or None in before.values() or None in after.values():
        detail = "the parent snapshot or the totals of the snapshot summary are gone"
        return [_law(scope, before, after, "not_checked", detail)]
    if before != after:
        detail = f"{snapshot.snapshot_id} changed data files or rows; roll back to {snapshot.parent_id}"
        return [_law(scope, before, after, "violated", detail)]
    return [_law(scope, before, after, "held", "")]


def _law(scope: str, before: Any, after: Any, verdict: Any, detail: str) -> Law:
    return Law(
        name="data_untouched",
        scope=scope,
        before=before,
        after=after,
        verdict=verdict,
        checked="after_publish",
        detail=detail,
    )


def _stamped(context: Context, stamps: Mapping[str, str]) -> list[SnapshotFacts]:
    table = context.load_table()
    return [
        s
        for s in table.lineage_since(context.plan.created_at_ms - CLOCK_SKEW_MS)
        if s.summary.get(PLAN_ID) == stamps[PLAN_ID] and s.summary.get(BATCH_ID) == stamps[BATCH_ID]
    ]

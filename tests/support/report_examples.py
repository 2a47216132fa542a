"""Plans and results for tests of what is told to people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_iceberg_compaction.documents import (
    Batch,
    Cost,
    ExpireSection,
    Law,
    OrphansSection,
    Plan,
    RewriteSection,
    RunResult,
    StepResult,
    TableNumbers,
)


def a_plan() -> Plan:
    """A plan with work in two sections."""
    batch = Batch(
        batch_id="b1", filter={}, options={}, partitions=3, input_files=60, input_bytes=6000, output_files=3, groups=3
    )
    return Plan(
        run_id="run-7",
        catalog="lake",
        table="shop.events",
        table_uuid="u",
        snapshot_id=1,
        created_at_ms=0,
        outcome="work",
        reason="3 of 5 partitions are sick",
        before=TableNumbers(data_files=100, data_bytes=10_000, rows=500, small_files=60, delete_files=9, snapshots=50),
        rewrite=RewriteSection(batches=(batch,), input_files=60, input_bytes=6000, output_files=3),
        expire=ExpireSection(snapshots=(1, 2, 3)),
        orphans=OrphansSection(reason="swept 2 days ago, due every 7d"),
        cost=Cost(total=0.5, currency="EUR"),
    )


def law(name: str = "rows", **changes: Any) -> Law:
    held = Law(name=name, scope="batch b1", before=500, after=500, verdict="held", checked="before_publish")
    return replace(held, **changes)


def rewrite_step(**changes: Any) -> StepResult:
    step = StepResult(
        section="rewrite",
        outcome="succeeded",
        reason="60 files became 3",
        snapshots=(77,),
        duration_ms=93_500,
        numbers={
            "files_compacted": 60,
            "files_added": 3,
            "bytes_before": 6000,
            "bytes_after": 5000,
            "delete_files_removed": 9,
            "probe": {"before_ms": 2000, "after_ms": 500, "equal": True},
        },
        laws=(law(),),
    )
    return replace(step, **changes)


def expire_step(**changes: Any) -> StepResult:
    return replace(
        StepResult(section="expire", outcome="succeeded", reason="3 expired", numbers={"snapshots_expired": 3}),
        **changes,
    )


def result(*steps: StepResult) -> RunResult:
    return RunResult(
        run_id="run-7", catalog="lake", table="shop.events", started_at_ms=0, finished_at_ms=9, steps=steps
    )

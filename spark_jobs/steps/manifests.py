"""Manifests: clustered again by partition, one spec at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import StepResult
from spark_jobs.jvm import each
from spark_jobs.steps import metadata

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Law
    from spark_jobs.context import Context
    from spark_jobs.jvm import SnapshotFacts


def run(context: Context) -> StepResult:
    """Rewrite the manifests of each planned spec."""
    started = time.monotonic()
    rewritten = added = 0
    snapshots: list[SnapshotFacts] = []
    if context.load_table().format_version >= 3 and metadata.iceberg_before(context, 1, 12):
        why = "left as they are: Iceberg before 1.12 gives rows new ids when it rewrites manifests of a v3 table"
        return StepResult(section="manifests", outcome="nothing_to_do", reason=why)
    for spec_id in context.plan.manifests.spec_ids:

        def rewrite(stamps: dict[str, str], spec_id: int = spec_id) -> None:
            nonlocal rewritten, added
            action = context.gateway.action("rewriteManifests", context.load_table()).specId(spec_id)
            metadata.configure(action, {}, stamps)
            result = action.execute()
            rewritten += sum(1 for _ in each(result.rewrittenManifests()))
            added += sum(1 for _ in each(result.addedManifests()))

        snapshots += metadata.commit(context, "manifests", f"spec-{spec_id}", rewrite)
    table = context.load_table()
    laws: list[Law] = [law for snapshot in snapshots for law in metadata.data_untouched(table, snapshot)]
    broken = [law.detail for law in laws if law.verdict == "violated"]
    return StepResult(
        section="manifests",
        outcome="failed" if broken else "succeeded" if snapshots else "nothing_to_do",
        reason="; ".join(broken) or ("" if snapshots else "Iceberg found the manifests well clustered"),
        snapshots=tuple(s.snapshot_id for s in snapshots),
        duration_ms=int((time.monotonic() - started) * 1000),
        numbers={"manifests_rewritten": rewritten, "manifests_added": added},
        laws=tuple(laws),
    )

"""Delete files that no data rewrite will remove: dangling ones go, small position deletes are packed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Law, StepResult
from spark_jobs import compare
from spark_jobs.audit import not_checked
from spark_jobs.jvm import each
from spark_jobs.steps import metadata

if TYPE_CHECKING:
    from spark_jobs.context import Context
    from spark_jobs.jvm import SnapshotFacts


def run(context: Context) -> StepResult:
    """Pack position deletes, then remove dangling delete files, as the plan asks."""
    started = time.monotonic()
    section = context.plan.delete_files
    removed = rewritten = added = 0
    snapshots: list[SnapshotFacts] = []
    laws: list[Law] = []
    if section.rewrite_position_deletes:

        def pack(stamps: dict[str, str]) -> None:
            nonlocal rewritten, added
            action = context.gateway.action("rewritePositionDeletes", context.load_table())
            metadata.configure(action, section.options, stamps)
            result = action.execute()
            rewritten, added = int(result.rewrittenDeleteFilesCount()), int(result.addedDeleteFilesCount())

        snapshots += metadata.commit(context, "delete_files", "position-deletes", pack)
    remarks = []
    if section.remove_dangling and metadata.iceberg_before(context, 1, 12):
        remarks.append("dangling deletes stay: Iceberg before 1.12 may drop an equality delete that still applies")
    elif section.remove_dangling:

        def drop(stamps: dict[str, str]) -> None:
            nonlocal removed
            action = context.gateway.action("removeDanglingDeleteFiles", context.load_table())
            metadata.configure(action, {}, stamps)
            removed = sum(1 for _ in each(action.execute().removedDeleteFiles()))

        snapshots += metadata.commit(context, "delete_files", "dangling-deletes", drop)
    table = context.load_table()
    for snapshot in snapshots:
        laws += metadata.data_untouched(table, snapshot)
        scope = f"snapshot {snapshot.snapshot_id}"
        if context.plan.rewrite.audit == "checksum":
            laws += compare.snapshots(context, scope, snapshot)
        else:
            # Totals of a summary do not tell which rows deletes still hide; only counting them does.
            detail = "rows behind delete files are counted with `audit: checksum` only"
            laws.append(not_checked("rows", scope, detail, "after_publish"))
    gone = removed + rewritten - added
    broken = [law.detail for law in laws if law.verdict == "violated"]
    return StepResult(
        section="delete_files",
        outcome="failed" if broken else "succeeded" if snapshots or gone else "nothing_to_do",
        reason="; ".join(broken or remarks) or ("" if gone else "Iceberg found no delete file to remove or to pack"),
        snapshots=tuple(s.snapshot_id for s in snapshots),
        duration_ms=int((time.monotonic() - started) * 1000),
        numbers={
            "delete_files_removed": gone,
            "dangling_delete_files_removed": removed,
            "position_delete_files_rewritten": rewritten,
            "position_delete_files_added": added,
        },
        laws=tuple(laws),
        remarks=tuple(remarks),
    )

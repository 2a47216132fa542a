"""The way through Iceberg's public action, for a version whose internals this job does not know.

The action publishes at once, so the audit can only come afterwards: it compares the new snapshot with its parent, and
the certificate says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Law
from spark_jobs.checksum import checksum
from spark_jobs.context import ATTEMPT_ID, BATCH_ID
from spark_jobs.jvm import translate

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Batch
    from spark_jobs.context import Context
    from spark_jobs.jvm import IcebergTable, SnapshotFacts


def publish(context: Context, table: IcebergTable, batch: Batch, attempt_id: str) -> None:
    """Rewrite and commit one batch with Iceberg's own action; ConflictError and the like when it fails."""
    section = context.plan.rewrite
    action = context.gateway.action("rewriteDataFiles", table).filter(table.expression(batch.filter))
    if section.strategy == "zorder":
        action.zOrder(context.gateway.strings(section.sort_order))
    elif section.strategy == "sort":
        action.sort(context.gateway.sort_order(table, section.sort_order)) if section.sort_order else action.sort()
    else:
        action.binPack()
    for key, value in batch.options.items():
        action.option(key, value)
    for key, value in context.stamps("rewrite", **{BATCH_ID: batch.batch_id, ATTEMPT_ID: attempt_id}).items():
        action.snapshotProperty(key, value)
    try:
        action.execute()
    except Exception as error:
        raise translate(error, f"batch {batch.batch_id} failed") from error


def after_publish(context: Context, batch: Batch, published: SnapshotFacts) -> tuple[Law, ...]:
    """The rows a reader sees in the new snapshot are those of its parent."""
    spark = context.gateway.spark
    name = f"{context.plan.catalog}.{context.plan.table}"
    scope = f"batch {batch.batch_id}"
    if published.parent_id is None:
        return ()
    old = spark.read.option("versionAsOf", str(published.parent_id)).table(name)
    new = spark.read.option("versionAsOf", str(published.snapshot_id)).table(name)
    before, after = old.count(), new.count()
    laws = [_law("rows", scope, before, after, published)]
    if context.plan.rewrite.audit == "checksum" or before != after:
        laws.append(_law("checksum", scope, str(checksum(old)), str(checksum(new)), published))
    return tuple(laws)


def _law(name: str, scope: str, before: object, after: object, published: SnapshotFacts) -> Law:
    held = before == after
    return Law(
        name=name,
        scope=scope,
        before=before,
        after=after,
        verdict="held" if held else "violated",
        checked="after_publish",
        detail="the whole table was compared" if held else f"roll back to snapshot {published.parent_id}",
    )

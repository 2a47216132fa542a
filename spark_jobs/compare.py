"""What a reader sees in a snapshot and in its parent: the law for commits that could not be audited before publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Law
from spark_jobs.audit import not_checked
from spark_jobs.checksum import checksum
from spark_jobs.jvm import quoted

if TYPE_CHECKING:
    from spark_jobs.context import Context
    from spark_jobs.jvm import SnapshotFacts


def snapshots(context: Context, scope: str, published: SnapshotFacts) -> tuple[Law, ...]:
    """The rows of ``published`` are those of its parent; with `audit: checksum` so is their content."""
    parent = None if published.parent_id is None else context.load_table().snapshot(published.parent_id)
    if parent is None:
        detail = "the snapshot before it is gone, so the two cannot be compared"
        return (not_checked("rows", scope, detail, "after_publish"),)
    # In SQL, because Spark 3.5 ignores the reader's option `versionAsOf` for a table.
    query = f"SELECT * FROM {quoted(f'{context.plan.catalog}.{context.plan.table}')} VERSION AS OF "
    old = context.gateway.spark.sql(f"{query}{published.parent_id}")
    new = context.gateway.spark.sql(f"{query}{published.snapshot_id}")
    before, after = old.count(), new.count()
    laws = [_law("rows", scope, before, after, published)]
    wanted = context.plan.rewrite.audit == "checksum" or before != after
    if wanted and parent.schema_id != published.schema_id:
        laws.append(not_checked("checksum", scope, "the schema changed between the two snapshots", "after_publish"))
    elif wanted:
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

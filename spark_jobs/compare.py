"""What a reader sees in a snapshot and in its parent: the law for commits that could not be audited before publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import Law
from spark_jobs.checksum import checksum

if TYPE_CHECKING:
    from spark_jobs.context import Context
    from spark_jobs.jvm import SnapshotFacts


def snapshots(context: Context, scope: str, published: SnapshotFacts) -> tuple[Law, ...]:
    """The rows of ``published`` are those of its parent; with `audit: checksum` so is their content."""
    if published.parent_id is None or context.load_table().snapshot(published.parent_id) is None:
        detail = "the snapshot before it is gone, so the two cannot be compared"
        return (Law(name="rows", scope=scope, before=None, after=None, verdict="not_checked", checked="after_publish",
                    detail=detail),)  # fmt: skip
    spark = context.gateway.spark
    name = f"{context.plan.catalog}.{context.plan.table}"
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

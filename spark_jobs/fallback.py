"""The way through Iceberg's public action, for a version whose internals this job does not know.

The action publishes at once, so the audit can only come afterwards (`compare`), and the certificate says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.context import ATTEMPT_ID, BATCH_ID
from spark_jobs.jvm import translate

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Batch
    from spark_jobs.context import Context
    from spark_jobs.jvm import IcebergTable


def publish(context: Context, table: IcebergTable, batch: Batch, attempt_id: str) -> None:
    """Rewrite and commit one batch with Iceberg's own action; ConflictError and the like when it fails."""
    section = context.plan.rewrite
    action = context.gateway.action("rewriteDataFiles", table).filter(table.expression(batch.filter))
    if section.strategy == "zorder":
        action.zOrder(context.gateway.strings(section.sort_order))
    elif section.strategy == "sort" and section.sort_order:
        action.sort(context.gateway.sort_order(table, section.sort_order))
    elif section.strategy == "sort":
        action.sort()
    else:
        action.binPack()
    # Files that move to another spec must be young, see rewrite.py; which ones do, only the action knows.
    several_specs = {"use-starting-sequence-number": "false"} if table.has_several_specs else {}
    for key, value in (dict(batch.options) | several_specs).items():
        action.option(key, value)
    for key, value in context.stamps("rewrite", **{BATCH_ID: batch.batch_id, ATTEMPT_ID: attempt_id}).items():
        action.snapshotProperty(key, value)
    try:
        action.execute()
    except Exception as error:
        raise translate(error, f"batch {batch.batch_id} failed", of_commit=True, of_inputs=True) from error

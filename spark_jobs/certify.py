"""Bring the laws of `audit` together with the numbers they need: statistics, engine counts, checksums, the new head."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import Law
from spark_jobs import audit
from spark_jobs.checksum import LINEAGE, NOTHING, checksum, live_rows
from spark_jobs.errors import JobError
from spark_jobs.jvm import first_line, translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_iceberg_compaction.documents import Batch
    from spark_jobs.context import Context
    from spark_jobs.jvm import Group, IcebergTable, SnapshotFacts


def before_publish(
    context: Context, table: IcebergTable, batch: Batch, snapshot_id: int, expression: Any, groups: Sequence[Group]
) -> tuple[Law, ...]:
    """Every law of one batch whose files are written but not published."""
    scope = f"batch {batch.batch_id}"
    try:
        sides = _sides(context, table, snapshot_id, expression, groups)
        laws = audit.check(scope, sides)
        suspicious = any(law.verdict == "violated" for law in laws)
        if suspicious or context.plan.rewrite.audit == "checksum":
            laws = audit.settled(laws, _checksum(context, table, scope, groups))
        if table.format_version >= 3:
            laws = (*laws, _lineage(context, table, scope, groups))
        return laws
    except Exception as error:
        raise translate(error, f"the audit of {scope} could not be carried out", of_inputs=True) from error


def after_publish(
    table: IcebergTable, batch: Batch, published: SnapshotFacts, groups: Sequence[Group]
) -> tuple[Law, ...]:
    """The commit added and removed exactly what was audited, and its totals follow from its parent's."""
    scope = f"batch {batch.batch_id}"
    expected = {
        "added-data-files": sum(len(g.outputs) for g in groups),
        "deleted-data-files": sum(len(g.inputs) for g in groups),
        "added-records": sum(int(f["record-count"]) for g in groups for f in g.outputs),
        "deleted-records": sum(f.rows for g in groups for f in g.inputs),
    }
    found = {key: published.number(key) or 0 for key in expected}
    wrong = [f"{key} is {found[key]}, {expected[key]} were audited" for key in expected if found[key] != expected[key]]
    laws = [_law("published_files", scope, expected, found, wrong)]
    laws.append(head_rows(table, scope, published, expected["added-records"], expected["deleted-records"]))
    return tuple(laws)


def head_rows(table: IcebergTable, scope: str, published: SnapshotFacts, added: int, deleted: int) -> Law:
    """The parent is what others had committed by then: its rows and ours make the new head, and nothing else."""
    try:
        table.refresh()
    except Exception as error:
        why = f"the catalog did not answer after the commit: {first_line(error)}"
        return audit.not_checked("head_rows", scope, why, "after_publish")
    parent = None if published.parent_id is None else table.snapshot(published.parent_id)
    rows_then = None if parent is None else parent.number("total-records")
    rows_now = published.number("total-records")
    if rows_then is None or rows_now is None:
        detail = "the parent snapshot or the totals of the snapshot summary are gone"
        return audit.not_checked("head_rows", scope, detail, "after_publish")
    due = rows_then + added - deleted
    wrong = [] if due == rows_now else [f"{rows_then} rows before, {due} due, {rows_now} found"]
    return _law("head_rows", scope, due, rows_now, wrong)


def stamp(laws: Sequence[Law]) -> str:
    """What was proven before the commit, short enough for its snapshot summary."""
    rows = next(law for law in laws if law.name == "rows")
    verdicts = {law.name: law.verdict for law in laws}
    return json.dumps({"rows": [rows.before, rows.after], "laws": verdicts}, separators=(",", ":"))


def from_stamp(batch: Batch, text: str | None) -> tuple[Law, ...]:
    """The laws of a batch that an earlier, lost application published, as its snapshot remembers them."""
    if text is None:
        return ()
    found = json.loads(text)
    return tuple(
        Law(
            name=name,
            scope=f"batch {batch.batch_id}",
            before=found["rows"][0] if name == "rows" else None,
            after=found["rows"][1] if name == "rows" else None,
            verdict=verdict,
            checked="before_publish",
            detail="as the snapshot's summary records it; the application that checked it was lost",
        )
        for name, verdict in found["laws"].items()
    )


def _sides(
    context: Context, table: IcebergTable, snapshot_id: int, expression: Any, groups: Sequence[Group]
) -> list[audit.GroupSides]:
    columns = audit.columns_of(table.schema(), table.properties)
    before = {group.index: audit.Side(columns) for group in groups}
    group_of = {file.path: group.index for group in groups for file in group.inputs}
    for chunk in table.data_files(expression, snapshot_id, statistics=True):
        for file in chunk:
            index = group_of.get(file["file-path"])
            if index is not None:
                before[index].add(file)
    for group in groups:
        if before[group.index].files != len(group.inputs):
            raise JobError(
                f"statistics of {before[group.index].files} of {len(group.inputs)} files of group {group.index} were found; "
                "please report this with the table's metadata"
            )
    live = _live_rows(context, table, groups)
    sides = []
    for group in groups:
        after = audit.Side(columns)
        for file in group.outputs:
            after.add(file)
        sides.append(
            audit.GroupSides(
                index=group.index,
                before=before[group.index],
                after=after,
                live_rows=live[group.index],
                has_deletes=bool(group.deletes),
            )
        )
    return sides


def _live_rows(context: Context, table: IcebergTable, groups: Sequence[Group]) -> dict[int, int]:
    """Rows per group that no delete removes. A deletion vector knows its own count; other deletes overlap: Spark counts."""
    stored = {g.index: sum(file.rows for file in g.inputs) for g in groups}
    counted = [g for g in groups if not all(delete.is_dv for delete in g.deletes)]
    live = {g.index: stored[g.index] - sum(delete.rows for delete in g.deletes) for g in groups if g not in counted}
    if counted:
        live |= dict.fromkeys((g.index for g in counted), 0)
        group_of = {file.path: g.index for g in counted for file in g.inputs}
        with context.gateway.rows_of(table, context.gateway.tasks_of_inputs(counted)) as rows:
            for path, count in live_rows(rows).items():
                live[group_of[path]] += count
    return live


def _checksum(context: Context, table: IcebergTable, scope: str, groups: Sequence[Group]) -> Law:
    gateway = context.gateway
    with gateway.rows_of(table, gateway.tasks_of_inputs(groups)) as rows:
        before = checksum(rows)
    after = NOTHING  # every row may have been deleted
    if any(group.outputs for group in groups):
        with gateway.rows_of(table, gateway.tasks_of_outputs(table, groups)) as rows:
            after = checksum(rows)
    wrong = [] if before == after else [f"{before.rows} rows became {after.rows}, or their content changed"]
    return _law("checksum", scope, str(before), str(after), wrong, checked_before=True)


def _lineage(context: Context, table: IcebergTable, scope: str, groups: Sequence[Group]) -> Law:
    """Row ids and last-updated numbers of a v3 table survive the rewrite; only reading the data can tell."""
    if context.plan.rewrite.audit != "checksum":
        return audit.not_checked("row_lineage", scope, "set `audit: checksum` to compare row ids", "before_publish")
    gateway = context.gateway
    paths = [f["file-path"] for g in groups for f in g.outputs]
    if {f["file-format"].lower() for g in groups for f in g.outputs} - {"parquet"}:
        return audit.not_checked(
            "row_lineage", scope, "row ids can be compared in Parquet files only", "before_publish"
        )
    with gateway.rows_of(table, gateway.tasks_of_inputs(groups)) as rows:
        if not set(LINEAGE) <= set(rows.columns):
            return audit.not_checked("row_lineage", scope, "this Iceberg does not show row ids", "before_publish")
        before = checksum(rows, list(LINEAGE))
    # Iceberg's reader derives lineage from committed sequence numbers, which these files do not have yet: read the
    # columns as they are stored.
    after = NOTHING
    if paths:
        try:
            written = gateway.spark.read.parquet(*paths)
        except Exception as error:  # Spark reads with Hadoop's clients, which a cluster on object storage may not have
            why = f"the new files cannot be read without Iceberg: {first_line(error)}"
            return audit.not_checked("row_lineage", scope, why, "before_publish")
        if not set(LINEAGE) <= set(written.columns):
            return _law("row_lineage", scope, str(before), None, ["the new files hold no row ids"], checked_before=True)
        after = checksum(written, list(LINEAGE))
    wrong = [] if before == after else ["row ids or last-updated sequence numbers changed"]
    return _law("row_lineage", scope, str(before), str(after), wrong, checked_before=True)


def _law(name: str, scope: str, before: Any, after: Any, wrong: list[str], *, checked_before: bool = False) -> Law:
    return Law(
        name=name,
        scope=scope,
        before=before,
        after=after,
        verdict="violated" if wrong else "held",
        checked="before_publish" if checked_before else "after_publish",
        detail="; ".join(wrong),
    )

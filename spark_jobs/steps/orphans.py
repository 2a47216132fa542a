"""Files that no snapshot knows: listed by default, deleted only behind every guard the plan sets.

The list is written down before anything is deleted. Deleting compares that list again with the table as it is then, so a
file that was published in between stays.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import StepResult
from spark_jobs.errors import RefusedError
from spark_jobs.jvm import each, translate
from spark_jobs.locations import contains, spelled_like

if TYPE_CHECKING:
    from spark_jobs.context import Context
    from spark_jobs.jvm import IcebergTable

_HARD_FLOOR_MS = 24 * 3600 * 1000  # Iceberg's own lower limit: a writer may be slower than anybody thinks
_EXAMPLES = 20


def run(context: Context) -> StepResult:
    """List orphan files; in mode ``delete`` remove them when the caps allow it."""
    started = time.monotonic()
    section = context.plan.orphans
    table = context.load_table()
    locations = _locations(table)
    _refuse_overlap(locations, section.other_locations)
    if section.older_than_ms > int(time.time() * 1000) - _HARD_FLOOR_MS:
        raise RefusedError("orphan files younger than 24 hours may belong to a running writer; raise `older_than`")
    found: list[str] = []
    for location in locations:
        found += _list(context, table, location, section.older_than_ms)
    found = sorted(set(found))
    list_uri = context.document.write_beside(".orphans.txt", "".join(f"{path}\n" for path in found))
    numbers: dict[str, Any] = {
        "orphan_files_found": len(found),
        "orphan_files_deleted": 0,
        "orphan_list": list_uri,
        "orphan_examples": found[:_EXAMPLES],
    }
    outcome, reason = "succeeded", ""
    if section.mode == "delete" and found:
        refusal = _over_cap(table, len(found), section.max_deletes, section.max_share)
        if refusal:
            outcome, reason = "refused", refusal
        else:
            numbers["orphan_files_deleted"] = _delete(context, locations[:1], found, section.older_than_ms)
            if locations[1:]:
                reason = f"only under {locations[0]}; other tables may share {', '.join(locations[1:])}: see {list_uri}"
    elif not found:
        reason = "no orphan files"
    else:
        reason = (
            f"{len(found)} orphan files are listed in {list_uri}; set `orphan_files: {{mode: delete}}` to remove them"
        )
    return StepResult(
        section="orphans",
        outcome="refused" if outcome == "refused" else "succeeded",
        reason=reason,
        duration_ms=int((time.monotonic() - started) * 1000),
        numbers=numbers,
    )


def _locations(table: IcebergTable) -> list[str]:
    """The table's root and whatever of its files is configured to lie outside of it."""
    chosen = [table.location.rstrip("/")]
    metadata = table.properties.get("write.metadata.path", "").rstrip("/")
    for other in (table.data_location, metadata):
        if other and not any(contains(root, other) for root in chosen):
            chosen.append(other)
    return chosen


def _refuse_overlap(locations: list[str], others: tuple[str, ...]) -> None:
    for mine in locations:
        for other in others:
            if contains(mine, other) or contains(other, mine):
                raise RefusedError(
                    f"{mine} overlaps {other}, the location of another table, whose files would look like orphans; "
                    "set `orphan_files: {mode: off}` for this table or move one of them"
                )


def _list(context: Context, table: IcebergTable, location: str, older_than_ms: int) -> list[str]:
    action = context.gateway.action("deleteOrphanFiles", table).location(location).olderThan(older_than_ms)
    action.usePrefixListing(not context.gateway.has_hadoop_client(location))
    try:
        result = action.deleteWith(context.gateway.path_collector()).execute()
    except Exception as error:
        raise translate(error, f"orphan files of {context.plan.table} could not be listed") from error
    found = [str(path) for path in each(result.orphanFileLocations())]
    stray = next((path for path in found if not contains(location, path)), None)
    if stray is not None:
        raise RefusedError(
            f"the table's FileIO lists {stray}, which is not below {location}, so nothing can be told from its list; add "
            "Hadoop's client of that storage to `spark.packages`"
        )
    return found


def _over_cap(table: IcebergTable, found: int, max_deletes: int, max_share: float) -> str:
    head = table.head()
    live = 0 if head is None else (head.number("total-data-files") or 0) + (head.number("total-delete-files") or 0)
    if max_deletes and found > max_deletes:
        return f"{found} orphan files are more than `max_deletes` {max_deletes}; look at the list, then raise it"
    if found > max_share * live:
        return (
            f"{found} orphan files are more than {max_share:.0%} of the {live} live files (`max_share`); this often means a "
            "shared or renamed location: look at the list before raising it"
        )
    return ""


def _delete(context: Context, locations: list[str], found: list[str], older_than_ms: int) -> int:
    """Delete what is on the list and still nobody's, by a fresh look at the table."""
    table = context.load_table()
    # Iceberg compares list and location as texts, so the location must be spelled as the listing spells it, and end
    # with a slash: `events` is also how `events-of-somebody-else` begins.
    spelled: dict[str, list[str]] = {}
    for path in found:
        for location in locations:
            if contains(location, path):
                spelled.setdefault(f"{spelled_like(path, location)}/", []).append(path)
    deleted = 0
    for location, below in sorted(spelled.items()):
        rows = context.gateway.spark.createDataFrame([(path,) for path in below], "file_path string").selectExpr(
            "file_path", "timestamp_millis(0) as last_modified"
        )
        action = context.gateway.action("deleteOrphanFiles", table).location(location).olderThan(older_than_ms)
        try:
            result = action.compareToFileList(context.gateway.java_rows(rows)).execute()
        except Exception as error:
            raise translate(error, f"orphan files of {context.plan.table} could not be deleted") from error
        deleted += sum(1 for _ in each(result.orphanFileLocations()))
    return deleted

"""Where an attempt at a batch writes, and how files that were never published are found and removed.

Every attempt writes under a folder of its own, ``<data>/compacted/<run>/<batch>/<attempt>/``, whose first file lists the
attempt's inputs. A killed job therefore leaves folders that can be told apart from everything other writers do.

An attempt that died may not be dead: a lost driver can still reach the catalog. Its files are removed only when it can
never be published any more, because one of its inputs is no longer live (Iceberg then refuses its commit), and was never
published, because no snapshot carries its stamp.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.context import ATTEMPT_ID, CLOCK_SKEW_MS, PLAN_ID
from spark_jobs.errors import RefusedError
from spark_jobs.jvm import first_line
from spark_jobs.locations import contains, normal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_iceberg_compaction.documents import Plan
    from spark_jobs.jvm import Group, IcebergTable

FOLDER = "compacted"
INPUTS = "inputs.txt"


@dataclass(frozen=True)
class Attempt:
    batch_id: str
    attempt_id: str
    destination: str

    @classmethod
    def new(cls, table: IcebergTable, plan_id: str, batch_id: str) -> Attempt:
        attempt_id = uuid.uuid4().hex[:12]
        return cls(batch_id, attempt_id, f"{plan_prefix(table, plan_id)}/{_slug(batch_id)}/{attempt_id}")

    @property
    def inputs_file(self) -> str:
        return f"{self.destination}/{INPUTS}"

    def begin(self, table: IcebergTable, groups: Iterable[Group]) -> None:
        """Record the inputs before anything is written."""
        table.write_text(self.inputs_file, "".join(f"{file.path}\n" for group in groups for file in group.inputs))

    def published(self, table: IcebergTable) -> None:
        """The record has done its service."""
        _remove(table, [self.inputs_file])

    def abandon(self, table: IcebergTable, groups: Iterable[Group]) -> str:
        """Remove what this attempt wrote; why not, if it could not. Only for an attempt that was surely not published."""
        # A location provider of the table's own may put files elsewhere.
        written = [file["file-path"] for group in groups for file in group.outputs]
        elsewhere = [path for path in written if not contains(self.destination, path)]
        try:
            files = table.list_files(f"{self.destination}/")
        except RefusedError as error:
            return _remove(table, written) or str(error)
        return _remove(table, [*elsewhere, *_record_last(files)])


def plan_prefix(table: IcebergTable, plan_id: str) -> str:
    return f"{table.data_location}/{FOLDER}/{_slug(plan_id)}"


def clean_leftovers(table: IcebergTable, plan: Plan) -> tuple[int, tuple[str, ...]]:
    """Remove what former attempts of this run wrote and never published: (files removed, why some were kept)."""
    table.refresh()  # what others and this very run published meanwhile decides what is left over
    prefix = plan_prefix(table, plan.plan_id)
    try:
        folders = _attempt_folders(table.list_files(f"{prefix}/"))
    except RefusedError as error:
        return 0, (f"leftovers of a killed attempt would stay until the next orphan removal: {error}",)
    stamped = {
        s.summary.get(ATTEMPT_ID)
        for s in table.snapshots_since(plan.created_at_ms - CLOCK_SKEW_MS)
        if s.summary.get(PLAN_ID) == plan.plan_id
    }
    kept: list[str] = []
    for folder in [folder for folder in folders if folder.rpartition("/")[2] in stamped]:
        record = _record(folders.pop(folder))  # published, but the job was killed before it removed the record
        kept.append(_remove(table, [record] if record else []))
    removed = 0
    if folders and (plan.snapshot_id is None or table.snapshot(plan.snapshot_id) is None):
        kept += [
            f"{folder}: the snapshot log no longer reaches back to the plan; left to orphan removal"
            for folder in folders
        ]
    elif folders:
        live = _live_paths(table)
        for folder, files in folders.items():
            reason = _why_keep(table, folder, files, live)
            if not reason:
                reason = _remove(table, _record_last(files))
                removed += len(files) - 1
            kept.append(reason)
    return removed, tuple(reason for reason in kept if reason)


def _why_keep(table: IcebergTable, folder: str, files: list[str], live: set[str]) -> str:
    record = _record(files)
    if any(normal(path) in live for path in files):
        return f"{folder} holds live files"  # published, although its stamp is gone
    if record is None:
        return f"{folder} has no record of its inputs, so its files are left to orphan removal"
    try:
        inputs = table.read_text(record).splitlines()
    except Exception as error:
        return f"the record of inputs in {folder} cannot be read ({first_line(error)}); left to orphan removal"
    if inputs and all(normal(path) in live for path in inputs):
        return f"{folder} may still be published by an attempt that is alive; left to orphan removal"
    return ""


def _record(files: Iterable[str]) -> str | None:
    return next((path for path in files if path.endswith(f"/{INPUTS}")), None)


def _record_last(files: Iterable[str]) -> list[str]:
    """A folder without its record could not be judged any more, so the record goes last."""
    return sorted(files, key=lambda path: path.endswith(f"/{INPUTS}"))


def _attempt_folders(paths: Iterable[str]) -> dict[str, list[str]]:
    """Files by attempt folder: ``.../compacted/<run>/<batch>/<attempt>``."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        match = re.match(rf"(.*/{FOLDER}/[^/]+/[^/]+/[0-9a-f]{{12}})/", path)
        if match:
            folders.setdefault(match[1], []).append(path)
    return folders


def _live_paths(table: IcebergTable) -> set[str]:
    head = table.head()
    if head is None:
        return set()
    return {
        normal(file["file-path"])
        for chunk in table.data_files(table.everything(), head.snapshot_id, statistics=False)
        for file in chunk
    }


def _remove(table: IcebergTable, paths: list[str]) -> str:
    for path in paths:
        try:
            table.delete_file(path)
        except Exception as error:
            return f"{path} could not be deleted ({first_line(error)}); left to orphan removal"
    return ""


def _slug(text: str) -> str:
    """A folder name that is readable and as unique as ``text``; hidden names would escape orphan removal."""
    safe = re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip(".-")[:60] or "run"
    return safe if safe == text else f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

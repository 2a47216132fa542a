"""Where an attempt at a batch writes, and how files that were never published are found and removed.

Every attempt writes under a folder of its own, ``<data>/compacted/<run>/<batch>/<attempt>/``, whose first file lists the
attempt's inputs. A killed job therefore leaves folders that can be told apart from everything other writers do.

An attempt that died may not be dead: a lost driver can still reach the catalog. Its files are removed only when no
snapshot holds one of them and none ever will, because one of its inputs is no longer live (Iceberg then refuses its
commit). Of a published attempt only what lost executors left goes: nothing writes to its folder any more.
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

    def published(self, table: IcebergTable, groups: Iterable[Group]) -> None:
        """Remove the record, which has done its service, and what tasks of lost executors left beside the outputs."""
        outputs = {_name(file["file-path"]) for group in groups for file in group.outputs}
        try:
            files = table.list_files(f"{self.destination}/")
        except RefusedError:
            files = []
        left = [path for path in files if _name(path) not in outputs | {INPUTS}]
        _remove(table, [*left, self.inputs_file])

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
    # A folder without its record was tidied up when it was published.
    folders = {folder: files for folder, files in folders.items() if _record(files)}
    if not folders:
        return 0, ()
    held = {_name(path) for path in table.paths_in_any_snapshot(f"/{FOLDER}/{_slug(plan.plan_id)}/")}
    stamped = {
        s.summary.get(ATTEMPT_ID)
        for s in table.snapshots_since(plan.created_at_ms - CLOCK_SKEW_MS)
        if s.summary.get(PLAN_ID) == plan.plan_id
    }
    removed = 0
    kept: list[str] = []
    for folder, files in folders.items():
        reason, leftovers = "", [path for path in files if _name(path) not in held]
        if len(leftovers) == len(files) and _name(folder) in stamped:
            leftovers = [path for path in files if path == _record(files)]  # published without any row, as it seems
        elif len(leftovers) == len(files):
            reason = _why_keep(table, folder, files)
        if not reason:
            reason = _remove(table, _record_last(leftovers))
            removed += len(leftovers) - 1
        kept.append(reason)
    return removed, tuple(reason for reason in kept if reason)


def _why_keep(table: IcebergTable, folder: str, files: list[str]) -> str:
    try:
        inputs = {normal(path) for path in table.read_text(str(_record(files))).split("\n") if path}
    except Exception as error:
        return f"the record of inputs in {folder} cannot be read ({first_line(error)}); left to orphan removal"
    if inputs <= _live(table, inputs):
        return f"{folder} may still be published by an attempt that is alive; left to orphan removal"
    return ""


def _name(path: str) -> str:
    """Names of data files are unique, and unlike whole paths they are spelled alike by every store's listing."""
    return path.rpartition("/")[2]


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


def _live(table: IcebergTable, paths: set[str]) -> set[str]:
    """Those of ``paths`` that the head holds."""
    head = table.head()
    if head is None:
        return set()
    chunks = table.data_files(table.everything(), head.snapshot_id, statistics=False)
    return {path for chunk in chunks for file in chunk if (path := normal(file["file-path"])) in paths}


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

"""Waits, without a worker, until a table may need maintenance."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_iceberg_compaction.triggers.probe import TableProbe


class IcebergHealthTrigger(BaseTrigger):
    """
    Fire when the head of a table is a new commit whose summary leaves room for work, or when it is time to look again.

    Each poll reads the snapshot summary alone, whatever the size of the table; reading manifests is left to the worker
    that wakes up. Nothing is remembered between polls but the arguments, so a restart changes nothing.

    :param probe: Arguments of :class:`TableProbe`.
    :param judged_snapshot_id: The snapshot found healthy; the trigger is silent while it is the head.
    :param min_small_files: Fewest small files that make a partition sick.
    :param recheck_at: Time (seconds since 1970) at which to fire anyway: snapshots grow old without any commit.
    :param deadline: When the sensor gives up, in seconds since 1970; handed back with the event.
    :param poll_interval: Seconds between polls.
    :param max_failures: Polls in a row that may fail before the trigger does: a dead catalog is never healthy.
    """

    def __init__(
        self,
        *,
        probe: dict[str, Any],
        judged_snapshot_id: int | None,
        min_small_files: int,
        recheck_at: float,
        deadline: float,
        poll_interval: float = 60.0,
        max_failures: int = 5,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are untyped
        self.probe = probe
        self.judged_snapshot_id = judged_snapshot_id
        self.min_small_files = min_small_files
        self.recheck_at = recheck_at
        self.deadline = deadline
        self.poll_interval = poll_interval
        self.max_failures = max_failures

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = (
            "probe",
            "judged_snapshot_id",
            "min_small_files",
            "recheck_at",
            "deadline",
            "poll_interval",
            "max_failures",
        )
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        probe = TableProbe(**self.probe)
        failures = 0
        while True:
            try:
                table = await probe.load()
            except Exception as error:
                failures += 1
                self.log.warning("Poll %s of %s failed: %s", failures, probe.table, error)
                if failures >= self.max_failures:
                    raise
            else:
                failures = 0
                head = table.current_snapshot() if table is not None else None
                if head is not None and head.snapshot_id != self.judged_snapshot_id:
                    summary = head.summary.additional_properties if head.summary else {}
                    if may_need_work(summary, self.min_small_files):
                        yield TriggerEvent({"status": "changed", "deadline": self.deadline})  # type: ignore[no-untyped-call]
                        return
                if time.time() >= self.recheck_at:
                    yield TriggerEvent({"status": "recheck", "deadline": self.deadline})  # type: ignore[no-untyped-call]
                    return
            await asyncio.sleep(self.poll_interval)


def may_need_work(summary: Mapping[str, str], min_small_files: int) -> bool:
    """Whether the totals of a snapshot leave room for a sick partition. Totals are optional: absent is not zero."""
    files, deletes = summary.get("total-data-files"), summary.get("total-delete-files")
    return files is None or deletes is None or int(files) >= min_small_files or int(deletes) > 0

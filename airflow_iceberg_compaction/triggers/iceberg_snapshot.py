"""Turns commits of other engines into asset events, and our own into nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_iceberg_compaction.triggers.probe import TableProbe

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_WATERMARK = "snapshot_id"
_STAMP = "iceberg-compaction.run-id"
_MAX_BACKOFF = 16


class IcebergCommitTrigger(BaseEventTrigger):
    """
    Fire an event when any engine has committed data to a table.

    Snapshots that only replace files, and whatever carries the stamp of a maintenance run, are passed over: a
    maintenance run never triggers itself. Several commits between two polls are one event. The last snapshot seen is
    kept in the asset's state store where Airflow has one (3.3 or newer), so a restart neither repeats nor loses one.

    :param probe: Arguments of :class:`TableProbe`.
    :param poll_interval: Seconds between polls.
    """

    def __init__(self, *, probe: dict[str, Any], poll_interval: float = 60.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]  # Airflow's triggers are untyped
        self.probe = probe
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"probe": self.probe, "poll_interval": self.poll_interval}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        probe = TableProbe(**self.probe)
        store = _OneAssetStore(getattr(self, "asset_state_store", None))
        seen = await store.get()
        # Without a watermark the current head is where watching starts, not news.
        starting = seen is None
        failures = 0
        while True:
            try:
                table = await probe.load()
            except Exception as error:
                # A watcher outlives an outage; raising would have the triggerer restart it once a second.
                failures += 1
                self.log.warning("Cannot look at %s, will try again: %s", probe.table, error)
            else:
                failures = 0
                head = table.current_snapshot() if table is not None else None
                if table is not None and head is not None and head.snapshot_id != seen:
                    commit = None if starting else newest_foreign_commit(table, head, seen)
                    previous, seen, starting = seen, head.snapshot_id, False
                    await store.set(seen)
                    if commit is not None:
                        yield TriggerEvent(_payload(probe, commit, previous))  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.poll_interval * min(2**failures, _MAX_BACKOFF))


def newest_foreign_commit(table: Table, head: Snapshot, seen: int | None) -> Snapshot | None:
    """The newest snapshot after ``seen`` that somebody else made and that is more than a replacement of files."""
    snapshot: Snapshot | None = head
    while snapshot is not None and snapshot.snapshot_id != seen:
        if not _is_maintenance(snapshot):
            return snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return None


def _is_maintenance(snapshot: Snapshot) -> bool:
    if snapshot.summary is None:
        return False
    return snapshot.summary.operation.value == "replace" or _STAMP in snapshot.summary.additional_properties


def _payload(probe: TableProbe, commit: Snapshot, previous: int | None) -> dict[str, Any]:
    return {
        "table": probe.table,
        "snapshot_id": commit.snapshot_id,
        "previous_snapshot_id": previous,
        "operation": commit.summary.operation.value if commit.summary else None,
    }


class _OneAssetStore:
    """The watermark of a trigger that one asset watches; with several there is no one place to keep it."""

    def __init__(self, accessor: Any | None) -> None:
        self._accessor = accessor

    async def get(self) -> int | None:
        if self._accessor is None:
            return None
        try:
            value = await asyncio.to_thread(self._accessor.get, _WATERMARK)
        except ValueError:
            self._accessor = None
            return None
        return int(value) if value is not None else None

    async def set(self, snapshot_id: int) -> None:
        if self._accessor is not None:
            await asyncio.to_thread(self._accessor.set, _WATERMARK, snapshot_id)

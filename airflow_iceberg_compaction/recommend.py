"""The check a writer makes after a commit: is compaction worth while?

::

    from airflow_iceberg_compaction.recommend import recommend

    table.append(rows)
    answer = recommend(table)          # {"compaction_recommended": False, "small_files_count": 12}
    if answer["compaction_recommended"]:
        ...                            # trigger the maintenance Dag, or just log it

It looks at every N-th commit only, reads nothing but manifests it has not seen before, never makes the writer wait
longer than asked, never calls the catalog, and never raises.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.policy.model import TablePolicy

log = logging.getLogger(__name__)

DEFAULT_MAX_WAIT_SECONDS = 0.5


class Recommendation(TypedDict):
    compaction_recommended: bool
    small_files_count: int


def recommend(
    table: Table,
    policy: TablePolicy | None = None,
    *,
    cache: ManifestCache | None = None,
    max_wait_seconds: float = DEFAULT_MAX_WAIT_SECONDS,
) -> Recommendation:
    """Whether a partition of ``table``, as the writer holds it, crosses a threshold of ``policy`` (default: built in).

    Between two looks, and while a look takes longer than ``max_wait_seconds``, the last answer of this process stands
    (at first: not recommended). A slow look goes on in the background and answers a later call.
    """
    try:
        return _recommend(table, policy, cache, max_wait_seconds)
    except Exception as error:  # a writer must not fail for a recommendation
        log.warning("No compaction recommendation: %s", error)
        return {"compaction_recommended": False, "small_files_count": 0}


class _Look:
    """One assessment under way, on a thread of its own."""

    def __init__(self, table: Table, policy: TablePolicy, cache: ManifestCache) -> None:
        self.answer: Recommendation | None = None
        self._thread = threading.Thread(
            target=self._run, args=(table, policy, cache), name="compaction-recommendation", daemon=True
        )
        self._thread.start()

    def _run(self, table: Table, policy: TablePolicy, cache: ManifestCache) -> None:
        try:
            self.answer = _assess(table, policy, cache)
        except Exception as error:
            log.warning("No compaction recommendation: %s", error)

    def wait(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()


class _State:
    """What this process knows about one table."""

    def __init__(self) -> None:
        self.interval: int | None = None  # the number of the last interval of commits that was looked at
        self.look: _Look | None = None
        self.answer: Recommendation = {"compaction_recommended": False, "small_files_count": 0}


_states: dict[str, _State] = {}
_guard = threading.Lock()


def _recommend(
    table: Table, policy: TablePolicy | None, cache: ManifestCache | None, max_wait_seconds: float
) -> Recommendation:
    from airflow_iceberg_compaction.policy.model import TablePolicy

    if policy is None:
        policy = TablePolicy(name=".".join(table.name()))
    with _guard:
        state = _states.setdefault(str(table.metadata.table_uuid), _State())
        if state.look is None and _is_due(state, _commits(table), max(1, policy.check_interval)):
            state.look = _Look(table, policy, cache or _default_cache())
        look = state.look
    if look is not None and look.wait(max_wait_seconds):
        with _guard:
            if look.answer is not None:
                state.answer = look.answer
            if state.look is look:
                state.look = None
    return {**state.answer}


def _is_due(state: _State, commits: int, every: int) -> bool:
    """At every multiple of ``every``, also when other writers made the commit that was one."""
    interval = commits // every
    is_due = commits % every == 0 if state.interval is None else interval != state.interval
    state.interval = interval
    return is_due


def _commits(table: Table) -> int:
    """A number that grows by one with each commit of data."""
    # Format 1 has no sequence numbers.
    return int(getattr(table.metadata, "last_sequence_number", 0)) or len(table.metadata.snapshot_log)


def _assess(table: Table, policy: TablePolicy, cache: ManifestCache) -> Recommendation:
    from airflow_iceberg_compaction.health.assessment import assess
    from airflow_iceberg_compaction.health.score import optimization_type

    now_ms = time.time_ns() // 1_000_000
    health = assess(table, policy, catalog_name=table.catalog.name, table_name=policy.name, now_ms=now_ms, cache=cache)
    if health.cannot_judge is not None:
        log.warning("No compaction recommendation: %s", health.cannot_judge)
    needed = any(optimization_type(partition, policy, now_ms=now_ms) != "none" for partition in health.partitions)
    return {
        "compaction_recommended": needed,
        "small_files_count": sum(partition.small_files for partition in health.partitions),
    }


def _default_cache() -> ManifestCache:
    from airflow_iceberg_compaction.health.cache import ManifestCache

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return ManifestCache(folder / "iceberg-compaction" / "manifests.db")

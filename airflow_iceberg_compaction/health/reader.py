"""Summaries of many manifests: from the cache where it has them, else fetched side by side and counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.health.cache import entry_name
from airflow_iceberg_compaction.health.encoding import dump_summary, load_summary
from airflow_iceberg_compaction.health.manifests import Manifest, fetch
from airflow_iceberg_compaction.health.overlap import overlapped
from airflow_iceberg_compaction.health.selfcheck import check_once
from airflow_iceberg_compaction.health.summary import Measure, SnapshotFact, Summary, summarize
from airflow_iceberg_compaction.health.worker import WorkerPool

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from airflow_iceberg_compaction.health.cache import ManifestCache

BATCH = 256  # manifests looked up in the cache, and written to it, at a time
MIN_BYTES_FOR_WORKERS = 24 * 1024 * 1024  # below, starting processes costs more than they save
MAX_WORKERS = 4


class SummaryReader:
    """Reads summaries in the order asked for, and counts how it came by them. Close it when done."""

    def __init__(
        self,
        io: FileIO,
        measure: Measure,
        log: Mapping[int, SnapshotFact],
        cache: ManifestCache | None,
        progress: Callable[[int, int], None],
        workers: int | None = None,
    ) -> None:
        self._io = io
        self._measure = measure
        self._log = log
        self._cache = cache
        self._progress = progress
        self._worker_count = min(MAX_WORKERS, _cores()) if workers is None else workers
        self._workers: WorkerPool | None = None
        self.read = 0
        self.cached = 0

    def __enter__(self) -> SummaryReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.close()

    def summaries(self, manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, Summary]]:
        """One summary for each manifest; raises `ManifestError`. At most a batch of them is in memory at a time."""
        for start in range(0, len(manifests), BATCH):
            batch = manifests[start : start + BATCH]
            known = self._recall(batch)
            fresh = self._count([manifest for manifest in batch if manifest.path not in known])
            counted: dict[str, dict[str, bytes]] = {}
            for manifest in batch:
                if manifest.path in known:
                    self.cached += 1
                    yield manifest, load_summary(known.pop(manifest.path))
                else:
                    self.read += 1
                    _, summary = next(fresh)
                    if self._cache is not None:
                        measure = self._measure.key(manifest.spec_id)
                        counted.setdefault(measure, {})[entry_name(manifest)] = dump_summary(summary)
                    yield manifest, summary
                self._progress(self.read + self.cached, len(manifests))
            if self._cache is not None:
                for measure, values in counted.items():
                    self._cache.put(values, measure)

    def _recall(self, manifests: Sequence[Manifest]) -> dict[str, bytes]:
        if self._cache is None:
            return {}
        found: dict[str, bytes] = {}
        for spec_id in {manifest.spec_id for manifest in manifests}:
            names = {entry_name(m): m.path for m in manifests if m.spec_id == spec_id}
            values = self._cache.get(list(names), self._measure.key(spec_id))
            found.update((names[name], value) for name, value in values.items())
        return found

    def _count(self, manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, Summary]]:
        """Summaries of ``manifests`` in order; while one is counted the next ones are on their way."""
        enough = sum(manifest.length for manifest in manifests) > MIN_BYTES_FOR_WORKERS
        if enough and self._workers is None and self._worker_count > 1:
            self._workers = WorkerPool(self._worker_count, self._measure, self._log)
        return overlapped(self._summarize, manifests)

    def _summarize(self, manifest: Manifest) -> Summary:
        def checked_fetch() -> bytes:
            data = fetch(self._io, manifest.path, manifest.length)
            check_once(manifest.path, data)
            return data

        if self._workers is not None:
            return self._workers.summarize(manifest, checked_fetch)
        return summarize(manifest, checked_fetch(), self._measure, self._log)


def _cores() -> int:
    """The cores this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

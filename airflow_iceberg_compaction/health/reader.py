"""Summaries of many manifests: from the cache where it has them, else fetched side by side and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.health.cache import entry_name
from airflow_iceberg_compaction.health.manifests import Manifest, fetch
from airflow_iceberg_compaction.health.summary import Measure, SnapshotFact, Summary, dump, load, summarize

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from airflow_iceberg_compaction.health.cache import ManifestCache

FETCH_THREADS = 8
CACHE_BATCH = 64


class SummaryReader:
    """Reads summaries in the order asked for, and counts how it came by them."""

    def __init__(
        self,
        io: FileIO,
        measure: Measure,
        log: Mapping[int, SnapshotFact],
        cache: ManifestCache | None,
        progress: Callable[[int, int], None],
    ) -> None:
        self._io = io
        self._measure = measure
        self._log = log
        self._cache = cache
        self._progress = progress
        self.read = 0
        self.cached = 0

    def summaries(self, manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, Summary]]:
        """One summary for each manifest; raises `ManifestError`. At most a batch of them is in memory at a time."""
        for start in range(0, len(manifests), CACHE_BATCH):
            batch = manifests[start : start + CACHE_BATCH]
            known = self._recall(batch)
            missing = [manifest for manifest in batch if manifest.path not in known]
            fresh = self._count(missing)
            for manifest in batch:
                if manifest.path in known:
                    self.cached += 1
                    yield manifest, known.pop(manifest.path)
                else:
                    self.read += 1
                    yield manifest, next(fresh)
                self._progress(self.read + self.cached, len(manifests))

    def _recall(self, manifests: Sequence[Manifest]) -> dict[str, Summary]:
        if self._cache is None:
            return {}
        found: dict[str, Summary] = {}
        for spec_id in {manifest.spec_id for manifest in manifests}:
            names = {entry_name(m): m.path for m in manifests if m.spec_id == spec_id}
            for name, value in self._cache.get(list(names), self._measure.key(spec_id)).items():
                found[names[name]] = load(value)
        return found

    def _count(self, manifests: Sequence[Manifest]) -> Iterator[Summary]:
        """Summaries of ``manifests`` in order; while one is counted the next ones are on their way."""
        if not manifests:
            return
        with ThreadPoolExecutor(min(FETCH_THREADS, len(manifests)), thread_name_prefix="manifest") as threads:
            waiting: deque[tuple[Manifest, Future[bytes]]] = deque()
            remaining = iter(manifests)
            try:
                while True:
                    while len(waiting) < FETCH_THREADS and (manifest := next(remaining, None)) is not None:
                        waiting.append((manifest, threads.submit(fetch, self._io, manifest.path)))
                    if not waiting:
                        return
                    manifest, data = waiting.popleft()
                    summary = summarize(manifest, data.result(), self._measure, self._log)
                    if self._cache is not None:
                        self._cache.put({entry_name(manifest): dump(summary)}, self._measure.key(manifest.spec_id))
                    yield summary
            finally:
                for _, data in waiting:
                    data.cancel()

"""Work on many manifests at once, results in order, memory bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from airflow_iceberg_compaction.health.manifests import Manifest

MAX_THREADS = 8  # object stores answer in tens of milliseconds, so requests should wait side by side
MAX_BYTES_IN_FLIGHT = 24 * 1024 * 1024

T = TypeVar("T")


def overlapped(work: Callable[[Manifest], T], manifests: Sequence[Manifest]) -> Iterator[tuple[Manifest, T]]:
    """``work`` on every manifest, several at a time; results come in the order of ``manifests``.

    The manifests under way or finished early never exceed `MAX_BYTES_IN_FLIGHT` together, unless one alone does.
    """
    if not manifests:
        return
    # No more threads than can have work: each keeps memory of the largest manifest it ever held.
    largest = max(manifest.length for manifest in manifests)
    count = min(MAX_THREADS, len(manifests), max(2, MAX_BYTES_IN_FLIGHT // max(1, largest)))
    with ThreadPoolExecutor(count, thread_name_prefix="manifest") as threads:
        remaining = deque(manifests)
        started: deque[tuple[Manifest, Future[T]]] = deque()
        bytes_in_flight = 0
        try:
            while remaining or started:
                while remaining and (not started or bytes_in_flight + remaining[0].length <= MAX_BYTES_IN_FLIGHT):
                    manifest = remaining.popleft()
                    bytes_in_flight += manifest.length
                    started.append((manifest, threads.submit(work, manifest)))
                manifest, result = started.popleft()
                yield manifest, result.result()
                bytes_in_flight -= manifest.length
        finally:
            for _, result in started:
                result.cancel()

"""Counts manifests in processes of their own, so that decoding uses every core.

A worker is plain ``python -m`` on this module with a pipe each way: it imports neither PyArrow nor the catalog (20 MB),
works inside Airflow's own child processes, where ``multiprocessing`` may not start any, and may crash without harm.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO

from airflow_iceberg_compaction.health.encoding import dump_summary, load_summary
from airflow_iceberg_compaction.health.errors import ManifestError
from airflow_iceberg_compaction.health.manifests import Manifest
from airflow_iceberg_compaction.health.summary import Measure, SnapshotFact, Summary, summarize

_LENGTH = struct.Struct("<Q")
COMMAND = ("-m", "airflow_iceberg_compaction.health.worker")
PACKAGE_ROOT = Path(__file__).resolve().parents[2]


class WorkerPool:
    """Some worker processes that share one measure and one snapshot log. Safe for threads; close it when done."""

    def __init__(self, size: int, measure: Measure, log: Mapping[int, SnapshotFact]) -> None:
        self._measure = measure
        self._log = log
        self._greeting = _greeting(measure, log)
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._all: list[_Worker] = []
        self._guard = threading.Lock()
        for _ in range(size):
            self._idle.put(None)  # started on first use

    def summarize(self, manifest: Manifest, fetch: Callable[[], bytes]) -> Summary:
        """Like `summary.summarize`. A worker that dies is replaced by counting here, with every check on.

        ``fetch`` gets the manifest's bytes, again if need be, so that nobody holds them while a worker counts.
        """
        data = [fetch()]
        worker = self._idle.get()
        try:
            if worker is None:
                worker = self._start()
            reply = worker.ask(manifest, data.pop())
        except OSError:
            if worker is not None:
                worker.stop()
            worker = None
            return summarize(manifest, fetch(), self._measure, self._log)
        finally:
            self._idle.put(worker)
        if reply[:1] == b"E":
            raise ManifestError(*json.loads(reply[1:]))
        return load_summary(reply[1:])

    def _start(self) -> _Worker:
        worker = _Worker(self._greeting)
        with self._guard:
            self._all.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._all:
            worker.stop()


class _Worker:
    def __init__(self, greeting: bytes) -> None:
        path = os.pathsep.join(filter(None, (str(PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable or "python3", *COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._send(greeting)

    def ask(self, manifest: Manifest, data: bytes) -> bytes:
        self._send(json.dumps(_plain(manifest)).encode())
        self._send(data)
        del data
        if self._process.stdin is not None:
            self._process.stdin.flush()
        reply = None if self._process.stdout is None else _receive(self._process.stdout)
        if reply is None:
            raise BrokenPipeError("the worker is gone")
        return reply

    def _send(self, message: bytes) -> None:
        if self._process.stdin is None:
            raise BrokenPipeError("the worker has no input")
        self._process.stdin.write(_LENGTH.pack(len(message)))
        self._process.stdin.write(message)

    def stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                continue
        self._process.kill()
        self._process.wait()


def main() -> None:
    """The worker's side: a greeting, then manifests until the pipe closes."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    greeting = _receive(requests)
    if greeting is None:
        return
    measure, log = _read_greeting(greeting)
    while (header := _receive(requests)) is not None and (data := _receive(requests)) is not None:
        try:
            reply = b"S" + dump_summary(summarize(Manifest(**json.loads(header)), data, measure, log, checked=False))
        except ManifestError as error:
            reply = b"E" + json.dumps([error.path, error.reason]).encode()
        replies.write(_LENGTH.pack(len(reply)))
        replies.write(reply)
        replies.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    header = pipe.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    message = pipe.read(length)
    return message if len(message) == length else None


def _plain(manifest: Manifest) -> dict[str, object]:
    return {**asdict(manifest), "field_summaries": None}  # bytes, and no concern of a worker


def _greeting(measure: Measure, log: Mapping[int, SnapshotFact]) -> bytes:
    facts = [[snapshot, fact.timestamp_ms, fact.is_rewrite, fact.is_ours] for snapshot, fact in log.items()]
    return json.dumps([asdict(measure), facts]).encode()


def _read_greeting(greeting: bytes) -> tuple[Measure, dict[int, SnapshotFact]]:
    measure, facts = json.loads(greeting)
    measure["spec_fields"] = {int(spec): tuple(fields) for spec, fields in measure["spec_fields"].items()}
    return Measure(**measure), {snapshot: SnapshotFact(*fact) for snapshot, *fact in facts}


if __name__ == "__main__":
    main()

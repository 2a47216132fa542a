"""Manifest summaries on disk. Manifests never change, so a summary is computed once and read ever after.

The file is a convenience: it may be deleted at any time, several processes may share it, and whatever cannot be read
or does not match its checksum is dropped and computed again. No failure of the cache fails an assessment.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from airflow_iceberg_compaction.health.manifests import Manifest

log = logging.getLogger(__name__)

# Raise whenever the meaning or the form of a stored value changes: files of another version are dropped.
VERSION = 2

DEFAULT_MAX_BYTES = 256 * 1024 * 1024
MAX_IDLE_SECONDS = 30 * 24 * 3600
TOUCH_SECONDS = 24 * 3600  # how stale a time of last use may be before it is written anew
KEYS_PER_QUERY = 500

_SCHEMA = """
CREATE TABLE entry (
    name TEXT NOT NULL, measure TEXT NOT NULL, used_at INTEGER NOT NULL, digest BLOB NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (name, measure)
) WITHOUT ROWID;
CREATE INDEX entry_used_at ON entry (used_at);
"""

T = TypeVar("T")


class ManifestCache:
    """Byte strings by name and measure, in one SQLite file at ``path``; safe for threads and processes."""

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = threading.Lock()

    def get(self, names: Sequence[str], measure: str) -> dict[str, bytes]:
        """The values stored under ``names`` for ``measure``; missing and damaged ones are left out."""
        return self._guard(lambda database: self._get(database, names, measure)) or {}

    def put(self, values: Mapping[str, bytes], measure: str) -> None:
        """Stores values and evicts what nobody used for a month, then the longest unused beyond the size limit."""
        if values:
            self._guard(lambda database: self._put(database, values, measure))

    def _get(self, database: sqlite3.Connection, names: Sequence[str], measure: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        damaged, stale = [], []
        now = int(self._clock())
        for part in _parts(names):
            marks = ",".join("?" * len(part))
            rows = database.execute(
                f"SELECT name, used_at, digest, value FROM entry WHERE measure = ? AND name IN ({marks})",
                (measure, *part),
            )
            for name, used_at, digest, value in rows:
                if not isinstance(value, bytes) or digest != _digest(name, measure, value):
                    damaged.append(name)
                    continue
                found[name] = value
                if now - used_at > TOUCH_SECONDS:
                    stale.append(name)
        with database:
            database.executemany("DELETE FROM entry WHERE measure = ? AND name = ?", ((measure, n) for n in damaged))
            database.executemany(
                "UPDATE entry SET used_at = ? WHERE measure = ? AND name = ?", ((now, measure, n) for n in stale)
            )
        return found

    def _put(self, database: sqlite3.Connection, values: Mapping[str, bytes], measure: str) -> None:
        now = int(self._clock())
        with database:
            database.executemany(
                "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?)",
                ((name, measure, now, _digest(name, measure, value), value) for name, value in values.items()),
            )
            database.execute("DELETE FROM entry WHERE used_at < ?", (now - MAX_IDLE_SECONDS,))
        self._shrink(database)

    def _shrink(self, database: sqlite3.Connection) -> None:
        page_size = database.execute("PRAGMA page_size").fetchone()[0]

        def used_bytes() -> int:
            pages = database.execute("PRAGMA page_count").fetchone()[0]
            free = database.execute("PRAGMA freelist_count").fetchone()[0]
            return int((pages - free) * page_size)

        while used_bytes() > self._max_bytes:
            with database:
                removed = database.execute(
                    "DELETE FROM entry WHERE (name, measure) IN "
                    "(SELECT name, measure FROM entry ORDER BY used_at LIMIT max(1, (SELECT count(*) FROM entry) / 8))"
                ).rowcount
            if removed <= 0:
                return

    def _guard(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        """Runs ``action``; a database that is not one is deleted and tried once more, anything else is a miss."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    database = self._open()
                    try:
                        return action(database)
                    finally:
                        database.close()
                except sqlite3.OperationalError as error:  # locked, read-only, disk full: not the file's fault
                    log.warning("The manifest cache %s is not usable now, going on without: %s", self.path, error)
                    return None
                except sqlite3.DatabaseError as error:
                    log.warning("The manifest cache %s is damaged and starts anew: %s", self.path, error)
                    self._drop()
                except OSError as error:
                    log.warning("The manifest cache %s is not usable, going on without: %s", self.path, error)
                    return None
                if attempt == 2:
                    break
        return None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=5)
        try:
            # What a power cut damages, checksums find: no write has to wait for the disk.
            database.execute("PRAGMA synchronous = OFF")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version != VERSION:
                self._create(database)
            return database
        except BaseException:
            database.close()
            raise

    def _create(self, database: sqlite3.Connection) -> None:
        """Lays the tables, unless another process did so while we waited for the lock."""
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        if database.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            database.execute("DROP TABLE IF EXISTS entry")
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")

    def _drop(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def entry_name(manifest: Manifest) -> str:
    """What identifies a manifest's content; its number and snapshot are inherited from the list, hence part of it."""
    return f"{manifest.path}|{manifest.length}|{manifest.sequence_number}|{manifest.snapshot_id}"


def _digest(name: str, measure: str, value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16, key=hashlib.blake2b(f"{measure}|{name}".encode()).digest()).digest()


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), KEYS_PER_QUERY):
        yield names[start : start + KEYS_PER_QUERY]

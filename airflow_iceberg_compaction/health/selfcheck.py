"""Compares our manifest reader with PyIceberg's public one, once per process, on the first block of a real manifest.

Our reader stands on PyIceberg's Avro decoder, which is not public. If a release changes it, this is where we notice:
the table is then not judged, instead of judged wrongly.
"""

from __future__ import annotations

import ctypes
import io
import logging
import threading
from dataclasses import replace
from typing import Any

from airflow_iceberg_compaction.health.avro import SYNC_SIZE, AvroFile, read_varint
from airflow_iceberg_compaction.health.errors import HealthError
from airflow_iceberg_compaction.health.manifests import FILE_PATH, FILE_SIZE, PARTITION, RECORD_COUNT, Projection

log = logging.getLogger(__name__)

MAX_BLOCK_BYTES = 1024 * 1024

_guard = threading.Lock()
_done = False


def check_once(path: str, data: bytes) -> None:
    """Raises `HealthError` when the two readers disagree about the manifest ``data``; later calls do nothing."""
    global _done
    with _guard:
        if _done:
            return
        compare(path, data)
        _done = True


def compare(path: str, data: bytes) -> int:
    """How many entries both readers agree on; 0 when PyIceberg cannot read the file at all."""
    beginning = _first_block(AvroFile.parse(path, data))
    if beginning is None:
        return 0
    try:
        theirs = _read_with_pyiceberg(beginning)
    except Exception as error:
        log.debug("PyIceberg cannot read %s, so it is no reference: %s", path, error)
        return 0
    wanted = replace(Projection((PARTITION, FILE_PATH, RECORD_COUNT, FILE_SIZE)).wanted(), live=None)
    ours = [
        (status, snapshot, sequence, tuple(map(_comparable, partition)), *rest)
        for block in AvroFile.parse(path, beginning).records(wanted)
        for status, snapshot, sequence, partition, *rest in block
    ]
    if ours != theirs:
        raise HealthError(
            f"two readers disagree about {path}; use a release of PyIceberg that this one was tested with, and report it"
        )
    return len(ours)


def _first_block(file: AvroFile) -> bytes | None:
    """The container up to its first block; None if it has none, or one too long for a quick check."""
    if file.start >= len(file.data):
        return None
    _, position = read_varint(file.data, file.start)
    length, position = read_varint(file.data, position)
    return file.data[: position + length + SYNC_SIZE] if length <= MAX_BLOCK_BYTES else None


def _read_with_pyiceberg(data: bytes) -> list[tuple[Any, ...]]:
    from pyiceberg.avro.file import AvroFile as PyIcebergFile
    from pyiceberg.manifest import DEFAULT_READ_VERSION, MANIFEST_ENTRY_SCHEMAS, DataFile, ManifestEntry

    memory: Any = _InMemory(data)
    with PyIcebergFile[ManifestEntry](
        memory, MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION], read_types={-1: ManifestEntry, 2: DataFile}
    ) as reader:
        return [
            (
                int(entry.status),
                entry.snapshot_id,
                entry.sequence_number,
                tuple(_comparable(value) for value in entry.data_file.partition._data),
                entry.data_file.file_path,
                entry.data_file.record_count,
                entry.data_file.file_size_in_bytes,
            )
            for entry in reader
        ]


def _comparable(value: Any) -> Any:
    # PyIceberg reads doubles in single precision, so that is all the two can agree on.
    return ctypes.c_float(value).value.hex() if isinstance(value, float) else value


class _InMemory:
    """As much of PyIceberg's InputFile as its Avro reader uses."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002 - PyIceberg's signature
        return io.BytesIO(self._data)

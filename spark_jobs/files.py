"""The job's documents at a URI: local files directly, everything else through Hadoop's FileSystem or a catalog's FileIO."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from spark_jobs.jvm import first_line, is_missing_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.jvm import Gateway

_T = TypeVar("_T")
_NO_CLIENT = ("No FileSystem for scheme", "ClassNotFoundException")


class Files:
    """Read and write small texts wherever the driver can reach."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def read_text(self, uri: str) -> str:
        """The text at ``uri``; FileNotFoundError when there is none."""
        local = _local(uri)
        if local is not None:
            return local.read_text(encoding="utf-8")

        def hadoop() -> str:
            filesystem, path = self._gateway.hadoop_filesystem(_hadoop(uri))
            return self._gateway.read_stream(filesystem.open(path)).decode()

        def iceberg(io: Any) -> str:
            return self._gateway.read_stream(io.newInputFile(uri).newStream()).decode()

        return self._reach(f"cannot read {uri}", uri, hadoop, iceberg)

    def write_text(self, uri: str, text: str) -> None:
        """Write ``text`` so that a reader sees all of it or what was there before."""
        local = _local(uri)
        if local is not None:
            local.parent.mkdir(parents=True, exist_ok=True)
            partial = local.with_name(f".{local.name}.{os.getpid()}.part")
            partial.write_text(text, encoding="utf-8")
            partial.replace(local)
            return

        # An object appears when its stream is closed, so overwriting is atomic on object stores; on HDFS it is not, but
        # a reader that meets a partial document there sees invalid JSON and says so.
        def hadoop() -> None:
            filesystem, path = self._gateway.hadoop_filesystem(_hadoop(uri))
            self._gateway.write_stream(filesystem.create(path, True), text)

        def iceberg(io: Any) -> None:
            self._gateway.write_stream(io.newOutputFile(uri).createOrOverwrite(), text)

        self._reach(f"cannot write {uri}", uri, hadoop, iceberg)

    def _reach(self, what: str, uri: str, hadoop: Callable[[], _T], iceberg: Callable[[Any], _T]) -> _T:
        try:
            return hadoop()
        except Exception as error:
            if not any(word in str(error) for word in _NO_CLIENT):
                raise _explained(error, what, uri) from error
            last = error
        for io in self._gateway.catalog_file_ios():
            try:
                return iceberg(io)
            except Exception as error:
                # One that reached the store and found nothing knows more than one that never got there.
                last = last if is_missing_file(last) else error
        raise _explained(last, what, uri) from last


def _explained(error: Exception, what: str, uri: str) -> OSError:
    if is_missing_file(error):
        return FileNotFoundError(uri)
    return OSError(f"{what}: {first_line(error)}; check `documents` in the policy and the cluster's access to it")


def _local(uri: str) -> Path | None:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if not parts.scheme else None


def _hadoop(uri: str) -> str:
    # Hadoop's S3 client answers to s3a only; fsspec and people write s3.
    return "s3a" + uri[2:] if uri.startswith("s3:") else uri

"""The job's documents at a URI: local files directly, everything else through Hadoop's FileSystem."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spark_jobs.jvm import first_line, is_missing_file

if TYPE_CHECKING:
    from spark_jobs.jvm import Gateway


class Files:
    """Read and write small texts wherever the driver can reach."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def read_text(self, uri: str) -> str:
        """The text at ``uri``; FileNotFoundError when there is none."""
        local = _local(uri)
        if local is not None:
            return local.read_text(encoding="utf-8")
        try:
            filesystem, path = self._gateway.hadoop_filesystem(_hadoop(uri))
            return self._gateway.read_stream(filesystem.open(path)).decode()
        except Exception as error:
            if is_missing_file(error):
                raise FileNotFoundError(uri) from error
            raise OSError(f"cannot read {uri}: {first_line(error)}") from error

    def write_text(self, uri: str, text: str) -> None:
        """Write ``text`` so that a reader sees all of it or what was there before."""
        local = _local(uri)
        if local is not None:
            local.parent.mkdir(parents=True, exist_ok=True)
            partial = local.with_name(f".{local.name}.{os.getpid()}.part")
            partial.write_text(text, encoding="utf-8")
            partial.replace(local)
            return
        try:
            filesystem, path = self._gateway.hadoop_filesystem(_hadoop(uri))
            # An object appears when its stream is closed, so overwriting is atomic on object stores; on HDFS it is not,
            # but there a reader that meets a partial document sees invalid JSON and says so.
            stream = filesystem.create(path, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Exception as error:
            raise OSError(f"cannot write {uri}: {first_line(error)}") from error


def _local(uri: str) -> Path | None:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if not parts.scheme else None


def _hadoop(uri: str) -> str:
    # Hadoop's S3 client answers to s3a only; fsspec and people write s3.
    return "s3a" + uri[2:] if uri.startswith("s3:") else uri

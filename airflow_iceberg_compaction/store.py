"""Small documents at a URI: a local folder, or any location fsspec knows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit


class StoreError(RuntimeError):
    """The documents cannot be kept where the policy says."""


def local_path(uri: str) -> Path | None:
    """The path of a local URI (``file:///x``, ``/x``, ``x``), None for a remote one."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if not parts.scheme else None


def join(uri: str, *parts: str) -> str:
    return "/".join([uri.rstrip("/"), *parts])


def exists(uri: str) -> bool:
    path = local_path(uri)
    if path is not None:
        return path.exists()
    filesystem, remote = _filesystem(uri)
    return bool(filesystem.exists(remote))


def read_text(uri: str) -> str:
    """The text at ``uri``; FileNotFoundError when there is none."""
    path = local_path(uri)
    if path is not None:
        return path.read_text(encoding="utf-8")
    filesystem, remote = _filesystem(uri)
    return str(filesystem.read_text(remote, encoding="utf-8"))


def write_text(uri: str, text: str) -> None:
    """Write ``text`` so that a reader sees all of it or nothing."""
    path = local_path(uri)
    if path is None:
        filesystem, remote = _filesystem(uri)
        filesystem.makedirs(remote.rpartition("/")[0], exist_ok=True)
        filesystem.write_text(remote, text, encoding="utf-8")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"the documents folder {path.parent} cannot be made: {error}; change `documents`") from error
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as f:
        f.write(text)
    # The documents hold no secrets and another user may run Spark, so they are readable as any new file would be.
    umask = os.umask(0)
    os.umask(umask)
    Path(f.name).chmod(0o666 & ~umask)
    Path(f.name).replace(path)


def _filesystem(uri: str):  # type: ignore[no-untyped-def]  # fsspec is untyped
    import fsspec

    try:
        return fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError) as error:
        raise StoreError(
            f"the documents location {uri!r} cannot be used: {error}; install the client of that storage "
            "(airflow-iceberg-compaction[s3], [gcs] or [azure]) or change `documents` in the policy"
        ) from error

"""Addresses of the same file are written in several ways (``file:/x`` and ``file:///x``, s3 and s3a): compare them here."""

from __future__ import annotations

_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}


def normal(location: str) -> str:
    """One spelling per file."""
    scheme, colon, path = location.partition(":")
    if not colon or "/" in scheme:
        scheme, path = "file", location
    scheme = _ALIASES.get(scheme, scheme)
    return f"{scheme}://{path.strip('/')}"


def contains(outer: str, inner: str) -> bool:
    """Whether ``inner`` is ``outer`` or lies below it."""
    a, b = normal(outer), normal(inner)
    return b == a or b.startswith(a + "/")


def spelled_like(path: str, location: str) -> str:
    """``location`` in the spelling of ``path``, a file below it."""
    below = len(normal(path)) - len(normal(location))
    return path.rstrip("/")[: len(path.rstrip("/")) - below]

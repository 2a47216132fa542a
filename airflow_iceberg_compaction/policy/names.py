"""Name patterns of tables, and the companion file that lists what they match.

Matching needs the catalog, which must not be asked while a Dag file is parsed. So ``iceberg-compaction tables --write``
asks it and writes the names down beside the policy, where a reviewer sees them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_PATTERN = re.compile(r"[\w*?-]+(\.[\w*?-]+)+")


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def check_pattern(pattern: str) -> None:
    """ValueError unless ``pattern`` could match table names."""
    if not _PATTERN.fullmatch(pattern) or len(pattern) > 200:
        raise ValueError(f"{pattern[:60]!r} is not a name pattern; write namespace.name with * and ?, such as shop.*")


def matches(name: str, pattern: str) -> bool:
    """Whether ``name`` fits ``pattern``: ``*`` is any text and ``?`` any character within one part of the name."""
    return _regex(pattern).fullmatch(name) is not None


def matching(names: Iterable[str], pattern: str, exclude: Iterable[str]) -> list[str]:
    """The names that fit ``pattern`` and none of ``exclude``, sorted."""
    left_out = tuple(exclude)
    found = {name for name in names if matches(name, pattern)}
    return sorted(name for name in found if not any(matches(name, other) for other in left_out))


def companion_path(policy: str | Path) -> Path:
    """``iceberg_maintenance.tables.yaml`` beside ``iceberg_maintenance.yaml``."""
    path = Path(policy)
    return path.with_name(f"{path.stem}.tables.yaml")


def companion_text(policy: str | Path, listed: dict[str, list[str]]) -> str:
    """The companion of a policy whose patterns match ``listed``."""
    lines = [
        f"# The tables that the patterns of {Path(policy).name} match. Written by `iceberg-compaction tables --write`;",
        "# run it again when tables come or go, and review the difference like any other change.",
        "version: 1",
        "patterns:",
    ]
    for pattern, names in listed.items():
        lines.append(f'  "{pattern}":' if names else f'  "{pattern}": []')
        lines += [f'    - "{name}"' for name in names]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(r"\.".join(_part(part) for part in pattern.split(".")))


def _part(part: str) -> str:
    """One part between dots. The first place where a word between two stars fits is as good as any later one, hence the
    atomic groups: without them a pattern of many stars would be tried in exponentially many ways."""
    first, *others = ("".join("[^.]" if c == "?" else re.escape(c) for c in word) for word in part.split("*"))
    if not others:
        return first
    *between, last = others
    return first + "".join(f"(?>[^.]*?{word})" for word in between) + f"[^.]*{last}"

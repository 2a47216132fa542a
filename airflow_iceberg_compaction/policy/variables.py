"""``${NAME}`` and ``${NAME:-default}``: expanded in a few places, refused everywhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, environment: Mapping[str, str]) -> str:
    """``text`` with its references replaced, once; ValueError names a missing variable or a broken reference."""
    broken = _REFERENCE.sub("", text).find("${")
    if broken >= 0:
        raise ValueError("has a broken reference; write ${NAME} or ${NAME:-default}")
    missing = [match[1] for match in _REFERENCE.finditer(text) if match[2] is None and match[1] not in environment]
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        raise ValueError(f"the environment variable {names} is not set; set it, or write ${{{missing[0]}:-default}}")

    def replace(match: re.Match[str]) -> str:
        # As in a shell, `:-` also stands in for a variable that is set to nothing.
        found = environment.get(match[1])
        return (found or match[2]) if match[2] is not None else found or ""

    return _REFERENCE.sub(replace, text)


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def literal_part(text: str) -> str:
    """What the file itself says of a value: the text without its references, their defaults included."""
    return _REFERENCE.sub(lambda match: match[2] or "", text)

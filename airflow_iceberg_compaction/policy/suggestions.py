"""The word a typist probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 80  # comparing is quadratic in length, and nobody mistypes a word this long


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to ``word``, None if none is close."""
    if len(word) > _LONGEST:
        return None
    candidates = sorted(known)
    simplified = {_simplify(candidate): candidate for candidate in candidates}
    if found := simplified.get(_simplify(word)):
        return found
    beginnings = [known for known in simplified if len(word) > 2 and known.startswith(_simplify(word))]
    if len(beginnings) == 1:
        return simplified[beginnings[0]]
    matches = difflib.get_close_matches(_simplify(word), simplified, n=1)
    return simplified[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'?``, or nothing."""
    found = nearest(word, known)
    return f"did you mean {found!r}?" if found else ""


def _simplify(word: str) -> str:
    return word.lower().replace("-", "_")

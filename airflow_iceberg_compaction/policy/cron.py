"""Cron expressions and Airflow's presets, checked without Airflow."""

from __future__ import annotations

import re
from functools import lru_cache

from airflow_iceberg_compaction.policy.suggestions import did_you_mean

PRESETS = ("@continuous", "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# name, lowest, highest, names, value of the first name
_FIELDS = (
    ("minute", 0, 59, (), 0),
    ("hour", 0, 23, (), 0),
    ("day of month", 1, 31, (), 0),
    ("month", 1, 12, _MONTHS, 1),
    ("day of week", 0, 7, _DAYS, 0),
)
_STEP = re.compile(r"(?P<range>[^/]+)(?:/(?P<step>\d{1,4}))?", re.ASCII)


@lru_cache(maxsize=256)  # a file's tables mostly share one
def check_cron(text: str) -> str:
    """Return ``text`` if Airflow can read it as a preset or a cron expression of five fields, else raise ValueError."""
    if text.startswith("@"):
        if text not in PRESETS:
            near = did_you_mean(text, PRESETS) or f"write one of {', '.join(PRESETS)}"
            raise ValueError(f"{text!r} is not a preset; {near}")
        return text
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"{text!r} has {len(fields)} fields, a cron expression has five; write minute, hour, day of month, month "
            "and day of week, such as 0 2 * * *"
        )
    for field, (name, low, high, names, first) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if not _is_valid(part, name, low, high, {word: first + i for i, word in enumerate(names)}):
                words = f" or {names[0]} to {names[-1]}" if names else ""
                raise ValueError(
                    f"{part!r} is not a valid {name} in {text!r}; write {low} to {high}{words}, *, a range such as "
                    f"{low}-{low + 1}, or a step such as */2"
                )
    return text


def _is_valid(part: str, name: str, low: int, high: int, names: dict[str, int]) -> bool:
    match = _STEP.fullmatch(part)
    if not match or (match["step"] and not 1 <= int(match["step"]) <= high):
        return False
    span = match["range"].lower()
    if span == "*" or (span == "l" and name == "day of month"):
        return True
    if name == "day of week" and "#" in span:
        span, _, nth = span.partition("#")
        if nth not in set("12345"):
            return False
    first, dash, last = span.partition("-")
    start = _number(first, names)
    end = _number(last, names) if dash else start
    if start is None or end is None:
        return False
    return low <= start <= high and low <= end <= high and start <= end


def _number(text: str, names: dict[str, int]) -> int | None:
    if text.isascii() and text.isdecimal() and len(text) <= 2:
        return int(text)
    return names.get(text)

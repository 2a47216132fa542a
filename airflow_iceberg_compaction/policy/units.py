"""Sizes, durations and ratios: one reading of each spelling, printed back in the shortest exact form.

``MB`` is a million bytes and ``MiB`` is 2**20 bytes, as the standards say; a number without a unit is refused.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Context, Decimal

SIZE_UNITS = {
    "B": 1,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
}  # fmt: skip
DURATION_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}

SIZE_PATTERN = r"^\d+(\.\d+)?\s?(B|[kK]B|[MGTP]B|[KMGTP]iB)$"
DURATION_PATTERN = r"^(?=\d)(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?$"
RATIO_PATTERN = r"^\d+(\.\d+)?\s?%$"

MAX_SIZE = 2**63 - 1  # what Iceberg and Spark hold in a long
MAX_DURATION = timedelta(days=36500)

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,18})?)\s?([A-Za-z]*)", re.ASCII)
_DURATION = re.compile("".join(rf"(?:(\d{{1,12}}){unit})?" for unit in DURATION_UNITS), re.ASCII)
_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,15})?)\s?%", re.ASCII)
# Enough digits for 2**63 divided by 2**50 to come out exact.
_EXACT = Context(prec=80)


def parse_size(text: str) -> int:
    """Bytes of ``96MB``, ``1.5GiB``, ``67108864B``; ValueError for anything that could be read in two ways."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a size; write a number and a unit, such as 96MB or 1GiB")
    number, unit = match[1], "kB" if match[2] == "KB" else match[2]
    if not unit:
        raise ValueError(f"{text!r} has no unit; write {number}MB, or {number}B for bytes")
    if unit not in SIZE_UNITS:
        raise ValueError(f"{unit!r} in {text!r} is not a unit of size; {_likely_size(number, unit)}")
    size = _EXACT.multiply(Decimal(number), SIZE_UNITS[unit])
    if size != size.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of bytes; write it in a smaller unit")
    if size > MAX_SIZE:
        raise ValueError(f"{text!r} is too large; the largest size is 8PiB")
    return int(size)


def format_size(size: int) -> str:
    """The shortest spelling that ``parse_size`` reads back as ``size``; whole numbers and large units win ties."""
    spellings = []
    for unit, factor in SIZE_UNITS.items():
        number = f"{_EXACT.divide(Decimal(size), factor).normalize(_EXACT):f}"
        spellings.append((len(number) + len(unit), "." in number, -factor, number + unit))
    return min(spellings)[3] if size else "0B"


def parse_duration(text: str) -> timedelta:
    """``7d``, ``90m``, ``1h30m``; ``m`` is minutes, and months do not exist."""
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; {_likely_duration(text.strip())}")
    seconds = sum(int(number or 0) * size for number, size in zip(match.groups(), DURATION_UNITS.values(), strict=True))
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"{text!r} is too long; the longest duration is {format_duration(MAX_DURATION)}")
    return timedelta(seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """The shortest spelling that ``parse_duration`` reads back; a single unit, and days before weeks, win ties."""
    seconds = int(duration.total_seconds())
    if not seconds:
        return "0s"
    spellings = [_compound(seconds)]
    spellings += [f"{seconds // size}{unit}" for unit, size in DURATION_UNITS.items() if seconds % size == 0]
    # A shorter number of a larger unit ("1d", not "24h"); "7d" and "1w" are equally long, and people write "7d".
    return min(spellings, key=lambda text: (len(text), sum(map(str.isalpha, text)), "dwhms".index(text[-1])))


def parse_ratio(value: str | float) -> float:
    """A share from 0 to 1: ``0.1`` or ``10%``."""
    if isinstance(value, str):
        match = _PERCENTAGE.fullmatch(value.strip())
        if not match:
            raise ValueError(f"{value!r} is not a ratio; write 0.1 or 10%")
        ratio = float(_EXACT.divide(Decimal(match[1]), 100))
    else:
        ratio = float(value)
    if not math.isfinite(ratio) or not 0 <= ratio <= 1:
        percent = f", or {value:g}% if that is meant" if isinstance(value, int | float) and 1 < value <= 100 else ""
        raise ValueError(f"{value} is not between 0 and 1; write a share such as 0.1 or 10%{percent}")
    return ratio


def _likely_size(number: str, unit: str) -> str:
    letter = unit[0].upper()
    if letter in "KMGTP":
        decimal = "kB" if letter == "K" else f"{letter}B"
        return f"write {number}{decimal} (powers of 1000) or {number}{letter}iB (powers of 1024)"
    if letter == "B":
        return f"write {number}B"
    return f"write one of {', '.join(SIZE_UNITS)}"


def _likely_duration(text: str) -> str:
    if text.isdecimal() and text.isascii() and len(text) < 6:
        return f"it has no unit; write {text}d, {text}h, {text}m or {text}s"
    words = re.fullmatch(r"(\d{1,9})\s*(week|day|hour|minute|min|second|sec|[wdhms])s?", text, re.IGNORECASE)
    if words:
        return f"write {words[1]}{words[2][0].lower()}"
    return "write a number and a unit (w, d, h, m, s), such as 7d or 90m"


def _compound(seconds: int) -> str:
    parts = []
    for unit, size in DURATION_UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)

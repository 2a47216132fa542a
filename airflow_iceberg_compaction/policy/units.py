"""Sizes, durations and ratios with units."""

from __future__ import annotations

import re
from datetime import timedelta

SIZE_UNITS = {
    "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
DURATION_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_size(value: object) -> object:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)\s*([A-Za-z]+)", value.strip())
        if match and match[2] in SIZE_UNITS:
            return int(match[1]) * SIZE_UNITS[match[2]]
        raise ValueError(f"{value!r} is not a size; write a number and a unit such as 96MB or 1GiB")
    return value


def parse_duration(value: object) -> object:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)\s*([smhdw])", value.strip())
        if match:
            return timedelta(seconds=int(match[1]) * DURATION_UNITS[match[2]])
        raise ValueError(f"{value!r} is not a duration; write a number and a unit such as 7d or 90m")
    return value


def parse_ratio(value: object) -> object:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value.strip())
        if match:
            return float(match[1]) / 100
        raise ValueError(f"{value!r} is not a ratio; write 0.1 or 10%")
    return value

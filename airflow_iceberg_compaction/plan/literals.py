"""Partition values as the JSON that Iceberg's ``SingleValueParser`` reads, and back.

Times are computed on integers, because Iceberg's years run far beyond those of ``datetime``.
"""

from __future__ import annotations

import math
import uuid
from decimal import Context, Decimal
from typing import Any

from airflow_iceberg_compaction.plan.errors import PredicateError

_WIDE = Context(prec=60)  # Iceberg's decimals have up to 38 digits, Python's default context 28

MICROS_PER_HOUR = 3_600_000_000
MICROS_PER_DAY = 24 * MICROS_PER_HOUR


def to_json(field: str, type_name: str, value: Any) -> Any:
    """``value`` of an Iceberg type as JSON. Infinities and NaN have no JSON form and are the caller's concern."""
    match type_name.partition("(")[0].partition("[")[0]:
        case "boolean":
            return bool(value)
        case "int" | "long":
            return int(value)
        case "float" | "double":
            # An integral number would be refused: Iceberg asks for a decimal point.
            return float(value)
        case "decimal":
            scale = int(type_name.rstrip(")").rpartition(",")[2])
            return format(Decimal(value).quantize(Decimal(1).scaleb(-scale), context=_WIDE), "f")
        case "string":
            return str(value)
        case "uuid":
            return str(value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=bytes(value)))
        case "date":
            return iso_date(int(value))
        case "time":
            return _iso_time(int(value))
        case "timestamp":
            return iso_timestamp(int(value))
        case "timestamptz":
            return iso_timestamp(int(value)) + "+00:00"
        case "timestamp_ns":
            return _iso_timestamp_ns(int(value))
        case "timestamptz_ns":
            return _iso_timestamp_ns(int(value)) + "+00:00"
        case "fixed" | "binary":
            return bytes(value).hex().upper()
        case _:
            raise PredicateError(field, f"values of type {type_name!r} cannot be written as a filter")


def from_json(type_name: str, value: Any) -> Any:
    """The raw value, as a partition tuple holds it, of what ``to_json`` wrote."""
    match type_name.partition("(")[0].partition("[")[0]:
        case "decimal":
            return Decimal(value)
        case "uuid":
            return uuid.UUID(value)
        case "date":
            return _days_of_iso(value)
        case "time":
            return _micros_of_iso(value)
        case "timestamp" | "timestamptz" | "timestamp_ns" | "timestamptz_ns":
            date, _, time = value.removesuffix("+00:00").partition("T")
            if not type_name.endswith("_ns"):
                return _days_of_iso(date) * MICROS_PER_DAY + _micros_of_iso(time)
            return (_days_of_iso(date) * MICROS_PER_DAY + _micros_of_iso(time[:-3])) * 1000 + int(time[-3:])
        case "fixed" | "binary":
            return bytes.fromhex(value)
        case _:
            return value


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def iso_date(days: int) -> str:
    """Days since 1970-01-01 as Java's ISO_LOCAL_DATE."""
    year, month, day = _civil(days)
    return f"{_iso_year(year)}-{month:02}-{day:02}"


def iso_timestamp(micros: int) -> str:
    days, rest = divmod(micros, MICROS_PER_DAY)
    return f"{iso_date(days)}T{_iso_time(rest)}"


def days_of_month(months: int) -> int:
    """The first day of a month, both counted since 1970-01."""
    year, month = divmod(months, 12)
    return _days(1970 + year, month + 1, 1)


def days_of_year(years: int) -> int:
    return _days(1970 + years, 1, 1)


def month_of_days(days: int) -> int:
    year, month, _ = _civil(days)
    return (year - 1970) * 12 + month - 1


def year_of_days(days: int) -> int:
    return _civil(days)[0] - 1970


def _iso_timestamp_ns(nanos: int) -> str:
    micros, rest = divmod(nanos, 1000)
    return f"{iso_timestamp(micros)}{rest:03}"


def _iso_time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{fraction:06}"


def _iso_year(year: int) -> str:
    if 0 <= year <= 9999:
        return f"{year:04}"
    return f"{year:+05}"


def _days_of_iso(text: str) -> int:
    year, month, day = text.rsplit("-", 2)
    return _days(int(year), int(month), int(day))


def _micros_of_iso(text: str) -> int:
    hour, minute, second = text.split(":")
    whole, _, fraction = second.partition(".")
    return ((int(hour) * 60 + int(minute)) * 60 + int(whole)) * 1_000_000 + int(fraction or 0)


def _civil(days: int) -> tuple[int, int, int]:
    """Proleptic Gregorian date; counts years from March so that the leap day comes last."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * march_month + 2) // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719468

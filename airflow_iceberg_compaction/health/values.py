"""Partition values as people write them: 2024-01-31, not 19753. Standard library only."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID

from airflow_iceberg_compaction.health.model import PartitionField, PartitionTuple, Spec

MICROS_PER_DAY = 86_400_000_000


def human_partition(spec: Spec, values: PartitionTuple) -> dict[str, Any]:
    """Field name -> JSON value, in the order of the spec; dates and times are ISO 8601 in UTC."""
    return {field.name: human_value(field, value) for field, value in zip(spec.fields, values, strict=False)}


def partition_path(spec: Spec, values: PartitionTuple) -> str:
    """The partition on one line: ``day=2024-01-31/bucket=7``; empty for an unpartitioned spec."""
    human = human_partition(spec, values)
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in human.items())


def human_value(field: PartitionField, value: Any) -> Any:
    if value is None:
        return None
    match field.transform:
        case "year":
            return f"{1970 + value:04d}"
        case "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case "day":
            return iso_date(value)
        case "hour":
            return f"{iso_date(value // 24)}-{value % 24:02d}"
        case _:
            return _by_type(field.result_type, value)


def _by_type(type_name: str, value: Any) -> Any:
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
        )
    if isinstance(value, Decimal | UUID):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    match type_name:
        case "date":
            return iso_date(value)
        case "time":
            return _iso_time(value)
        case "timestamp" | "timestamptz":
            text = f"{iso_date(value // MICROS_PER_DAY)}T{_iso_time(value % MICROS_PER_DAY)}"
        case "timestamp_ns" | "timestamptz_ns":
            micros, nanos = divmod(value, 1000)
            text = f"{iso_date(micros // MICROS_PER_DAY)}T{_iso_time(micros % MICROS_PER_DAY)}"
            if nanos:
                text += f"{nanos:03d}" if "." in text else f".{nanos:09d}"
        case _:
            return value
    return text + ("+00:00" if type_name.startswith("timestamptz") else "")


def iso_date(days: int) -> str:
    """The civil date ``days`` after 1970-01-01, in any year: Iceberg's range is wider than that of ``datetime``."""
    # Howard Hinnant's algorithm: count from 0000-03-01, so that the leap day is the last of its year.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04d}-{month:02d}-{day:02d}"


def _iso_time(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}" if fraction else text

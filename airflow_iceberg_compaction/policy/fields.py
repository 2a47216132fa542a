"""The types of single values in a policy: what each accepts, how it prints, what an editor is told about it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema

from airflow_iceberg_compaction.policy import catalog_properties, write_properties
from airflow_iceberg_compaction.policy.cron import check_cron
from airflow_iceberg_compaction.policy.errors import Misfit
from airflow_iceberg_compaction.policy.suggestions import did_you_mean
from airflow_iceberg_compaction.policy.units import (
    DURATION_PATTERN,
    RATIO_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration,
    parse_ratio,
    parse_size,
)

# Validation context of values that people wrote. Python code may give bytes and timedeltas; a file must say the unit.
FROM_FILE = {"from_file": True}

MAX_COUNT = 2**31 - 1

_IDENTIFIER = r"[\w-]+"
_SORT_FIELD = re.compile(r"([\w.-]+)(\s+(asc|desc))?(\s+nulls\s+(first|last))?", re.IGNORECASE)
_MAVEN = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_MEMORY = re.compile(r"\d+[kmgt]b?", re.IGNORECASE | re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def _size(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return parse_size(value)
    if info.context == FROM_FILE and isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value} has no unit; write {value}MB, or {value}B for bytes")
    return value


def _duration(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if info.context == FROM_FILE and isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"{value} has no unit; write {value}d, {value}h, {value}m or {value}s")
    return value


def _ratio(value: Any) -> Any:
    return parse_ratio(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else value


def _positive_size(size: int) -> int:
    if size < 1:
        raise ValueError("must be larger than 0; write a size such as 64MB")
    return size


def _positive_duration(duration: timedelta) -> timedelta:
    if duration <= timedelta(0):
        raise ValueError("must be longer than 0s; write a duration such as 7d")
    return duration


Size = Annotated[
    int,
    BeforeValidator(_size),
    AfterValidator(_positive_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": SIZE_PATTERN, "examples": ["96MB", "1GiB"]}),
]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["7d", "90m"]}),
]
PositiveDuration = Annotated[Duration, AfterValidator(_positive_duration)]
Ratio = Annotated[
    float,
    BeforeValidator(_ratio),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": RATIO_PATTERN}],
            "examples": [0.1, "10%"],
        }
    ),
]
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Money = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=250)]


def check_table_name(name: str) -> str:
    if not re.fullmatch(rf"{_IDENTIFIER}(\.{_IDENTIFIER})+", name):
        raise ValueError(f"{name!r} is not a table name; write namespace.name with letters, digits, _ and -")
    if len(name) > 200:
        raise ValueError(f"{name[:40]!r}... is too long; a Dag id holds at most 200 characters of table name")
    return name


TableName = Annotated[str, AfterValidator(check_table_name)]


def _catalog_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"{name!r} cannot name a Spark catalog; use letters, digits and _, beginning with a letter")
    return name


CatalogName = Annotated[str, AfterValidator(_catalog_name), Field(max_length=50)]


def _history(value: Any) -> Any:
    return None if value is False or value == "off" else value


HistoryTable = Annotated[
    TableName | None,
    BeforeValidator(_history),
    WithJsonSchema({"type": ["string", "null"], "examples": ["maintenance.history", "off"]}),
]


Cron = Annotated[str, AfterValidator(check_cron)]


def _timezone(name: str) -> str:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError only for names that look right
        raise ValueError(f"{name!r} is not a time zone; write an IANA name such as Europe/Oslo or UTC") from error
    except KeyError as error:
        raise ValueError(f"{name!r} is not a known time zone; write an IANA name such as Europe/Oslo") from error
    return name


Timezone = Annotated[str, AfterValidator(_timezone)]


def _dotted(name: str) -> str:
    if not _DOTTED.fullmatch(name):
        raise ValueError(f"{name!r} is not an import path; write package.module.TimetableClass")
    return name


DottedPath = Annotated[str, AfterValidator(_dotted)]


def _sort_field(text: str) -> str:
    if not _SORT_FIELD.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not a sort field; write column [asc|desc] [nulls first|last]")
    return " ".join(text.split())


SortField = Annotated[str, AfterValidator(_sort_field)]


def _probe(statement: str) -> str:
    words = statement.strip().rstrip(";").rstrip()
    if not re.match(r"(select|with)\b", words, re.IGNORECASE):
        raise ValueError("a probe only reads; write one SELECT statement")
    if ";" in words:
        raise ValueError("a probe is a single statement; remove the ';' and what follows it")
    return words


Probe = Annotated[str, AfterValidator(_probe)]


def _maven(coordinate: str) -> str:
    if not _MAVEN.fullmatch(coordinate):
        raise ValueError(f"{coordinate!r} is not a Maven coordinate; write group:artifact:version")
    return coordinate


MavenCoordinate = Annotated[str, AfterValidator(_maven)]


def _memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise ValueError(f"{text!r} is not an amount of memory for Spark; write 4g or 512m")
    return text


Memory = Annotated[str, AfterValidator(_memory)]


def _write_properties(properties: dict[str, str]) -> dict[str, str]:
    complaints, typed = [], {}
    for key, value in properties.items():
        try:
            typed[key] = _write_property(key, value)
        except ValueError as error:
            complaints.append(((key,), str(error)))
    if complaints:
        raise Misfit(complaints)
    return typed


def _write_property(key: str, value: str) -> str:
    if key in write_properties.MOVES_FILES:
        raise ValueError("moves the table's files or loads code; set it with ALTER TABLE if you mean it")
    if not write_properties.is_known(key):
        near = did_you_mean(key, write_properties.KNOWN)
        raise ValueError(f"is not a write property of Iceberg; {near or 'set others with ALTER TABLE'}")
    if not write_properties.is_size(key):
        return value
    return value if value.isascii() and value.isdecimal() else str(parse_size(value))


WriteProperties = Annotated[dict[str, str], AfterValidator(_write_properties)]


def _spark_conf(conf: dict[str, str]) -> dict[str, str]:
    complaints = []
    for key, value in conf.items():
        if not key.startswith("spark."):
            complaints.append(((key,), f"is not a Spark setting; write spark.{key}, or remove it"))
        elif catalog_properties.is_secret(key, value):
            complaints.append(((key,), "looks like a secret; keep it in the Airflow connection or on the cluster"))
    if complaints:
        raise Misfit(complaints)
    return conf


SparkConf = Annotated[dict[str, str], AfterValidator(_spark_conf)]


def _catalog_keys(properties: dict[str, str]) -> dict[str, str]:
    complaints = []
    for key in properties:
        if catalog_properties.names_code(key):
            complaints.append(((key,), "names code to load, which a policy must not; remove it"))
        elif not catalog_properties.is_allowed(key):
            near = did_you_mean(key, catalog_properties.ALLOWED_KEYS)
            others = f"keys that begin with {', '.join(catalog_properties.ALLOWED_PREFIXES)} are allowed too"
            complaints.append(((key,), f"is not an allowed property; {near or others}"))
    if complaints:
        raise Misfit(complaints)
    return properties


CatalogProperties = Annotated[dict[str, str], AfterValidator(_catalog_keys)]

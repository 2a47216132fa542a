"""What one run may be told beyond the policy: typed, validated, and recorded in the plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

Strategy = Literal["binpack", "sort", "zorder"]
STRATEGIES: tuple[Strategy, ...] = ("binpack", "sort", "zorder")

MB = 1000 * 1000


@dataclass(frozen=True, kw_only=True)
class RunParameters:
    """Run parameters win over the policy; ``None`` leaves a value to the policy."""

    force: bool = False
    dry_run: bool = False
    partition_filter: str | None = None
    strategy: Strategy | None = None
    target_file_size_mb: int | None = None
    max_files: int | None = None
    expire_snapshots: bool | None = None
    snapshot_retention_hours: float | None = None

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Parameters as a person or Airflow's ``params`` give them; a ValueError names every field that is wrong.

        Empty text and ``None`` mean "not given", because forms send them for fields left alone.
        """
        unknown = sorted(values.keys() - _PARSERS.keys())
        problems = [f"{name}: no such parameter; use {', '.join(_PARSERS)}" for name in unknown]
        given: dict[str, Any] = {}
        for name, parse in _PARSERS.items():
            value = values.get(name)
            if value is None or value == "":
                continue
            try:
                given[name] = parse(value)
            except ValueError as error:
                problems.append(f"{name}: {error}")
        if problems:
            raise ValueError("; ".join(problems))
        return cls(**given)

    def to_mapping(self) -> dict[str, Any]:
        """Only what was given, as plain JSON values: ``from_mapping(to_mapping(x)) == x``."""
        return {
            field.name: value
            for field in dataclasses.fields(self)
            if (value := getattr(self, field.name)) != field.default
        }

    @property
    def target_file_size_bytes(self) -> int | None:
        return None if self.target_file_size_mb is None else self.target_file_size_mb * MB


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError(f"{value!r} is neither true nor false")


def _positive_int(value: object) -> int:
    number = _number(value)
    if number != int(number) or number < 1:
        raise ValueError(f"{value!r} is not a whole number above zero")
    return int(number)


def _positive_hours(value: object) -> float:
    number = _number(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"{value!r} is not a number of hours above zero")
    return number


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is not a filter; write it as in \"day = '2025-01-16' and region in ('eu', 'us')\"")
    return value.strip()


def _strategy(value: object) -> Strategy:
    if value not in STRATEGIES:
        raise ValueError(f"{value!r} is not a strategy; use {', '.join(STRATEGIES)}")
    return value


_PARSERS = {
    "force": _flag,
    "dry_run": _flag,
    "partition_filter": _text,
    "strategy": _strategy,
    "target_file_size_mb": _positive_int,
    "max_files": _positive_int,
    "expire_snapshots": _flag,
    "snapshot_retention_hours": _positive_hours,
}

"""Every key of a policy with its default, as Markdown: the part of docs/policy.md that must not be written by hand."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from airflow_iceberg_compaction.policy.messages import model_in
from airflow_iceberg_compaction.policy.model import PolicyHeader, Profile, Schedule, TableEntry, TableSettings
from airflow_iceberg_compaction.policy.profiles import BUILT_IN


def reference() -> str:
    """Tables of all keys: per file, per table, and the built-in profiles."""
    parts = ["### Once per file", *_table(PolicyHeader, "")]
    parts += ["", "### Per table, in `defaults`, and in profiles", *_table(TableSettings, "")]
    parts += ["", "### Only in an item of `tables`", *_table(TableEntry, "", leave_out=TableSettings)]
    parts += ["", "### Only in a profile of your own", *_table(Profile, "", leave_out=TableSettings)]
    parts += ["", "### A schedule as a mapping", *_table(Schedule, "schedule.")]
    parts += ["", "### Built-in profiles", *_profiles()]
    return "\n".join(parts) + "\n"


def _table(model: type[BaseModel], prefix: str, leave_out: type[BaseModel] | None = None) -> Iterator[str]:
    yield ""
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    known = leave_out.model_fields if leave_out else {}
    yield from _rows(model, prefix, {name: f for name, f in model.model_fields.items() if name not in known})


def _rows(model: type[BaseModel], prefix: str, fields: dict[str, FieldInfo]) -> Iterator[str]:
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    for name, field in fields.items():
        inner = model_in(field.annotation)
        if inner is not None and inner is not Schedule:
            if field.description:
                yield f"| `{prefix}{name}` | {_default(field, defaults.get(name))} | {_cell(field.description)} |"
            yield from _rows(inner, f"{prefix}{name}.", inner.model_fields)
        else:
            yield f"| `{prefix}{name}` | {_default(field, defaults.get(name))} | {_cell(_meaning(field))} |"


def _meaning(field: FieldInfo) -> str:
    description = field.description or ""
    choices = _choices(field.annotation)
    return f"{description} One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else description


def _choices(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]


def _default(field: FieldInfo, value: Any) -> str:
    if field.default is PydanticUndefined:
        return "required"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _profiles() -> Iterator[str]:
    rows: dict[str, dict[str, Any]] = {}
    for profile, settings in BUILT_IN.items():
        for section, value in settings.items():
            for key, item in value.items() if isinstance(value, dict) else [("", value)]:
                rows.setdefault(".".join(filter(None, (section, key))), {})[profile] = item
    yield ""
    yield f"| key | {' | '.join(BUILT_IN)} |"
    yield f"|---|{'---|' * len(BUILT_IN)}"
    for key in sorted(rows):
        yield f"| `{key}` | {' | '.join(f'`{rows[key][p]}`' if p in rows[key] else 'built in' for p in BUILT_IN)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

"""Where each value of a policy was set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_iceberg_compaction.policy.model import Policy, PolicyHeader
from airflow_iceberg_compaction.policy.nodes import Mapping, Scalar, find
from airflow_iceberg_compaction.policy.units import format_size
from airflow_iceberg_compaction.policy.write_properties import is_size


@dataclass(frozen=True)
class Origin:
    """``built in``, ``profile production``, or ``iceberg_maintenance.yaml:12``: no folder, so it is the same on any host."""

    profile: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if self.file:
            return f"{self.file}:{self.line}"
        return f"profile {self.profile}" if self.profile else "built in"


@dataclass(frozen=True)
class EffectiveValue:
    """One setting as it holds, and where it was set."""

    path: str  # rewrite.max_files
    value: Any  # plain JSON, in the spelling of the file: 64MB, 7d
    origin: Origin


@dataclass(frozen=True)
class Origins:
    """The trees a policy was made from. They do not count when policies are compared, and are never copied."""

    file: str
    header: Mapping = field(compare=False, repr=False)
    tables: dict[str, Mapping] = field(compare=False, repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Origins:
        return self


def effective_values(policy: Policy, table: str) -> tuple[EffectiveValue, ...]:
    """Every setting of a table, in the order of the schema; KeyError if the policy has no such table."""
    settings = policy.table(table).model_dump(mode="json", exclude={"name"})
    for key, value in settings["write_properties"].items():
        if is_size(key):
            settings["write_properties"][key] = format_size(int(value))
    origins: Origins | None = policy._origins
    tree = origins.tables[table] if origins else Mapping()
    return tuple(_flatten(settings, (), tree, origins.file if origins else ""))


def effective_header(policy: Policy) -> tuple[EffectiveValue, ...]:
    """Every setting that is said once per file. Catalog properties are shown as written, never with their secrets."""
    header = policy.model_dump(mode="json", include=set(PolicyHeader.model_fields))
    origins: Origins | None = policy._origins
    tree = origins.header if origins else Mapping()
    properties, depth = find(tree, ("catalog", "properties"))
    written = properties.entries if depth == 2 and isinstance(properties, Mapping) else {}
    header["catalog"]["properties"] = {
        key: node.text if isinstance(node := written.get(key), Scalar) else "***"
        for key in header["catalog"]["properties"]
    }
    return tuple(_flatten(header, (), tree, origins.file if origins else ""))


def _flatten(value: Any, path: tuple[str, ...], tree: Mapping, file: str) -> list[EffectiveValue]:
    if isinstance(value, dict) and value:
        return [leaf for key, item in value.items() for leaf in _flatten(item, (*path, key), tree, file)]
    return [EffectiveValue(".".join(path), value, _origin(path, tree, file))]


def _origin(path: tuple[str, ...], tree: Mapping, file: str) -> Origin:
    node, depth = find(tree, path)
    if depth < len(path):
        return Origin()
    if node.layer:
        return Origin(profile=node.layer)
    return Origin(file=file, line=node.key_line or node.line)

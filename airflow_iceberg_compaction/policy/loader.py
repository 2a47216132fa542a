"""Reads a policy file. Starting point: no positions, no profiles yet."""

from __future__ import annotations

from pathlib import Path

import yaml

from airflow_iceberg_compaction.policy.model import Policy, TablePolicy


def load_policy(path: str | Path) -> Policy:
    document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    document.pop("version", None)
    document.pop("profiles", None)
    defaults = document.pop("defaults", {})
    tables = tuple(TablePolicy.model_validate(_merge(defaults, table)) for table in document.pop("tables"))
    return Policy.model_validate({"path": str(path), **document, "tables": tables})


def _merge(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
    merged = dict(below)
    for key, value in above.items():
        lower = merged.get(key)
        merged[key] = _merge(lower, value) if isinstance(lower, dict) and isinstance(value, dict) else value
    return merged

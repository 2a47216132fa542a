"""The page a Dag shows about itself: what will be done to the table, and who said so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.policy.origins import effective_values

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import Policy


def describe(policy: Policy, table: str) -> str:
    """Markdown with the effective policy and the origin of each value. Equal policies give equal text on any host."""
    rows = [
        f"| {value.path} | {_cell(value.value)} | {_escape(str(value.origin))} |"
        for value in effective_values(policy, table)
        if not _is_empty(value.value)
    ]
    return "\n".join(
        [
            f"Maintenance of the Iceberg table `{table}` in catalog `{policy.catalog.name}`.",
            "",
            "`assess` judges the table from its metadata and writes the plan; each task after it carries out one "
            "section of the plan with Spark, or is skipped when that section has nothing to do; `report` always runs.",
            "",
            "| setting | value | set in |",
            "|---|---|---|",
            *rows,
        ]
    )


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, [])


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"`{_escape(text)}`"


def _escape(text: str) -> str:
    """Text that cannot leave its cell or its backticks."""
    return text.replace("`", "'").replace("|", "\\|").replace("\n", " ")

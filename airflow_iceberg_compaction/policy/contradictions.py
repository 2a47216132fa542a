"""Settings that are fine alone but make no sense together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from airflow_iceberg_compaction.policy.model import Rewrite, TableSettings
from airflow_iceberg_compaction.policy.units import format_size


class Contradiction(NamedTuple):
    """Two key paths that do not go together; the first is to blame when a file sets both in the same place."""

    paths: tuple[str, str]
    complaint: str


def contradictions(table: TableSettings) -> Iterator[Contradiction]:
    """Every contradiction of one table. Only files are held to this, not models that Python code builds."""
    yield from _sizes(table)
    yield from _order(table.rewrite)
    yield from _budget(table)


def _sizes(table: TableSettings) -> Iterator[Contradiction]:
    small, target = table.thresholds.small_file_size, table.rewrite.target_file_size
    if target is not None and small >= target:
        yield Contradiction(
            ("thresholds.small_file_size", "rewrite.target_file_size"),
            f"small_file_size ({format_size(small)}) is not below target_file_size ({format_size(target)}), so every new "
            "file would count as small; lower small_file_size or raise target_file_size",
        )


def _order(rewrite: Rewrite) -> Iterator[Contradiction]:
    columns = [column.split()[0] for column in rewrite.sort_order]
    by_order = ("rewrite.sort_order", "rewrite.strategy")
    if rewrite.strategy == "zorder" and not columns:
        yield Contradiction(
            ("rewrite.strategy", "rewrite.sort_order"), "zorder needs columns; write sort_order: [a, b]"
        )
    if rewrite.strategy == "zorder" and columns != list(rewrite.sort_order):
        yield Contradiction(by_order, "zorder has no direction; write column names only")
    if rewrite.strategy == "binpack" and columns:
        yield Contradiction(
            by_order, "binpack keeps no order, so sort_order has no effect; write strategy: sort, or sort_order: []"
        )
    if len(set(columns)) < len(columns):
        yield Contradiction(by_order, "sort_order names a column twice; keep one of them")


def _budget(table: TableSettings) -> Iterator[Contradiction]:
    most = table.rewrite.max_files
    for path, least in (
        ("rewrite.min_input_files", table.rewrite.min_input_files),
        ("thresholds.min_small_files", table.thresholds.min_small_files),
    ):
        if most is not None and most < least:
            yield Contradiction(
                ("rewrite.max_files", path),
                f"max_files ({most}) is below {path.partition('.')[2]} ({least}), so nothing would ever be rewritten; "
                f"raise max_files to {least} or more",
            )

"""``iceberg-compaction history [TABLE]``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", nargs="?", metavar="TABLE", help="namespace.name; all tables when left out")
    parser.add_argument("--limit", type=int, default=20, help="newest runs to show (default: 20)")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from rich.markup import escape
    from rich.table import Table

    from airflow_iceberg_compaction.history import History
    from airflow_iceberg_compaction.report.console import coloured

    policy = common.load(args)
    if policy.history is None:
        raise common.UsageError(f"{policy.path} has `history: off`; set it to a table name to keep one")
    rows = History(common.find_catalog(policy).load(), policy.history).rows(args.table, args.limit)
    if args.json:
        print(json.dumps([json.loads(row["report"]) for row in rows]))
        return 0
    shown = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("finished (UTC)", "table", "outcome", "data files", "delete files", "certificate", "why"):
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(
            f"{row['finished_at']:%Y-%m-%d %H:%M:%S}",
            row["table_name"],
            coloured(row["outcome"]),
            f"{row['files_before']:,} → {row['files_after']:,}",
            f"{row['delete_files_before']:,} → {row['delete_files_after']:,}",
            row["certificate"] or "-",
            escape(row["reason"]),
        )
    common.stdout().print(shown if rows else f"no runs recorded in {policy.history} yet")
    return 0

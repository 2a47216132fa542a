"""``iceberg-compaction demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path(".demo"), help="emptied and filled anew (default: .demo)")


def run(args: argparse.Namespace) -> int:
    from airflow_iceberg_compaction.demo.story import tell

    return tell(args.folder)

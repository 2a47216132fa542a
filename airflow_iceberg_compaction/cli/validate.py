"""``iceberg-compaction validate [FILE ...]``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="policy files (default: the one of --policy)")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    files: list[str | Path] = list(args.files) or [common.find_policy(args.policy)]
    verdicts = [_judge(file) for file in files]
    if args.json:
        print(json.dumps([{key: value for key, value in verdict.items() if key != "text"} for verdict in verdicts]))
    else:
        for verdict in verdicts:
            print(verdict["text"], file=sys.stdout if verdict["valid"] else sys.stderr)
    if any(verdict["unreadable"] for verdict in verdicts):
        return 3
    return 0 if all(verdict["valid"] for verdict in verdicts) else 1


def _judge(file: str | Path) -> dict[str, Any]:
    from airflow_iceberg_compaction.policy.errors import PolicyError, PolicyUnreadableError
    from airflow_iceberg_compaction.policy.loader import load_policy

    verdict: dict[str, Any] = {"file": str(file), "valid": True, "unreadable": False, "tables": 0, "problems": []}
    try:
        policy = load_policy(file)
    except PolicyError as error:
        count = len(error.problems)
        summary = f"{file}: {count} problem{'s' if count > 1 else ''}"
        return {
            **verdict,
            "valid": False,
            "unreadable": isinstance(error, PolicyUnreadableError),
            "problems": [problem.to_dict() for problem in error.problems],
            "text": str(error) if isinstance(error, PolicyUnreadableError) else f"{error}\n{summary}",
        }
    count = len(policy.tables)
    text = f"{file}: valid, {count} table{'' if count == 1 else 's'}, profile {policy.profile}"
    return {**verdict, "tables": count, "text": text}

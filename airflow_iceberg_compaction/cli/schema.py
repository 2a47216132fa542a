"""``iceberg-compaction schema [policy|plan|report]``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse

KINDS = ("policy", "plan", "report")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=KINDS, default="policy", help="which document (default: policy)")
    parser.add_argument("--markdown", action="store_true", help="every key of the policy as Markdown tables instead")
    # A schema is JSON already; accepted so that --json works everywhere.
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    if args.markdown:
        from airflow_iceberg_compaction.policy.reference import reference

        if args.kind != "policy":
            raise common.UsageError(
                f"--markdown describes the policy only; leave it out for the schema of a {args.kind}"
            )
        print(reference(), end="")
        return 0
    from airflow_iceberg_compaction import schemas

    schema = {"policy": schemas.policy_schema, "plan": schemas.plan_schema, "report": schemas.report_schema}[args.kind]
    print(json.dumps(schema(), indent=2, ensure_ascii=False))
    return 0

"""``iceberg-compaction show-config TABLE``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from airflow_iceberg_compaction.policy.origins import EffectiveValue


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="namespace.name")
    common.add_policy_argument(parser)
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from airflow_iceberg_compaction.policy.origins import effective_header, effective_values

    policy = common.load(args)
    (table,) = common.find_tables(policy, [args.table])
    settings, header = effective_values(policy, table.name), effective_header(policy)
    if args.json:
        document = {
            "table": table.name,
            "policy": policy.path,
            "profile": policy.profile,
            "settings": [_to_dict(value) for value in settings],
            "file": [_to_dict(value) for value in header],
        }
        print(json.dumps(document))
        return 0
    _print(table.name, settings)
    _print(policy.path, header)
    return 0


def _to_dict(value: EffectiveValue) -> dict[str, object]:
    origin = value.origin
    where = {"file": origin.file, "line": origin.line} if origin.file else {"profile": origin.profile}
    return {
        "key": value.path,
        "value": value.value,
        "origin": str(origin),
        **(where if str(origin) != "built in" else {}),
    }


def _print(title: str, values: Sequence[EffectiveValue]) -> None:
    from rich.markup import escape
    from rich.table import Table

    shown = Table(title=escape(title), title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    shown.add_column("key", no_wrap=True)
    shown.add_column("value", overflow="fold")
    shown.add_column("set in", no_wrap=True)
    for value in values:
        text = value.value if isinstance(value.value, str) else json.dumps(value.value)
        built_in = str(value.origin) == "built in"
        shown.add_row(value.path, escape(text), escape(str(value.origin)), style="dim" if built_in else None)
    common.stdout().print(shown)

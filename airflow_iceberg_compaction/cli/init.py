"""``iceberg-compaction init [FILE]``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    default = common.DEFAULT_POLICIES[0]
    parser.add_argument("file", nargs="?", metavar="FILE", default=default, help=f"where to write (default: {default})")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it is there")
    common.add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    from airflow_iceberg_compaction.policy.starter import STARTER

    path = Path(args.file)
    try:
        # "x" and not a check before: a file that appears meanwhile is not overwritten either.
        with path.open("w" if args.force else "x", encoding="utf-8") as stream:
            stream.write(STARTER)
    except FileExistsError as error:
        raise common.UsageError(f"{path} is there already; give another name, or --force to overwrite it") from error
    except OSError as error:
        raise common.UsageError(f"{path} cannot be written ({error.strerror}); give another name") from error
    if args.json:
        print(json.dumps({"file": str(path)}))
    else:
        print(f"wrote {path}; change the names in it, then: iceberg-compaction validate {path}")
    return 0

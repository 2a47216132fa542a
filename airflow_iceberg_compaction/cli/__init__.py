"""``iceberg-compaction``: one module per command, imported only when that command is asked for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "init": "write a commented starter policy",
    "validate": "check policy files; all mistakes at once, each at its line",
    "schema": "print the JSON Schema of the policy, plan or report",
    "show-config": "every effective setting of a table and where it was set",
    "tables": "list the tables a policy's name patterns match",
    "health": "how healthy tables are, from metadata alone",
    "plan": "what a run would do, why, and what it would cost",
    "run": "maintain tables now, without Airflow",
    "history": "past runs",
    "demo": "the whole story on a local folder: Airflow, Spark and Iceberg",
}

# Exit codes: 0 fine, 1 found problems, 2 usage, 3 could not reach something.
PROBLEMS, USAGE, UNREACHABLE = 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console script."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="iceberg-compaction", description="Keep Apache Iceberg tables healthy.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
            module.configure(command)
            command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`head`, `less`) has seen enough; Python must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        print(f"iceberg-compaction: {error}", file=sys.stderr)
        return code


def _exit_code(error: Exception) -> int | None:
    """The exit code of an error a user can mend, None for a bug of ours, which keeps its traceback."""
    from airflow_iceberg_compaction.catalog import CatalogError, CatalogUnreachableError, TableNotFoundError
    from airflow_iceberg_compaction.cli.common import UsageError
    from airflow_iceberg_compaction.environment import EnvironmentProblem
    from airflow_iceberg_compaction.health.errors import HealthError, SelectionError, StoreError
    from airflow_iceberg_compaction.policy.errors import PolicyError
    from airflow_iceberg_compaction.store import StoreError as DocumentsError
    from airflow_iceberg_compaction.submit import SubmitError

    if isinstance(error, CatalogError | TableNotFoundError | UsageError | PolicyError | SelectionError):
        return USAGE
    if isinstance(error, CatalogUnreachableError | DocumentsError | EnvironmentProblem | StoreError | SubmitError):
        return UNREACHABLE
    if isinstance(error, HealthError):
        return PROBLEMS
    return None

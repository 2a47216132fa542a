"""What the commands share: finding the policy, its catalog and its tables."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy

DEFAULT_POLICIES = ("iceberg_maintenance.yaml", "dags/iceberg_maintenance.yaml")


class UsageError(ValueError):
    """The command line asks for something that cannot be done; the message says what can."""


def add_policy_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        metavar="FILE",
        default=os.environ.get("ICEBERG_COMPACTION_POLICY"),
        help=f"policy file (default: $ICEBERG_COMPACTION_POLICY, else {' or '.join(DEFAULT_POLICIES)})",
    )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def find_policy(given: str | None) -> Path:
    if given:
        return Path(given)
    for candidate in DEFAULT_POLICIES:
        if Path(candidate).exists():
            return Path(candidate)
    raise UsageError("no policy file found; give --policy FILE, or write one with `iceberg-compaction init`")


def load(args: argparse.Namespace) -> Policy:
    from airflow_iceberg_compaction.policy.loader import load_policy

    return load_policy(find_policy(args.policy))


def find_tables(policy: Policy, names: Sequence[str]) -> tuple[TablePolicy, ...]:
    """The policies of ``names``, of all enabled tables when there are none."""
    if not names:
        return tuple(table for table in policy.tables if table.enabled)
    known = {table.name: table for table in policy.tables}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(known)) or 'none'}"
            raise UsageError(f"table {name!r} is not in {policy.path}; {hint}")
    return tuple(known[name] for name in names)


def find_catalog(policy: Policy) -> CatalogConfig:
    """The policy's catalog; one that is an Airflow connection is read through Airflow where that is installed."""
    from airflow_iceberg_compaction.catalog import CatalogConfig, CatalogError

    if not policy.catalog.conn_id:
        return CatalogConfig.from_policy(policy.catalog)
    try:
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import resolve_catalog
    except ImportError as error:
        raise CatalogError(
            f"catalog {policy.catalog.name!r} is the Airflow connection {policy.catalog.conn_id!r}, and Airflow is not "
            "installed here; give `catalog.properties`, or leave both out and use PyIceberg's own configuration"
        ) from error
    try:
        return resolve_catalog(policy)
    except Exception as error:  # Airflow's own classes, which must not be imported here
        raise CatalogError(
            f"connection {policy.catalog.conn_id!r}: {error}; outside a task give it as "
            f"AIRFLOW_CONN_{policy.catalog.conn_id.upper()}, or use `catalog.properties`"
        ) from error


def documents_uri(policy: Policy) -> str:
    """Where the command line keeps plans, results and the cache."""
    return policy.documents or str(Path(".iceberg-compaction").absolute())


def job_folder(policy: Policy) -> Path:
    """A local folder for the job's zip, which spark-submit uploads from there."""
    from airflow_iceberg_compaction.store import local_path

    return (local_path(documents_uri(policy)) or Path(".iceberg-compaction").absolute()) / "job"


def open_cache(policy: Policy) -> ManifestCache | None:
    """The manifest cache under the documents folder; None when that is remote."""
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.store import local_path

    folder = local_path(documents_uri(policy))
    return ManifestCache(folder / "manifests.db") if folder else None


def stdout() -> Console:
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    # A pipe or a file has no width; rich's guess of 80 would cut the tables.
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=150)

"""The run parameters as command-line arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.cli import common

if TYPE_CHECKING:
    import argparse

    from airflow_iceberg_compaction.plan.parameters import RunParameters


def add_parameter_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", default=None, help="rewrite healthy and hot partitions too")
    parser.add_argument("--partition-filter", metavar="FILTER", help="only these, e.g. \"event_date = '2025-01-16'\"")
    parser.add_argument("--strategy", choices=("binpack", "sort", "zorder"))
    parser.add_argument("--target-file-size-mb", metavar="MB")
    parser.add_argument("--max-files", metavar="N", help="rewrite at most this many files")
    expiry = parser.add_mutually_exclusive_group()
    expiry.add_argument("--expire-snapshots", action="store_true", default=None, help="even if the policy does not")
    expiry.add_argument("--no-expire-snapshots", action="store_false", dest="expire_snapshots")
    parser.add_argument("--snapshot-retention-hours", metavar="H")


def run_parameters(args: argparse.Namespace, *, dry_run: bool) -> RunParameters:
    """The parameters that were given; a UsageError names every one that is wrong."""
    from airflow_iceberg_compaction.plan.parameters import RunParameters

    names = (
        "force", "partition_filter", "strategy", "target_file_size_mb", "max_files", "expire_snapshots",
        "snapshot_retention_hours",
    )  # fmt: skip
    try:
        return RunParameters.from_mapping({name: getattr(args, name) for name in names} | {"dry_run": dry_run})
    except ValueError as error:
        raise common.UsageError(str(error)) from error

"""The form of an ad-hoc run: the Dag's params."""

from __future__ import annotations

from airflow.sdk import Param


def run_params(*, expire_snapshots: bool) -> dict[str, Param]:
    """Params of a maintenance Dag, one for each field of RunParameters. Empty means: as the policy says.

    :param expire_snapshots: what the policy says about expiry.
    """
    # Params without a section stand in the one that is open when the form appears.
    return {
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description="Rewrite the selected partitions even if they are healthy.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            title="Dry run",
            description="Judge the table and write the plan, then stop. Spark is not started.",
        ),
        "partition_filter": Param(
            None,
            type=["null", "string"],
            title="Partition filter",
            description="Only these partitions, for example: event_date = '2025-01-16' and region in ('eu', 'us')",
            maxLength=4000,
        ),
        "strategy": Param(
            None,
            type=["null", "string"],
            enum=[None, "binpack", "sort", "zorder"],
            values_display={"null": "as the policy says", "binpack": "binpack", "sort": "sort", "zorder": "zorder"},
            title="Strategy",
            section="How to rewrite",
            description="sort and zorder need columns in the policy, or a sort order of the table.",
        ),
        "target_file_size_mb": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=10_000,
            title="Target file size in MB",
            section="How to rewrite",
            description="Empty: as the policy says.",
        ),
        "max_files": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Most input files",
            section="How to rewrite",
            description="Partitions beyond this budget wait for the next run. Empty: as the policy says.",
        ),
        "expire_snapshots": Param(
            # A switch cannot show "as the policy says", so it shows what the policy says.
            expire_snapshots,
            type=["boolean", "null"],
            title="Expire snapshots",
            section="Snapshots",
            description="Remove snapshots that are past their retention, with the files only they need.",
        ),
        "snapshot_retention_hours": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Keep snapshots for hours",
            section="Snapshots",
            description="Snapshots younger than this stay. Empty: as the policy says.",
        ),
    }

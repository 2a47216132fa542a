"""Stage 0: what the manifest list alone proves. For callers that want a yes or no and no numbers, such as a sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.health.errors import HealthError
from airflow_iceberg_compaction.health.manifests import list_manifests

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.policy.model import TablePolicy


def proof_of_health(table: Table, policy: TablePolicy, branch: str = "main") -> str | None:
    """Why no partition can cross a threshold, from one small file; None when only a full assessment can tell.

    A partition is sick for its deletes, for at least ``min_small_files`` small files, or because ``full_every`` is due.
    Without live delete files, with fewer data files in the whole table than that, and without ``full_every``, none can
    be. Averages prove nothing: they hide sick partitions among healthy ones. Expired snapshots are not looked at.
    """
    if table.metadata.format_version > 3 or policy.rewrite.full_every is not None:
        return None
    snapshot = table.snapshot_by_name(branch)
    if snapshot is None:
        return "the table has no snapshot" if branch == "main" else None
    try:
        manifests = list_manifests(table.io, snapshot)
    except HealthError:
        return None
    counts = [manifest.live_files for manifest in manifests]
    if any(m.holds_deletes and m.is_live for m in manifests) or None in counts:
        return None
    files = sum(count for count in counts if count is not None)
    if files >= max(1, policy.thresholds.min_small_files) or len(manifests) >= policy.manifests.min_manifests:
        return None
    return (
        f"{files} data files in all, fewer than min_small_files = {policy.thresholds.min_small_files}, and no deletes"
    )

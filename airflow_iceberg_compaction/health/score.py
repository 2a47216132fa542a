"""How sick a partition is and which cure fits. Pure arithmetic, standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import OptimizationType
from airflow_iceberg_compaction.health.model import PartitionHealth

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import TablePolicy

FILE_COUNT_WEIGHT = 0.3
FRAGMENT_WEIGHT = 0.3
AGE_WEIGHT = 0.2
SMALL_FILE_WEIGHT = 0.2

FULL_FILE_COUNT = 100  # data files at which the file count alone counts fully
FULL_AGE_MS = 24 * 3600 * 1000


def fragment_ratio(partition: PartitionHealth) -> float:
    """Delete files that apply per data file. Dangling ones cost readers little, and rewriting data removes none."""
    return partition.applied_delete_files / max(partition.data_files, 1)


def score(partition: PartitionHealth, policy: TablePolicy, now_ms: int) -> float:  # noqa: ARG001 - part of the contract
    """0 (nothing to gain) to 1 (worst); every factor is clamped, so that none can drown the others."""
    if partition.data_files == 0:
        return 0.0
    age_ms = FULL_AGE_MS if partition.last_compaction_ms is None else now_ms - partition.last_compaction_ms
    return (
        FILE_COUNT_WEIGHT * _clamp(partition.data_files / FULL_FILE_COUNT)
        + FRAGMENT_WEIGHT * _clamp(fragment_ratio(partition))
        + AGE_WEIGHT * _clamp(age_ms / FULL_AGE_MS)
        + SMALL_FILE_WEIGHT * _clamp(partition.small_files / partition.data_files)
    )


def optimization_type(
    partition: PartitionHealth, policy: TablePolicy, *, now_ms: int, forced: bool = False
) -> OptimizationType:
    """Major for deletes, else minor for small files, else full when forced or due, else none."""
    thresholds = policy.thresholds
    applied = partition.applied_delete_files
    if partition.data_files == 0:
        return "none"
    if applied and (applied >= thresholds.delete_files or fragment_ratio(partition) > thresholds.delete_ratio):
        return "major"
    if partition.small_files >= max(1, thresholds.min_small_files):
        return "minor"
    every = policy.rewrite.full_every
    # Our stamps expire with their snapshots, so the absence of one proves nothing.
    due = (
        every is not None
        and partition.last_compaction_ms is not None
        and now_ms - partition.last_compaction_ms >= every.total_seconds() * 1000
    )
    return "full" if forced or due else "none"


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)

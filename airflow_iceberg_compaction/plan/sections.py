"""What else a run does: delete files, manifests, snapshots, orphans. Each is decided from metadata, empty when idle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import DeleteFilesSection, ExpireSection, ManifestsSection, OrphansSection
from airflow_iceberg_compaction.health.model import PartitionHealth, TableHealth
from airflow_iceberg_compaction.plan.retention import GC_ENABLED_PROPERTY, expired_snapshots

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_iceberg_compaction.plan.batches import Prospect
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.plan.selection import Key
    from airflow_iceberg_compaction.policy.model import TablePolicy

MS_PER_HOUR = 3_600_000
DELETE_TARGET_PROPERTY = "write.delete.target-file-size-bytes"
DEFAULT_DELETE_TARGET = 64 * 1024**2


def plan_delete_files(
    health: TableHealth, policy: TablePolicy, rewritten: Sequence[Prospect] = ()
) -> DeleteFilesSection:
    """Delete files that no rewrite of data removes: dangling ones, and position deletes that could be fewer.

    ``rewritten`` are the partitions whose data files this run rewrites before it comes to delete files.
    """
    settings = policy.delete_files
    fewer = {
        key: work.input_files - work.output_files for prospect in rewritten for key, work in prospect.shares.items()
    }
    dangling = sum(p.dangling_delete_files for p in health.partitions)
    position = sum(p.position_delete_files for p in health.partitions)
    if not settings.enabled:
        return DeleteFilesSection(
            reason="delete_files.enabled is false", dangling_delete_files=dangling, position_delete_files=position
        )
    ever_partitioned = len(health.specs) > 1 or any(spec.is_partitioned for spec in health.specs)
    remove = dangling > 0 and ever_partitioned
    excess = sum(_excess(p, health.format_version, fewer) for p in health.partitions)
    rewrite = excess >= max(1, settings.min_position_delete_files) or (health.format_version >= 3 and excess > 0)
    reasons = []
    if remove:
        reasons.append(f"{dangling} delete files apply to no data file")
    if rewrite:
        reasons.append(f"{excess} of {position} position delete files are more than their data files need")
    return DeleteFilesSection(
        reason="; ".join(reasons) or "no dangling deletes, no position deletes to compact",
        dangling_delete_files=dangling,
        position_delete_files=position,
        remove_dangling=remove,
        rewrite_position_deletes=rewrite,
        options=_position_delete_options(health) if rewrite else {},
    )


def _excess(partition: PartitionHealth, format_version: int, fewer_data_files: Mapping[Key, int]) -> int:
    """Position delete files that a rewrite would save: at best one for each data file is left, or none in v3.

    Below two there is nothing to join, so that one rewrite is enough.
    """
    count = partition.position_delete_files
    if format_version >= 3:
        return count if count > 1 else 0
    key = (partition.spec_id, partition.partition)
    return max(0, count - max(1, partition.data_files - fewer_data_files.get(key, 0)))


def _position_delete_options(health: TableHealth) -> dict[str, str]:
    target = int(health.properties.get(DELETE_TARGET_PROPERTY, DEFAULT_DELETE_TARGET))
    return {
        "target-file-size-bytes": str(target),
        "min-file-size-bytes": str(int(target * 0.75)),
        "max-file-size-bytes": str(int(target * 1.8)),
        "min-input-files": "2",
        "rewrite-all": "false",
    }


def plan_manifests(health: TableHealth, policy: TablePolicy) -> ManifestsSection:
    """Manifests of a spec are rewritten when they are many, and many times more than their bytes need."""
    settings = policy.manifests
    metadata = health.metadata
    manifests = metadata.data_manifests + metadata.delete_manifests
    ideal = {
        spec: _ideal(size, metadata.target_manifest_bytes) for spec, (_, size) in metadata.manifests_by_spec.items()
    }
    ideal_manifests = sum(ideal.values())
    if not settings.enabled:
        return ManifestsSection(
            reason="manifests.enabled is false", manifests=manifests, ideal_manifests=ideal_manifests
        )
    crowded = tuple(
        spec
        for spec, (count, _) in sorted(metadata.manifests_by_spec.items())
        if count >= max(2, settings.min_manifests) and count > settings.max_ratio * ideal[spec]
    )
    return ManifestsSection(
        reason=f"{manifests} manifests, {ideal_manifests} would do"
        + ("" if crowded else f"; rewritten from {settings.min_manifests} and {settings.max_ratio:g} times as many"),
        manifests=manifests,
        ideal_manifests=ideal_manifests,
        rewrite=bool(crowded),
        spec_ids=crowded,
    )


def _ideal(size: int, target: int) -> int:
    return max(1, math.ceil(size / target))


def plan_expiry(health: TableHealth, policy: TablePolicy, parameters: RunParameters, now_ms: int) -> ExpireSection:
    """The snapshots that Iceberg would expire now, by its own rules for branches, tags and ages."""
    settings = policy.expire_snapshots
    enabled = settings.enabled if parameters.expire_snapshots is None else parameters.expire_snapshots
    older_than_ms = now_ms - retention_ms(policy, parameters)
    if not enabled:
        return ExpireSection(reason="switched off", older_than_ms=older_than_ms, retain_last=settings.retain_last)
    if health.properties.get(GC_ENABLED_PROPERTY, "true").lower() == "false":
        return ExpireSection(
            reason="gc.enabled is false on the table", older_than_ms=older_than_ms, retain_last=settings.retain_last
        )
    retain_last = max(1, settings.retain_last)
    gone = expired_snapshots(
        health.snapshots,
        health.refs,
        health.properties,
        older_than_ms=older_than_ms,
        retain_last=retain_last,
        now_ms=now_ms,
    )
    return ExpireSection(
        reason=f"{len(gone)} of {len(health.snapshots)} snapshots are past their retention",
        older_than_ms=older_than_ms,
        retain_last=retain_last,
        snapshots=gone,
    )


def retention_ms(policy: TablePolicy, parameters: RunParameters) -> int:
    if parameters.snapshot_retention_hours is not None:
        return int(parameters.snapshot_retention_hours * MS_PER_HOUR)
    return _ms(policy.expire_snapshots.older_than)


def plan_orphans(
    health: TableHealth,
    policy: TablePolicy,
    now_ms: int,
    last_sweep_ms: int | None,
    other_locations: Sequence[str],
) -> OrphansSection:
    """A sweep is due when there was none, or the last is ``every`` ago. The job lists files; metadata cannot."""
    settings = policy.orphan_files
    reason, due = "", False
    if settings.mode == "off":
        reason = "orphan_files.mode is off"
    elif health.properties.get(GC_ENABLED_PROPERTY, "true").lower() == "false":
        reason = "gc.enabled is false on the table"
    elif last_sweep_ms is None:
        reason, due = "never swept", True
    else:
        hours, every = (now_ms - last_sweep_ms) // MS_PER_HOUR, _ms(settings.every) // MS_PER_HOUR
        due = now_ms - last_sweep_ms >= _ms(settings.every)
        reason = f"last sweep {hours} h ago, every {every} h"
    return OrphansSection(
        reason=reason,
        due=due,
        mode=settings.mode,
        older_than_ms=now_ms - _ms(settings.older_than),
        max_deletes=settings.max_deletes,
        max_share=settings.max_share,
        other_locations=tuple(other_locations),
    )


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)

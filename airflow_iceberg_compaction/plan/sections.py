"""What else a run does: delete files, manifests, snapshots, orphans. Each is decided from metadata, empty when idle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import DeleteFilesSection, ExpireSection, ManifestsSection, OrphansSection
from airflow_iceberg_compaction.health.model import PartitionHealth, TableHealth
from airflow_iceberg_compaction.plan.retention import GC_ENABLED_PROPERTY, expired_snapshots

if TYPE_CHECKING:
    from datetime import timedelta

    from airflow_iceberg_compaction.plan.batches import Prospect
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import TablePolicy

MS_PER_HOUR = 3_600_000
DELETE_TARGET_PROPERTY = "write.delete.target-file-size-bytes"
DEFAULT_DELETE_TARGET = 64 * 1024**2


def plan_delete_files(
    health: TableHealth, policy: TablePolicy, rewritten: Sequence[Prospect] = ()
) -> DeleteFilesSection:
    """Delete files that no rewrite of data removes: dangling ones, and position deletes that could be fewer.

    ``rewritten`` is what this run rewrites before it comes to delete files. Deletes that name a rewritten file, and all v2
    deletes of partitions that are rewritten as a whole, are left dangling by that, so that both are done in one run.
    """
    settings = policy.delete_files
    dangling = sum(p.dangling_delete_files for p in health.partitions)
    position = sum(p.position_delete_files for p in health.partitions)
    if not settings.enabled:
        return DeleteFilesSection(
            reason="delete_files.enabled is false", dangling_delete_files=dangling, position_delete_files=position
        )
    after = _AfterRewrite(health, rewritten)
    becoming = sum(after.becoming_dangling(p) for p in health.partitions)
    obstacle = _removal_obstacle(health)
    remove = dangling + becoming > 0 and obstacle is None
    excess = sum(after.excess_position_deletes(p) for p in health.partitions)
    rewrite = excess >= (1 if health.format_version >= 3 else max(1, settings.min_position_delete_files))
    reasons = []
    if dangling + becoming:
        reasons.append(f"{dangling} delete files apply to no data file, {becoming} more after the rewrite")
        reasons += [] if obstacle is None else [f"they stay: {obstacle}"]
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


def _removal_obstacle(health: TableHealth) -> str | None:
    """Why Iceberg's removal of dangling deletes would do nothing, or harm."""
    if len(health.specs) <= 1 and not any(spec.is_partitioned for spec in health.specs):
        return "on a table that never had partitions Iceberg drops them with the next commits"
    if health.global_equality_delete_files:
        return (
            f"{health.global_equality_delete_files} equality deletes of the whole table apply to other specs, "
            "and Iceberg's removal would drop them too"
        )
    return None


class _AfterRewrite:
    """What will be true of delete files once the planned data files are rewritten."""

    def __init__(self, health: TableHealth, rewritten: Sequence[Prospect]) -> None:
        self._version = health.format_version
        self._target = _delete_target(health)
        self._work = {key: (work, prospect) for prospect in rewritten for key, work in prospect.shares.items()}
        head = next((s for s in health.snapshots if s.snapshot_id == health.snapshot_id), None)
        # Position deletes of the very snapshot that a rewrite starts from are as old as the files it writes.
        self._head_adds_deletes = head is None or head.summary.get("added-delete-files", "0") != "0"

    def becoming_dangling(self, partition: PartitionHealth) -> int:
        """Delete files that certainly apply to nothing afterwards. Vectors go with the rewrite itself."""
        work, prospect = self._work.get((partition.spec_id, partition.partition), (None, None))
        if work is None or prospect is None:
            return 0
        file_scoped = partition.file_scoped_position_delete_files
        if work.input_files < partition.data_files:
            files = (file for group in prospect.groups for file in group.files)
            return min(file_scoped, sum(file.file_scoped_delete_rows > 0 for file in files))
        younger = not prospect.options.use_starting_sequence_number or not self._head_adds_deletes
        applied = partition.equality_delete_files + (partition.position_delete_files if younger else file_scoped)
        return max(0, applied - partition.dangling_delete_files)

    def excess_position_deletes(self, partition: PartitionHealth) -> int:
        """Position delete files that a rewrite of them would save: at best one for each data file is left.

        Large ones Iceberg would not pick, and below two there is nothing to join. In v3 they become vectors.
        """
        count = partition.position_delete_files
        if count < 2 or partition.delete_bytes >= partition.delete_files * int(self._target * 0.75):
            return 0
        if self._version >= 3:
            return count
        work, _ = self._work.get((partition.spec_id, partition.partition), (None, None))
        data_files = partition.data_files - (0 if work is None else work.input_files - work.output_files)
        return max(0, count - self.becoming_dangling(partition) - max(1, data_files))


def _delete_target(health: TableHealth) -> int:
    return int(health.properties.get(DELETE_TARGET_PROPERTY, DEFAULT_DELETE_TARGET))


def _position_delete_options(health: TableHealth) -> dict[str, str]:
    target = _delete_target(health)
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
    # Data and deletes never share a manifest.
    kinds = 2 if metadata.delete_manifests else 1
    ideal = {
        spec: max(kinds, math.ceil(size / metadata.target_manifest_bytes))
        for spec, (_, size) in metadata.manifests_by_spec.items()
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

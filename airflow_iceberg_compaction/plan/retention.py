"""Which snapshots Iceberg's ``RemoveSnapshots`` would expire: an empty answer means it would expire nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from airflow_iceberg_compaction.health.model import RefInfo, SnapshotInfo

MAX_REF_AGE_PROPERTY = "history.expire.max-ref-age-ms"
GC_ENABLED_PROPERTY = "gc.enabled"


def expired_snapshots(
    snapshots: Sequence[SnapshotInfo],
    refs: Iterable[RefInfo],
    properties: Mapping[str, str],
    *,
    older_than_ms: int,
    retain_last: int,
    now_ms: int,
) -> tuple[int, ...]:
    """Ids that go, oldest first, when Iceberg expires with ``older_than_ms`` and ``retain_last`` at ``now_ms``.

    A branch keeps its newest snapshots by count or age, by its own settings where it has them; a tag keeps its
    snapshot; a ref past its maximum age no longer protects anything; what no ref reaches goes by age alone.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    kept = [ref for ref in refs if _keeps_ref(ref, by_id, properties, now_ms)]
    retained = {ref.snapshot_id for ref in kept}
    referenced: set[int] = set()
    for ref in kept:
        if ref.type != "branch":
            referenced.add(ref.snapshot_id)
            continue
        referenced.update(s.snapshot_id for s in _ancestors(ref.snapshot_id, by_id))
        cutoff_ms = older_than_ms if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
        at_least = retain_last if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        retained.update(_branch_snapshots(ref.snapshot_id, by_id, cutoff_ms, at_least))
    retained.update(
        s.snapshot_id for s in snapshots if s.snapshot_id not in referenced and s.timestamp_ms >= older_than_ms
    )
    gone = [s for s in snapshots if s.snapshot_id not in retained]
    return tuple(s.snapshot_id for s in sorted(gone, key=lambda s: (s.timestamp_ms, s.snapshot_id)))


def _keeps_ref(ref: RefInfo, by_id: Mapping[int, SnapshotInfo], properties: Mapping[str, str], now_ms: int) -> bool:
    if ref.name == "main":
        return True
    head = by_id.get(ref.snapshot_id)
    if head is None:
        return False
    max_age_ms = ref.max_ref_age_ms
    if max_age_ms is None:
        max_age_ms = int(properties.get(MAX_REF_AGE_PROPERTY, 2**63 - 1))
    return now_ms - head.timestamp_ms <= max_age_ms


def _branch_snapshots(head: int, by_id: Mapping[int, SnapshotInfo], cutoff_ms: int, at_least: int) -> set[int]:
    kept: set[int] = set()
    for snapshot in _ancestors(head, by_id):
        if len(kept) >= at_least and snapshot.timestamp_ms < cutoff_ms:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _ancestors(head: int | None, by_id: Mapping[int, SnapshotInfo]) -> Iterator[SnapshotInfo]:
    while head is not None and (snapshot := by_id.get(head)) is not None:
        yield snapshot
        head = snapshot.parent_id

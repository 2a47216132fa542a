"""The judged state of a table, from its metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.health.encoding import Judgement, dump_judgement, load_judgement
from airflow_iceberg_compaction.health.errors import HealthError, StoreError
from airflow_iceberg_compaction.health.manifests import Manifest, list_manifests
from airflow_iceberg_compaction.health.model import MetadataHealth, RefInfo, SnapshotInfo, TableHealth
from airflow_iceberg_compaction.health.partitions import Totals
from airflow_iceberg_compaction.health.reader import SummaryReader
from airflow_iceberg_compaction.health.specs import (
    leading_sort_column,
    partition_field_ids,
    resolve_specs,
    unpartitioned_spec_ids,
)
from airflow_iceberg_compaction.health.summary import Measure, SnapshotFact

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.policy.model import TablePolicy

RUN_ID_STAMP = "iceberg-compaction.run-id"
NEWEST_FORMAT = 3
DEFAULT_TARGET_BYTES = 512 * 1024 * 1024
DEFAULT_MANIFEST_BYTES = 8 * 1024 * 1024
MAX_FILE_SIZE_RATIO = 1.8  # Iceberg's planner splits files above this multiple of the target

MAX_PARTITIONS_REMEMBERED = 50_000  # of one snapshot; beyond, manifests one by one are quick enough

Progress = Callable[[int, int], None]


def assess(
    table: Table,
    policy: TablePolicy,
    *,
    catalog_name: str,
    table_name: str,
    now_ms: int,
    cache: ManifestCache | None = None,
    progress: Progress | None = None,
    branch: str = "main",
) -> TableHealth:
    """Judges every partition of ``branch`` exactly, without opening a data file.

    What cannot be judged comes back as ``cannot_judge`` (the whole table) or ``unjudged`` (some specs), with the
    reason. A store that cannot be reached is no judgement: `StoreError`. ``progress`` is called with manifests done and
    manifests in all.
    """
    metadata = table.metadata
    snapshot = table.snapshot_by_name(branch)
    facts = _facts(metadata, snapshot) | {"catalog": catalog_name, "table": table_name, "judged_at_ms": now_ms}
    facts["metadata"] = MetadataHealth(snapshots=len(metadata.snapshots), metadata_json_bytes=_metadata_bytes(table))
    if metadata.format_version > NEWEST_FORMAT:
        reason = (
            f"format version {metadata.format_version} is newer than {NEWEST_FORMAT}, the newest this release reads"
        )
        return TableHealth(**facts, stage=0, cannot_judge=reason)
    specs, unjudged = resolve_specs(metadata)
    facts |= {"specs": specs, "unjudged": unjudged}
    if snapshot is None:
        missing = None if branch == "main" else f"the table has no branch {branch!r}"
        return TableHealth(**facts, stage=0, cannot_judge=missing)
    measure = measure_of(metadata, policy)
    name = f"{metadata.table_uuid}/{snapshot.snapshot_id}"
    judgement = _recall(cache, name, measure)
    stage = 1 if judgement is None else 0
    if judgement is None:
        try:
            judgement = judge(table, snapshot, measure, cache=cache, progress=progress)
        except StoreError:
            raise
        except HealthError as error:
            return TableHealth(**facts, cannot_judge=str(error))
        if cache is not None and len(judgement.partitions) <= MAX_PARTITIONS_REMEMBERED:
            cache.put({name: dump_judgement(judgement)}, measure.table_key())
    facts["metadata"] = replace(
        judgement.metadata,
        # These change without a new snapshot.
        snapshots=facts["metadata"].snapshots,
        metadata_json_bytes=facts["metadata"].metadata_json_bytes,
        target_manifest_bytes=_number(metadata, "commit.manifest.target-size-bytes", DEFAULT_MANIFEST_BYTES),
    )
    return TableHealth(
        **facts,
        stage=stage,
        partitions=judgement.partitions,
        global_equality_delete_files=judgement.global_equality_delete_files,
        clustering_debt=judgement.clustering_debt,
        manifests_read=judgement.manifests_read,
        manifests_cached=judgement.manifests_cached,
    )


def judge(
    table: Table,
    snapshot: Snapshot,
    measure: Measure,
    *,
    cache: ManifestCache | None = None,
    progress: Progress | None = None,
) -> Judgement:
    """Counts every live file of ``snapshot``; raises `HealthError`."""
    manifests = list_manifests(table.io, snapshot)
    if any(manifest.spec_id not in measure.spec_fields for manifest in manifests):
        raise HealthError(
            "a manifest has a partition spec that the table's metadata does not know; restore the metadata"
        )
    # Which deletes lost their data file is told by paths.
    measure = replace(measure, with_paths=any(manifest.holds_deletes and manifest.is_live for manifest in manifests))
    specs, _ = resolve_specs(table.metadata)
    totals = Totals(unpartitioned_spec_ids(specs))
    # Data first: what a delete applies to is known only after all of it.
    ordered = sorted((m for m in manifests if m.is_live), key=lambda manifest: manifest.holds_deletes)
    with SummaryReader(table.io, measure, snapshot_facts(table.metadata), cache, progress or _silent) as reader:
        for manifest, summary in reader.summaries(ordered):
            if manifest.holds_deletes:
                totals.add_deletes(manifest.spec_id, summary)
            else:
                totals.add_data(manifest.spec_id, summary)
    return Judgement(
        partitions=tuple(totals.partitions()),
        metadata=_metadata_health(table.metadata, manifests),
        global_equality_delete_files=totals.global_equality_files,
        clustering_debt=totals.clustering_debt(),
        manifests_read=reader.read,
        manifests_cached=reader.cached,
    )


def _recall(cache: ManifestCache | None, name: str, measure: Measure) -> Judgement | None:
    """Stage 0: a snapshot never changes, so neither does what was found out about it."""
    if cache is None:
        return None
    value = cache.get([name], measure.table_key()).get(name)
    return None if value is None else load_judgement(value)


def _silent(done: int, total: int) -> None:
    """No progress bar."""


def measure_of(metadata: TableMetadata, policy: TablePolicy) -> Measure:
    """What to count in this table under this policy."""
    target = policy.rewrite.target_file_size or _number(metadata, "write.target-file-size-bytes", DEFAULT_TARGET_BYTES)
    order = leading_sort_column(metadata, policy.rewrite.sort_order)
    return Measure(
        small_below_bytes=policy.thresholds.small_file_size,
        oversized_above_bytes=int(target * MAX_FILE_SIZE_RATIO),
        spec_fields=partition_field_ids(metadata),
        order_column=None if order is None else order[0],
        order_type="" if order is None else order[1],
    )


def _number(metadata: TableMetadata, key: str, default: int) -> int:
    """A table property that should be a number; anybody may have written anything there."""
    try:
        return int(metadata.properties.get(key, default))
    except ValueError:
        return default


def snapshot_facts(metadata: TableMetadata) -> Mapping[int, SnapshotFact]:
    return {
        snapshot.snapshot_id: SnapshotFact(
            timestamp_ms=snapshot.timestamp_ms,
            is_rewrite=_operation(snapshot) == "replace" or _is_ours(snapshot),
            is_ours=_is_ours(snapshot),
        )
        for snapshot in metadata.snapshots
    }


def _facts(metadata: TableMetadata, snapshot: Snapshot | None) -> dict[str, Any]:
    """What metadata.json says without any further file."""
    return {
        "table_uuid": str(metadata.table_uuid),
        "location": metadata.location,
        "format_version": metadata.format_version,
        "snapshot_id": None if snapshot is None else snapshot.snapshot_id,
        "current_spec_id": metadata.default_spec_id,
        "snapshots": tuple(_snapshot_info(s) for s in metadata.snapshots),
        "refs": tuple(
            RefInfo(
                name=name,
                type=str(ref.snapshot_ref_type.value),
                snapshot_id=ref.snapshot_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in metadata.refs.items()
        ),
        "properties": dict(metadata.properties),
        "has_sort_order": bool(metadata.sort_order().fields),
    }


def _snapshot_info(snapshot: Snapshot) -> SnapshotInfo:
    return SnapshotInfo(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        operation=_operation(snapshot),
        summary={} if snapshot.summary is None else dict(snapshot.summary.additional_properties),
    )


def _operation(snapshot: Snapshot) -> str:
    return "" if snapshot.summary is None else str(snapshot.summary.operation.value)


def _is_ours(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and RUN_ID_STAMP in snapshot.summary.additional_properties


def _metadata_health(metadata: TableMetadata, manifests: tuple[Manifest, ...]) -> MetadataHealth:
    by_spec: dict[int, tuple[int, int]] = {}
    for manifest in manifests:
        count, size = by_spec.get(manifest.spec_id, (0, 0))
        by_spec[manifest.spec_id] = (count + 1, size + manifest.length)
    return MetadataHealth(
        snapshots=len(metadata.snapshots),
        data_manifests=sum(not manifest.holds_deletes for manifest in manifests),
        delete_manifests=sum(manifest.holds_deletes for manifest in manifests),
        manifest_bytes=sum(manifest.length for manifest in manifests),
        manifests_by_spec=by_spec,
    )


def _metadata_bytes(table: Table) -> int | None:
    """The size of metadata.json, where the store tells without reading it."""
    try:
        return len(table.io.new_input(table.metadata_location))
    except Exception:
        return None  # a number for people; never a reason to fail

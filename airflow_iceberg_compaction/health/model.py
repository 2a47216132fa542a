"""What health measures, as values. Standard library only, so that `plan` can read it without PyIceberg."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Raw partition tuple as Iceberg stores it: a day is an int since 1970, a bucket an int, NaN a float NaN.
PartitionTuple = tuple[Any, ...]

# The only NaN that ever appears in a partition tuple: tuples compare their items by identity first, so keys with NaN
# find each other only if it is one object.
NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class PartitionField:
    """One field of a partition spec, resolved against the current schema."""

    name: str
    transform: str  # as Iceberg writes it: identity, bucket[16], truncate[4], year, month, day, hour, void
    source_name: str | None  # current full name of the source column; None when it was dropped
    source_type: str  # Iceberg type string: long, timestamptz, decimal(10,2) ...; "" when dropped
    result_type: str


@dataclass(frozen=True, kw_only=True)
class Spec:
    spec_id: int
    fields: tuple[PartitionField, ...]

    @property
    def is_partitioned(self) -> bool:
        return any(f.transform != "void" for f in self.fields)


@dataclass(frozen=True, kw_only=True)
class PartitionHealth:
    """Exact counts of one partition of one spec in the judged snapshot."""

    spec_id: int
    partition: PartitionTuple
    data_files: int = 0
    data_bytes: int = 0
    rows: int = 0
    small_files: int = 0  # size < policy.thresholds.small_file_size
    small_bytes: int = 0
    oversized_files: int = 0  # size > 1.8 x target, Iceberg's default
    size_histogram: dict[int, int] = field(default_factory=dict)  # floor(log2(bytes)) -> data files
    position_delete_files: int = 0  # v2 position-delete files, both scopes
    file_scoped_position_delete_files: int = 0
    equality_delete_files: int = 0
    deletion_vectors: int = 0
    delete_bytes: int = 0
    position_delete_rows: int = 0  # rows in position deletes and DVs
    equality_delete_rows: int = 0
    applied_delete_files: int = 0  # those that apply to a live data file, by sequence number and by the file they name
    dangling_delete_files: int = 0
    newest_file_ms: int | None = None  # commit time of the snapshot that added the newest data file; None if expired
    last_compaction_ms: int | None = None  # by our own stamps in the snapshot log

    @property
    def delete_files(self) -> int:
        return self.position_delete_files + self.equality_delete_files + self.deletion_vectors


@dataclass(frozen=True, kw_only=True, slots=True)  # there may be millions
class DataFileDetail:
    """One live data file of a candidate partition with the deletes Iceberg would attach to it."""

    path: str
    size_bytes: int
    rows: int
    sequence_number: int
    attached_delete_files: int  # of any kind, by Iceberg's DeleteFileIndex rules
    file_scoped_delete_rows: int  # rows in DVs and file-scoped position deletes attached to it


@dataclass(frozen=True, kw_only=True)
class PartitionDetail:
    spec_id: int
    partition: PartitionTuple
    files: tuple[DataFileDetail, ...]


@dataclass(frozen=True, kw_only=True)
class SnapshotInfo:
    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    summary: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RefInfo:
    name: str
    type: str  # branch | tag
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, kw_only=True)
class MetadataHealth:
    """Debt of the metadata itself: it calls for expiry or manifest rewriting, never for a rewrite of data."""

    snapshots: int = 0
    data_manifests: int = 0
    delete_manifests: int = 0
    manifest_bytes: int = 0
    manifests_by_spec: dict[int, tuple[int, int]] = field(default_factory=dict)  # spec id -> (count, bytes)
    target_manifest_bytes: int = 8 * 1024 * 1024
    metadata_json_bytes: int | None = None

    @property
    def manifests(self) -> int:
        return self.data_manifests + self.delete_manifests

    @property
    def ideal_manifests(self) -> int:
        """How few manifests of the target size could hold the same entries; a manifest has one spec."""
        return sum(-(-size // self.target_manifest_bytes) for _, size in self.manifests_by_spec.values())


@dataclass(frozen=True, kw_only=True)
class TableHealth:
    """The judged state of one branch of one table. ``cannot_judge`` is never the same as healthy."""

    catalog: str
    table: str
    table_uuid: str
    location: str
    format_version: int
    snapshot_id: int | None  # None: no snapshot yet
    current_spec_id: int
    judged_at_ms: int
    cannot_judge: str | None = None  # why, when the table cannot be judged as a whole
    unjudged: tuple[tuple[int, str], ...] = ()  # (spec id, why): partitions of these specs are refused
    specs: tuple[Spec, ...] = ()
    partitions: tuple[PartitionHealth, ...] = ()
    metadata: MetadataHealth = field(default_factory=MetadataHealth)
    snapshots: tuple[SnapshotInfo, ...] = ()
    refs: tuple[RefInfo, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    has_sort_order: bool = False
    # Equality deletes of an unpartitioned spec that apply to files of other specs. Before 1.12, Iceberg's removal of
    # dangling deletes looked at their own spec only and dropped them, which brought deleted rows back.
    global_equality_delete_files: int = 0
    clustering_debt: float | None = None  # share of files whose sort-key range overlaps others'; None when unordered
    stage: int = 1  # how far the assessment had to look: 0 summary, 1 manifests
    manifests_read: int = 0
    manifests_cached: int = 0

    def spec(self, spec_id: int) -> Spec:
        return next(spec for spec in self.specs if spec.spec_id == spec_id)

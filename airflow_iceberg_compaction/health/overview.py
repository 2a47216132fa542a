"""A table's health in a few numbers, with its sickest partitions first. Pure, standard library only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_iceberg_compaction.documents import OptimizationType
from airflow_iceberg_compaction.health.model import PartitionHealth, TableHealth
from airflow_iceberg_compaction.health.score import fragment_ratio, optimization_type, score
from airflow_iceberg_compaction.health.values import human_partition

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import TablePolicy

Verdict = Literal["cannot_judge", "sick", "debt", "healthy", "empty"]
PARTITION_NUMBERS = (
    "data_files", "data_bytes", "rows", "small_files", "small_bytes", "oversized_files", "size_histogram",
    "position_delete_files", "file_scoped_position_delete_files", "equality_delete_files", "deletion_vectors",
    "delete_bytes", "position_delete_rows", "equality_delete_rows", "applied_delete_files", "dangling_delete_files",
    "newest_file_ms", "last_compaction_ms",
)  # fmt: skip
WORST_FIRST: tuple[Verdict, ...] = ("cannot_judge", "sick", "debt", "healthy", "empty")


@dataclass(frozen=True, kw_only=True)
class RankedPartition:
    health: PartitionHealth
    score: float
    type: OptimizationType


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What to say about one table. ``partitions`` holds all of them, sick before healthy, highest score first."""

    health: TableHealth
    verdict: Verdict
    reason: str
    partitions: tuple[RankedPartition, ...]

    @property
    def score(self) -> float:
        """That of the worst partition: an average would hide it."""
        return max((partition.score for partition in self.partitions), default=0.0)

    @property
    def sick(self) -> int:
        return sum(partition.type != "none" for partition in self.partitions)

    def total(self, name: str) -> int:
        """The sum of a count over all partitions."""
        return sum(getattr(partition.health, name) for partition in self.partitions)

    @property
    def size_histogram(self) -> dict[int, int]:
        return merge_histograms(partition.health.size_histogram for partition in self.partitions)


def overview(health: TableHealth, policy: TablePolicy, now_ms: int) -> Overview:
    """Judges ``health`` by the policy's thresholds."""
    partitions = tuple(
        sorted(
            (
                RankedPartition(
                    health=partition,
                    score=score(partition, policy, now_ms),
                    type=optimization_type(partition, policy, now_ms=now_ms),
                )
                for partition in health.partitions
            ),
            key=lambda partition: (partition.type == "none", -partition.score),
        )
    )
    verdict, reason = _verdict(health, policy, partitions)
    return Overview(health=health, verdict=verdict, reason=reason, partitions=partitions)


def worst_first(overviews: Iterable[Overview]) -> list[Overview]:
    """What cannot be judged comes first: nobody knows how bad it is."""
    return sorted(overviews, key=lambda o: (WORST_FIRST.index(o.verdict), -o.score, o.health.table))


def _verdict(health: TableHealth, policy: TablePolicy, partitions: tuple[RankedPartition, ...]) -> tuple[Verdict, str]:
    if health.cannot_judge is not None:
        return "cannot_judge", health.cannot_judge
    live_specs = {partition.health.spec_id for partition in partitions}
    if unjudged := [f"spec {spec_id}: {why}" for spec_id, why in health.unjudged if spec_id in live_specs]:
        return "cannot_judge", "; ".join(unjudged)
    if health.snapshot_id is None:
        return "empty", "no snapshot yet"
    kinds = Counter(partition.type for partition in partitions if partition.type != "none")
    if kinds:
        return "sick", ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    debts = _debts(health, policy, partitions)
    if debts:
        return "debt", ", ".join(debts)
    return ("healthy", "") if partitions else ("empty", "no files")


def _debts(health: TableHealth, policy: TablePolicy, partitions: tuple[RankedPartition, ...]) -> list[str]:
    """What costs readers or storage but calls for no rewrite of data."""
    debts = []
    dangling = sum(partition.health.dangling_delete_files for partition in partitions)
    if dangling:
        debts.append(f"{dangling} dangling deletes")
    metadata, settings = health.metadata, policy.manifests
    if (
        metadata.manifests >= settings.min_manifests
        and metadata.manifests > settings.max_ratio * metadata.ideal_manifests
    ):
        debts.append(f"{metadata.manifests} manifests where {metadata.ideal_manifests} would do")
    return debts


def merge_histograms(histograms: Iterable[dict[int, int]]) -> dict[int, int]:
    merged: Counter[int] = Counter()
    for histogram in histograms:
        merged.update(histogram)
    return dict(sorted(merged.items()))


def to_dict(found: Overview, limit: int | None) -> dict[str, Any]:
    """Plain JSON; at most ``limit`` partitions, the worst ones."""
    health, metadata = found.health, found.health.metadata
    names = (
        "data_files", "data_bytes", "rows", "small_files", "small_bytes", "oversized_files", "delete_files",
        "applied_delete_files", "dangling_delete_files",
    )  # fmt: skip
    return {
        "catalog": health.catalog,
        "table": health.table,
        "verdict": found.verdict,
        "reason": found.reason,
        "score": round(found.score, 4),
        "format_version": health.format_version,
        "snapshot_id": health.snapshot_id,
        "judged_at_ms": health.judged_at_ms,
        "partitions_total": len(found.partitions),
        "partitions_sick": found.sick,
        **{name: found.total(name) for name in names},
        "size_histogram": found.size_histogram,
        "clustering_debt": health.clustering_debt,
        "metadata": {
            "snapshots": metadata.snapshots,
            "manifests": metadata.manifests,
            "delete_manifests": metadata.delete_manifests,
            "ideal_manifests": metadata.ideal_manifests,
            "average_manifest_bytes": metadata.manifest_bytes // metadata.manifests if metadata.manifests else 0,
            "metadata_json_bytes": metadata.metadata_json_bytes,
            "refs": [ref.name for ref in health.refs],
        },
        "stage": health.stage,
        "manifests_read": health.manifests_read,
        "manifests_cached": health.manifests_cached,
        "partitions": [_partition_dict(health, partition) for partition in found.partitions[:limit]],
    }


def _partition_dict(health: TableHealth, ranked: RankedPartition) -> dict[str, Any]:
    partition = ranked.health
    return {
        "spec_id": partition.spec_id,
        "partition": human_partition(health.spec(partition.spec_id), partition.partition),
        "type": ranked.type,
        "score": round(ranked.score, 4),
        "fragment_ratio": round(fragment_ratio(partition), 4),
        **{name: getattr(partition, name) for name in PARTITION_NUMBERS},
    }

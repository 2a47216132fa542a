"""The table properties that steer writers, as Iceberg 1.12 knows them."""

from __future__ import annotations

KNOWN = frozenset(
    {
        "write.format.default", "write.delete.format.default",
        "write.target-file-size-bytes", "write.delete.target-file-size-bytes",
        "write.distribution-mode", "write.delete.distribution-mode", "write.update.distribution-mode",
        "write.merge.distribution-mode", "write.delete.granularity",
        "write.delete.mode", "write.update.mode", "write.merge.mode",
        "write.delete.isolation-level", "write.update.isolation-level", "write.merge.isolation-level",
        "write.upsert.enabled", "write.wap.enabled", "write.summary.partition-limit",
        "write.spark.fanout.enabled", "write.spark.accept-any-schema", "write.spark.auto-schema-evolution.enabled",
        "write.spark.advisory-partition-size-bytes",
        "write.parquet.row-group-size-bytes", "write.delete.parquet.row-group-size-bytes",
        "write.parquet.page-size-bytes", "write.delete.parquet.page-size-bytes",
        "write.parquet.page-version", "write.delete.parquet.page-version",
        "write.parquet.page-row-limit", "write.delete.parquet.page-row-limit",
        "write.parquet.dict-size-bytes", "write.delete.parquet.dict-size-bytes",
        "write.parquet.compression-codec", "write.delete.parquet.compression-codec",
        "write.parquet.compression-level", "write.delete.parquet.compression-level",
        "write.parquet.row-group-check-min-record-count", "write.delete.parquet.row-group-check-min-record-count",
        "write.parquet.row-group-check-max-record-count", "write.delete.parquet.row-group-check-max-record-count",
        "write.parquet.row-group-size-track-uncompressed", "write.parquet.shred-variants",
        "write.parquet.variant-inference-buffer-size", "write.parquet.bloom-filter-max-bytes",
        "write.parquet.bloom-filter-adaptive-enabled",
        "write.avro.compression-codec", "write.delete.avro.compression-codec",
        "write.avro.compression-level", "write.delete.avro.compression-level",
        "write.orc.stripe-size-bytes", "write.delete.orc.stripe-size-bytes",
        "write.orc.block-size-bytes", "write.delete.orc.block-size-bytes",
        "write.orc.vectorized.batch-size", "write.delete.orc.vectorized.batch-size",
        "write.orc.compression-codec", "write.delete.orc.compression-codec",
        "write.orc.compression-strategy", "write.delete.orc.compression-strategy",
        "write.orc.bloom.filter.columns", "write.orc.bloom.filter.fpp",
        "write.object-storage.enabled", "write.object-storage.partitioned-paths",
        "write.manifest.compression-codec", "write.manifest.compression-level",
        "write.metadata.compression-codec", "write.metadata.previous-versions-max",
        "write.metadata.delete-after-commit.enabled", "write.metadata.metrics.default",
        "write.metadata.metrics.max-inferred-column-defaults",
        "commit.retry.num-retries", "commit.retry.min-wait-ms", "commit.retry.max-wait-ms",
        "commit.retry.total-timeout-ms", "commit.status-check.num-retries", "commit.status-check.min-wait-ms",
        "commit.status-check.max-wait-ms", "commit.status-check.total-timeout-ms",
        "commit.manifest.target-size-bytes", "commit.manifest.min-count-to-merge", "commit.manifest-merge.enabled",
    }
)  # fmt: skip
# Followed by a column's name.
KNOWN_PREFIXES = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
    "write.parquet.dict-encoding-enabled.column.",
)
# Known to Iceberg, refused here: they move files away from the table's location, where orphan cleanup looks, or load code.
MOVES_FILES = frozenset(
    {
        "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path",
        "write.location-provider.impl",
    }
)  # fmt: skip


def is_known(key: str) -> bool:
    return key in KNOWN or any(key.startswith(prefix) and len(key) > len(prefix) for prefix in KNOWN_PREFIXES)


def is_size(key: str) -> bool:
    """Whether the value is a number of bytes, which the policy may write as ``256MB``."""
    return key.endswith("-bytes")

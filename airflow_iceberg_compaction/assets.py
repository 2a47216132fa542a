"""Names of the assets that stand for a table and for its maintenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Report


def table_uri(catalog: str, table: str) -> str:
    namespace, _, name = table.rpartition(".")
    return f"iceberg://{catalog}/{namespace}/{name}"


def maintenance_asset(catalog: str, table: str) -> Asset:
    """The asset that gets one event per maintenance run.

    It is not the table's own asset: otherwise everything scheduled on the table would run again after each compaction,
    which changes no row.
    """
    return Asset(
        name=f"iceberg/{catalog}.{table}/maintenance",
        uri=f"{table_uri(catalog, table)}/maintenance",
        group="iceberg-maintenance",
    )


def event_extra(report: Report, report_uri: str) -> dict[str, Any]:
    """What a run's asset event carries."""
    return {
        "table": report.table,
        "run_id": report.run_id,
        "outcome": report.outcome,
        "reason": report.reason,
        "dry_run": report.dry_run,
        "certificate": report.certificate.verdict if report.certificate.laws else None,
        "stats": report.stats.to_dict(),
        "report_uri": report_uri,
    }

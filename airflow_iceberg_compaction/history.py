"""Runs as rows of an Iceberg table in the same catalog, and what was learned from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.documents import Report

_LEARN_FROM = 10  # most recent rewrites that teach a table's throughput


@dataclass(frozen=True)
class Learned:
    throughput: float | None = None  # bytes per second that recent rewrites of the table achieved
    last_orphan_sweep_ms: int | None = None  # when its orphans were last looked for to the end


class History:
    """The history table of one catalog. It is made on the first append; until then there is no history.

    :param catalog: PyIceberg catalog.
    :param identifier: ``namespace.name`` of the history table.
    """

    def __init__(self, catalog: Catalog, identifier: str) -> None:
        self.catalog = catalog
        self.identifier = identifier

    def append(self, report: Report) -> None:
        """Add one row for ``report``."""
        import pyarrow as pa

        schema = _arrow_schema()
        namespace = self.identifier.rpartition(".")[0]
        self.catalog.create_namespace_if_not_exists(namespace)
        # Many Dags end at the same minute and append one row each.
        retries = {"commit.retry.num-retries": "20", "commit.retry.max-wait-ms": "5000"}
        table = self.catalog.create_table_if_not_exists(self.identifier, schema, properties=retries)
        table.append(pa.Table.from_pylist([_row(report)], schema=schema))

    def rows(
        self, table: str | None = None, limit: int | None = None, columns: tuple[str, ...] = ("*",)
    ) -> list[dict[str, Any]]:
        """Runs of ``table`` (of all tables when None), newest first."""
        history = self._load()
        if history is None:
            return []
        from pyiceberg.expressions import AlwaysTrue, EqualTo

        row_filter = EqualTo(term="table_name", value=table) if table else AlwaysTrue()
        found: list[dict[str, Any]] = (
            history.scan(row_filter=row_filter, selected_fields=columns).to_arrow().to_pylist()
        )
        found.sort(key=lambda row: row["finished_at"], reverse=True)
        return found[:limit]

    def learned(self, table: str) -> Learned:
        """What past runs of ``table`` teach, from one look at the history."""
        rows = self.rows(table, columns=("finished_at", "rewritten_bytes", "rewrite_ms", "orphans_swept"))
        rewrites = [row for row in rows if row["rewritten_bytes"] and row["rewrite_ms"]][:_LEARN_FROM]
        milliseconds = sum(row["rewrite_ms"] for row in rewrites)
        swept = [row["finished_at"] for row in rows if row["orphans_swept"]]
        return Learned(
            throughput=sum(row["rewritten_bytes"] for row in rewrites) / milliseconds * 1000 if milliseconds else None,
            last_orphan_sweep_ms=round(max(swept).timestamp() * 1000) if swept else None,
        )

    def _load(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self.catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


def _row(report: Report) -> dict[str, Any]:
    stats = report.stats
    sections = {section.section: section for section in report.sections}
    rewritten = sections["rewrite"].outcome == "succeeded"
    return {
        "run_id": report.run_id,
        "table_name": report.table,
        "finished_at": datetime.fromtimestamp(report.created_at_ms / 1000, tz=UTC),
        "outcome": report.outcome,
        "reason": report.reason,
        "certificate": report.certificate.verdict if report.certificate.laws else None,
        "files_before": stats.files_before,
        "files_after": stats.files_after,
        "bytes_before": stats.bytes_before,
        "bytes_after": stats.bytes_after,
        "delete_files_before": stats.delete_files_before,
        "delete_files_after": stats.delete_files_after,
        "rewritten_bytes": report.predicted["input_bytes"] if rewritten else 0,
        "rewrite_ms": stats.compaction_time_ms if rewritten else 0,
        "snapshots_expired": stats.snapshots_expired,
        "orphans_swept": sections["orphans"].outcome == "succeeded",
        "orphan_files_found": stats.orphan_files_found,
        "orphan_files_deleted": stats.orphan_files_deleted,
        "cost": float(report.cost.get("predicted", 0.0)),
        "currency": report.cost.get("currency", ""),
        "report": report.to_json(),
    }


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    text = ("run_id", "table_name", "outcome", "reason", "certificate", "currency", "report")
    kinds = {
        **dict.fromkeys(text, pa.string()),
        "finished_at": pa.timestamp("us", tz="UTC"),
        "orphans_swept": pa.bool_(),
        "cost": pa.float64(),
    }
    names = (
        "run_id", "table_name", "finished_at", "outcome", "reason", "certificate", "files_before", "files_after",
        "bytes_before", "bytes_after", "delete_files_before", "delete_files_after", "rewritten_bytes", "rewrite_ms",
        "snapshots_expired", "orphans_swept", "orphan_files_found", "orphan_files_deleted", "cost", "currency",
        "report",
    )  # fmt: skip
    return pa.schema([(name, kinds.get(name, pa.int64())) for name in names])

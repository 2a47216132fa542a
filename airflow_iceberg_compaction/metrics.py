"""Numbers and spans for whoever watches Airflow itself. Names are listed in docs/airflow.md.

A metrics backend that is down must not fail a maintenance run, and does not: Airflow's client swallows its errors.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction._compat import stats

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Plan, Report, Section

PREFIX = "iceberg_compaction"


def record_health(plan: Plan) -> None:
    """Gauges of the judged table."""
    client, tags = stats(), _tags(plan.catalog, plan.table)
    before = plan.before
    for name, value in (
        ("data_files", before.data_files),
        ("data_bytes", before.data_bytes),
        ("small_files", before.small_files),
        ("delete_files", before.delete_files),
        ("snapshots", before.snapshots),
        ("manifests", before.manifests),
    ):
        client.gauge(f"{PREFIX}.health.{name}", value, tags=tags)
    client.gauge(f"{PREFIX}.plan.input_files", plan.rewrite.input_files, tags=tags)
    client.gauge(f"{PREFIX}.plan.input_bytes", plan.rewrite.input_bytes, tags=tags)
    client.gauge(f"{PREFIX}.plan.cost", plan.cost.total, tags=tags)


def record_section(plan: Plan, section: Section, *, spark_started: bool) -> None:
    """Count a section that needed Spark, or one that was spared it."""
    name = "started" if spark_started else "avoided"
    stats().incr(f"{PREFIX}.spark.{name}", tags={**_tags(plan.catalog, plan.table), "section": section})


def record_report(report: Report) -> None:
    """Outcome, before and after, duration and cost of a run."""
    client, tags = stats(), _tags(report.catalog, report.table)
    client.incr(f"{PREFIX}.run", tags={**tags, "outcome": report.outcome})
    if report.outcome in ("failed", "conflicted"):
        client.incr(f"{PREFIX}.run.{report.outcome}", tags=tags)
    if not any(section.spark_started for section in report.sections):
        client.incr(f"{PREFIX}.run.without_spark", tags=tags)
    numbers = report.stats
    for name in (
        "files_before", "files_after", "bytes_before", "bytes_after", "delete_files_before", "delete_files_after",
        "snapshots_expired", "orphan_files_found", "orphan_files_deleted", "small_files_remaining",
    ):  # fmt: skip
        client.gauge(f"{PREFIX}.run.{name}", getattr(numbers, name), tags=tags)
    client.gauge(f"{PREFIX}.run.cost", float(report.cost.get("predicted", 0.0)), tags=tags)
    client.gauge(f"{PREFIX}.run.finished_at", report.created_at_ms / 1000, tags=tags)
    for section in report.sections:
        if section.spark_started:
            client.timing(f"{PREFIX}.section.duration", section.duration_ms, tags={**tags, "section": section.section})


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """An OpenTelemetry span under the task's own; free of cost when tracing is off."""
    from opentelemetry import trace

    return trace.get_tracer(__name__).start_as_current_span(
        f"{PREFIX}.{name}", attributes={f"{PREFIX}.{key}": value for key, value in attributes.items()}
    )


def _tags(catalog: str, table: str) -> dict[str, str]:
    return {"catalog": catalog, "table": table}

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import report_examples

from airflow_iceberg_compaction import metrics
from airflow_iceberg_compaction.report.summary import build_report

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def recorded(monkeypatch):
    found: dict[str, tuple[float, dict[str, str]]] = {}

    def record(name, value=1, tags=None):
        found[name] = (value, tags or {})

    monkeypatch.setattr(metrics, "stats", lambda: SimpleNamespace(incr=lambda n, tags: record(n, 1, tags), gauge=record,
                                                                  timing=record))  # fmt: skip
    return found


def test_a_run_is_counted_with_its_numbers_before_and_after(recorded):
    metrics.record_report(build_report(report_examples.a_plan(), (), None, 5000))
    assert recorded["iceberg_compaction.run"][1]["outcome"]
    assert recorded["iceberg_compaction.run.files_before"] == (100, {"catalog": "lake", "table": "shop.events"})
    assert recorded["iceberg_compaction.run.finished_at"][0] == 5.0
    assert "iceberg_compaction.run.without_spark" in recorded


def test_health_is_a_set_of_gauges_per_table(recorded):
    metrics.record_health(report_examples.a_plan())
    assert recorded["iceberg_compaction.health.small_files"] == (60, {"catalog": "lake", "table": "shop.events"})


def test_every_metric_is_documented(recorded):
    plan = report_examples.a_plan()
    metrics.record_health(plan)
    metrics.record_section(plan, "rewrite", spark_started=True)
    metrics.record_section(plan, "expire", spark_started=False)
    metrics.record_report(build_report(plan, (), None, 0, {"rewrite": "why"}))
    documented = set(re.findall(r"`(iceberg_compaction\.[a-z_.]+)`", (DOCS / "airflow.md").read_text()))
    assert set(recorded) <= documented


def test_a_span_needs_no_tracing_backend():
    with metrics.span("assess", table="shop.events"):
        pass


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_dashboard_and_alerts_only_use_metrics_that_exist(name):
    documented = set(re.findall(r"`(iceberg_compaction\.[a-z_.]+)`", (DOCS / "airflow.md").read_text()))
    known = {f"airflow_{metric.replace('.', '_')}" for metric in documented}
    used = set(re.findall(r"airflow_iceberg_compaction_[a-z_]+", (DOCS / "observability" / name).read_text()))
    assert used
    assert {metric.removesuffix("_total") for metric in used} <= known

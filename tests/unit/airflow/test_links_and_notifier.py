from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import report_examples

from airflow_iceberg_compaction.factory import build_dag
from airflow_iceberg_compaction.links.maintenance import MaintenanceReportLink, SparkApplicationLink
from airflow_iceberg_compaction.notifications.report import IcebergReportNotifier
from airflow_iceberg_compaction.report.summary import build_report

KEY = SimpleNamespace(dag_id="iceberg_maintenance.lake.shop.events", run_id="manual__2026-01-01T00:00:00+00:00")


@pytest.fixture
def rewrite(policy):
    return build_dag(policy, "shop.events").get_task("rewrite_data_files")


def test_the_spark_link_leads_to_the_history_server(rewrite, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ICEBERG_COMPACTION__SPARK_HISTORY_URL", "https://history/")
    rewrite.application_id = "app-1"
    assert SparkApplicationLink().get_link(rewrite, ti_key=KEY) == "https://history/history/app-1/jobs/"


def test_without_a_history_server_or_an_application_there_is_no_link(rewrite):
    assert SparkApplicationLink().get_link(rewrite, ti_key=KEY) == ""


def test_the_report_link_leads_to_the_report_task(rewrite):
    link = MaintenanceReportLink().get_link(rewrite, ti_key=KEY)
    assert link.endswith(
        "/dags/iceberg_maintenance.lake.shop.events/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/report"
    )


def test_the_report_link_may_lead_to_a_page_server(rewrite, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ICEBERG_COMPACTION__REPORT_URL", "https://reports/{dag_id}/{run_id}/report.html")
    link = MaintenanceReportLink().get_link(rewrite, ti_key=KEY)
    assert link.startswith("https://reports/iceberg_maintenance.lake.shop.events/manual__")


@pytest.fixture
def slack():
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            body = json.dumps({"ok": True, "ts": "1.2"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args): ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api/", received
    server.shutdown()


def test_a_notifier_posts_the_report_of_a_run_from_any_dag(slack, tmp_path, monkeypatch):
    address, received = slack
    report = build_report(report_examples.a_plan(), (), None, 0)
    (tmp_path / "report.json").write_text(report.to_json())
    connection = {"conn_type": "slack", "password": "xoxb-token", "extra": {"base_url": address}}
    monkeypatch.setenv("AIRFLOW_CONN_SLACK_DEFAULT", json.dumps(connection))
    notifier = IcebergReportNotifier(channel="#data", report_uri="{{ where }}")
    notifier({"where": str(tmp_path / "report.json"), "dag": None})
    (message,) = received
    assert "shop.events" in message

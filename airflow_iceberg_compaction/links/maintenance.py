"""Buttons on a task: the Spark application, and the report of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from airflow_iceberg_compaction.runs import CONFIG_SECTION, REPORT_TASK_ID, path_segment, sibling

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class SparkApplicationLink(BaseOperatorLink):
    """The application in Spark's history server, where ``[iceberg_compaction] spark_history_url`` names one."""

    name = "Spark application"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        # Links are computed by the worker when the task ends, so the operator that ran still holds its application.
        application_id: str | None = getattr(operator, "application_id", None)
        server: str | None = conf.get(CONFIG_SECTION, "spark_history_url", fallback=None)
        return f"{server.rstrip('/')}/history/{quote(application_id)}/jobs/" if server and application_id else ""


class MaintenanceReportLink(BaseOperatorLink):
    """The report: at ``[iceberg_compaction] report_url`` where that is set, else in the log of the report task."""

    name = "Maintenance report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        address: str | None = conf.get(CONFIG_SECTION, "report_url", fallback=None)
        dag_id, run_id = quote(ti_key.dag_id, safe=""), quote(ti_key.run_id, safe="")
        if address:  # the folders of the run's documents, where report.html lies
            return address.format(dag_id=path_segment(ti_key.dag_id), run_id=path_segment(ti_key.run_id))
        base = conf.get("api", "base_url", fallback="") or ""
        task = quote(sibling(operator.task_id, REPORT_TASK_ID), safe="")
        return f"{base.rstrip('/')}/dags/{dag_id}/runs/{run_id}/tasks/{task}"

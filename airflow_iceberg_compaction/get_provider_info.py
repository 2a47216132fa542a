"""What Airflow's providers manager learns about this package. Read before Airflow is configured: no imports here."""

from __future__ import annotations

from typing import Any

_PACKAGE = "airflow_iceberg_compaction"
_INTEGRATION = "Iceberg maintenance"


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, valid against Airflow's ``provider_info.schema.json``.

    The connection type is the existing ``iceberg``; its form comes with apache-airflow-providers-apache-iceberg.
    """
    return {
        "package-name": "airflow-iceberg-compaction",
        "name": "Iceberg Compaction",
        "description": "Keeps Apache Iceberg tables healthy: rewrites only sick partitions and audits new files before "
        "they are published.",
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://iceberg.apache.org/docs/latest/maintenance/",
                "tags": ["software"],
            }
        ],
        "hooks": _modules("hooks.iceberg_maintenance"),
        "sensors": _modules("sensors.iceberg_health"),
        "operators": _modules("operators.maintenance", "operators.report", "operators.broken_policy"),
        "triggers": _modules("triggers.iceberg_health", "triggers.iceberg_snapshot"),
        "notifications": [f"{_PACKAGE}.notifications.report.IcebergReportNotifier"],
        "extra-links": [
            f"{_PACKAGE}.links.maintenance.SparkApplicationLink",
            f"{_PACKAGE}.links.maintenance.MaintenanceReportLink",
        ],
        "config": {
            "iceberg_compaction": {
                "description": "Deployment-wide settings of Iceberg maintenance; everything about tables is in the policy.",
                "options": {
                    "documents": _option(
                        "Folder URI of plans, results and reports for policies that name none. Workers and Spark drivers "
                        "must reach it. Empty: a folder under AIRFLOW_HOME.",
                        "s3://bucket/iceberg-maintenance",
                    ),
                    "spark_history_url": _option(
                        "Address of Spark's history server; Spark tasks link to their application there.",
                        "https://spark-history.example.com",
                    ),
                    "report_url": _option(
                        "Address of a run's report page, with {dag_id} and {run_id}. Empty: the report task in Airflow.",
                        "https://reports.example.com/{dag_id}/{run_id}/report.html",
                    ),
                },
            }
        },
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}]


def _option(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": "string", "example": example, "default": ""}

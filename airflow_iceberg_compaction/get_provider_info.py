"""What Airflow's providers manager learns about this package. Read before Airflow is configured: no imports here."""

from __future__ import annotations

from typing import Any

_PACKAGE = "airflow_iceberg_compaction"
_INTEGRATION = "Iceberg maintenance"


def get_provider_info() -> dict[str, Any]:
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
        "operators": _modules("operators.maintenance", "operators.report"),
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": [f"{_PACKAGE}.{name}" for name in names]}]

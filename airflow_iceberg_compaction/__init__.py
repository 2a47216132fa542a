"""Iceberg table maintenance for Airflow. Importing this package imports nothing heavy; names are loaded when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_iceberg_compaction.assets import maintenance_asset as maintenance_asset
    from airflow_iceberg_compaction.factory import build_dag as build_dag
    from airflow_iceberg_compaction.factory import build_dags as build_dags
    from airflow_iceberg_compaction.factory import iceberg_maintenance as iceberg_maintenance
    from airflow_iceberg_compaction.hooks.iceberg_maintenance import IcebergMaintenanceHook as IcebergMaintenanceHook
    from airflow_iceberg_compaction.notifications.report import IcebergReportNotifier as IcebergReportNotifier
    from airflow_iceberg_compaction.operators.maintenance import (
        IcebergMaintenanceOperator as IcebergMaintenanceOperator,
    )
    from airflow_iceberg_compaction.operators.report import IcebergReportOperator as IcebergReportOperator
    from airflow_iceberg_compaction.policy.loader import load_policy as load_policy
    from airflow_iceberg_compaction.schedules import watched_asset as watched_asset
    from airflow_iceberg_compaction.sensors.iceberg_health import IcebergHealthSensor as IcebergHealthSensor
    from airflow_iceberg_compaction.triggers.iceberg_snapshot import IcebergCommitTrigger as IcebergCommitTrigger

_MODULES = {
    "IcebergCommitTrigger": "triggers.iceberg_snapshot",
    "IcebergHealthSensor": "sensors.iceberg_health",
    "IcebergMaintenanceHook": "hooks.iceberg_maintenance",
    "IcebergMaintenanceOperator": "operators.maintenance",
    "IcebergReportNotifier": "notifications.report",
    "IcebergReportOperator": "operators.report",
    "build_dag": "factory",
    "build_dags": "factory",
    "iceberg_maintenance": "factory",
    "load_policy": "policy.loader",
    "maintenance_asset": "assets",
    "watched_asset": "schedules",
}

__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__

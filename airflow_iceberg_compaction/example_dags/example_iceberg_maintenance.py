"""One maintenance Dag per table of a policy file: the form most deployments need."""

from __future__ import annotations

from pathlib import Path

from airflow_iceberg_compaction.factory import build_dags

globals().update(build_dags(Path(__file__).with_name("example_iceberg_maintenance.yaml"), on_error="isolate"))

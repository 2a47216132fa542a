"""One maintenance Dag per table of the policy file beside this one. Airflow finds the Dags in globals()."""

from __future__ import annotations

from pathlib import Path

from airflow_iceberg_compaction.factory import build_dags

globals().update(build_dags(Path(__file__).with_name("iceberg_maintenance.yaml")))

"""Maintenance as a part of your own Dag: after the load, compact what it left behind."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param, task

from airflow_iceberg_compaction import iceberg_maintenance

with DAG(
    dag_id="example_load_and_compact",
    schedule=None,
    catchup=False,
    params={"force": Param(False, type="boolean", description="Rewrite partitions even if they are healthy.")},
    tags={"example", "iceberg-maintenance"},
) as dag:

    @task
    def load() -> None:
        """Stands for whatever writes to shop.events."""

    load() >> iceberg_maintenance(
        Path(__file__).with_name("example_iceberg_maintenance.yaml"),
        "shop.events",
        group_id="maintain_events",
        parameters={"force": "{{ params.force }}"},
    )

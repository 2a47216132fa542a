"""A Dag that runs after each maintenance of a table and reads the numbers of the run."""

from __future__ import annotations

from airflow.sdk import DAG, task

from airflow_iceberg_compaction import maintenance_asset

EVENTS = maintenance_asset("lake", "shop.events")

with DAG(
    dag_id="example_after_maintenance",
    schedule=[EVENTS],
    catchup=False,
    tags={"example", "iceberg-maintenance"},
) as dag:

    @task(inlets=[EVENTS])
    def read_numbers(*, inlet_events=None) -> dict[str, int]:  # type: ignore[no-untyped-def]
        """The extra of the newest event is the summary of the run's report."""
        stats = inlet_events[EVENTS][-1].extra["stats"]
        return {"files_removed": stats["files_removed"], "bytes_saved": stats["bytes_saved"]}

    read_numbers()

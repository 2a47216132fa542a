"""The whole line through a real DagBag, ``dag.test()``, the real spark-submit, Spark and Iceberg."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

POLICY = """\
thresholds: {min_small_files: 5}
orphan_files: {mode: off}
"""
SPARK = "spark: {share_app: true, conf: {spark.driver.memory: 1g, spark.sql.shuffle.partitions: '2'}}"


def test_a_sick_table_becomes_healthy_and_the_next_run_starts_no_spark(deployment, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    deployment.write_table(files=12)
    dag_id = deployment.write_dag(POLICY, SPARK)

    first = deployment.run(dag_id)

    assert first.state == "success"
    assert first.states["rewrite_data_files"] == "success"
    assert first.report["outcome"] == "succeeded"
    assert first.report["certificate"]["verdict"] == "proven"
    assert first.report["spark_starts"] == 1
    stats = first.report["stats"]
    assert (stats["files_before"], stats["files_after"]) == (12, 1)
    assert sorted(deployment.catalog().load_table("shop.events").scan().to_arrow()["id"].to_pylist()) == list(range(12))

    second = deployment.run(dag_id)

    assert second.state == "success"
    assert second.states["assess"] == second.states["rewrite_data_files"] == "skipped"
    assert (second.report["outcome"], second.report["spark_starts"]) == ("nothing_to_do", 0)

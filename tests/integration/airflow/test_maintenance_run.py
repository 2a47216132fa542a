from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

SPARK_TASKS = ("rewrite_data_files", "rewrite_deletes", "rewrite_manifests", "expire_snapshots", "remove_orphan_files")


def test_a_sick_table_goes_through_every_planned_section(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag())
    assert run.state == "success"
    assert run.states == {
        "assess": "success",
        "rewrite_data_files": "success",
        "rewrite_deletes": "skipped",
        "rewrite_manifests": "success",
        "expire_snapshots": "skipped",
        "remove_orphan_files": "success",
        "report": "success",
    }
    assert run.report["outcome"] == "succeeded"
    assert run.xcoms["rewrite_data_files", "return_value"]["certificate"] == "proven"
    assert run.xcoms["assess", "health"]["sections"] == ["rewrite", "manifests", "orphans"]
    assert run.xcoms["assess", "plan_uri"].endswith("/plan.json")


def test_every_run_is_one_event_on_the_maintenance_asset_with_its_numbers(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag())
    (event,) = run.events
    assert event["outcome"] == "succeeded"
    assert event["stats"]["files_before"] == 25


def test_a_healthy_table_is_skipped_without_spark_and_still_reported(deployment):
    deployment.write_table(files=1)
    run = deployment.run(deployment.write_dag("orphan_files: {mode: off}"))
    assert run.state == "success"
    assert run.states == {"assess": "skipped", "report": "success", **dict.fromkeys(SPARK_TASKS, "skipped")}
    assert run.report["outcome"] == "nothing_to_do"
    assert run.xcoms["assess", "plan_uri"]
    assert deployment.calls() == []


def test_a_dry_run_ends_after_the_plan(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag(), {"dry_run": True})
    assert run.state == "success"
    assert run.states["assess"] == "skipped"
    assert run.report["dry_run"]
    assert run.report["predicted"]["input_files"] == 25
    assert deployment.calls() == []


def test_credentials_are_in_no_argument_and_their_file_is_private_and_gone(deployment):
    deployment.write_table()
    deployment.run(deployment.write_dag())
    first = deployment.calls()[0]
    assert str(deployment.database) not in " ".join(first["argv"])
    assert str(deployment.database) in first["properties"]
    assert first["mode"] == "0o600"
    assert not Path(first["properties_file"]).exists()


def test_one_shared_application_carries_out_every_section(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag(header="spark: {share_app: true}"))
    assert run.state == "success"
    (call,) = deployment.calls()
    assert [call["argv"][i + 1] for i, a in enumerate(call["argv"]) if a == "--section"] == [
        "rewrite",
        "manifests",
        "orphans",
    ]
    assert run.states["remove_orphan_files"] == "success"
    assert {s["section"] for s in run.report["sections"] if s["outcome"] == "succeeded"} == {
        "rewrite",
        "manifests",
        "orphans",
    }


def test_a_task_group_maintains_a_table_inside_somebody_elses_dag(deployment):
    deployment.write_table()
    deployment.write_dag()
    (deployment.dags / f"{deployment.name}.py").write_text(f"""
from pathlib import Path
from airflow.sdk import DAG
from airflow_iceberg_compaction import iceberg_maintenance
with DAG(dag_id="mine_{deployment.name}", schedule=None) as dag:
    iceberg_maintenance(Path(__file__).with_name("{deployment.name}.yaml"), "shop.events", group_id="events",
                        parameters={{"dry_run": "true"}})
""")
    run = deployment.run(f"mine_{deployment.name}")
    assert run.state == "success"
    assert run.states["events.assess"] == "skipped"
    assert run.xcoms["events.report", "return_value"]["dry_run"]


FAULTS = {
    # what goes wrong: (Dag run, tasks that end in a way of their own, outcome of the report, its reason)
    "fail": ({"rewrite_data_files": "failed"}, "failed", "no space left on device"),
    "crash": ({"rewrite_data_files": "failed"}, "failed", "OutOfMemoryError|before it left a result"),
    "no result": ({"rewrite_data_files": "failed"}, "failed", "left no readable result"),
    "truncated": ({"rewrite_data_files": "failed"}, "failed", "left no readable result"),
    "conflict": ({"rewrite_data_files": "failed"}, "conflicted", "another writer won"),
    "violated": ({"rewrite_data_files": "failed"}, "failed", "violated"),
    "no certificate": ({"rewrite_data_files": "failed"}, "failed", "no certificate"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_job_fails_the_run_and_the_report_says_why(deployment, fault):
    own_states, outcome, reason = FAULTS[fault]
    deployment.write_table()
    deployment.spark_will(fault)
    run = deployment.run(deployment.write_dag())
    assert run.state == "failed"
    expected = {"assess": "success", "report": "success", **dict.fromkeys(SPARK_TASKS, "upstream_failed"), **own_states}
    assert run.states == expected
    assert run.report["outcome"] == outcome
    assert re.search(reason, run.report["reason"]), run.report["reason"]


def test_a_catalog_that_does_not_answer_fails_the_gate_and_never_skips_it(deployment):
    deployment.monkeypatch.setenv(
        "AIRFLOW_CONN_ICEBERG_TEST", json.dumps({"conn_type": "iceberg", "host": "http://127.0.0.1:9"})
    )
    run = deployment.run(deployment.write_dag())
    assert run.state == "failed"
    assert run.states["assess"] == "failed"
    assert run.states["report"] == "success"
    assert run.report["outcome"] == "failed"
    assert "does not answer" in run.report["reason"]


def test_a_catalog_that_dies_after_the_rewrite_leaves_a_report_from_what_was_committed(deployment):
    deployment.write_table()
    deployment.spark_will("ok, then the catalog is gone")
    run = deployment.run(deployment.write_dag("manifests: {enabled: false}\norphan_files: {mode: off}"))
    assert run.state == "success"
    assert run.report["stats"]["files_after"] == 1


def test_a_later_section_that_fails_does_not_undo_what_the_report_says_of_earlier_ones(deployment):
    deployment.write_table()
    deployment.spark_will("fail in manifests")
    run = deployment.run(deployment.write_dag())
    assert run.state == "failed"
    assert run.states["rewrite_data_files"] == "success"
    assert run.states["rewrite_manifests"] == "failed"
    by_section = {section["section"]: section["outcome"] for section in run.report["sections"]}
    assert by_section["rewrite"] == "succeeded"
    assert by_section["manifests"] == "failed"


def test_a_missing_spark_connection_is_not_taken_for_yarn(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag(header="spark: {conn_id: nowhere}"))
    assert run.state == "failed"
    assert "'nowhere' does not exist" in run.report["reason"]
    assert deployment.calls() == []


def test_a_parameter_nobody_knows_is_refused_by_name_in_the_gate(deployment):
    deployment.write_table()
    run = deployment.run(deployment.write_dag(), {"forse": True})
    assert run.states["assess"] == "failed"
    assert "forse" in run.report["reason"]
    assert deployment.calls() == []


def test_a_parameter_of_the_wrong_type_is_refused_by_name_at_the_trigger(deployment):
    deployment.write_table()
    with pytest.raises(Exception, match="max_files"):
        deployment.run(deployment.write_dag(), {"max_files": "many"})


def test_a_waiting_sensor_sleeps_in_the_triggerer_until_a_writer_leaves_work(deployment):
    deployment.write_table(files=1)
    deployment.write_dag("orphan_files: {mode: off}")
    (deployment.dags / f"{deployment.name}.py").write_text(f"""
from pathlib import Path
from airflow.sdk import DAG
from airflow_iceberg_compaction import IcebergHealthSensor, load_policy
policy = load_policy(Path(__file__).with_name("{deployment.name}.yaml"))
with DAG(dag_id="waiting_{deployment.name}", schedule=None) as dag:
    IcebergHealthSensor(task_id="assess", policy=policy, table="shop.events", on_healthy="wait", deferrable=True,
                        poke_interval=0.1, timeout=300)
""")

    def write_after_the_first_look() -> None:
        while not list(deployment.folder.glob("documents/**/plan.json")):
            time.sleep(0.02)
        deployment.write_table()

    writer = threading.Thread(target=write_after_the_first_look, daemon=True)
    writer.start()
    run = deployment.run(f"waiting_{deployment.name}")
    writer.join()
    assert run.states == {"assess": "success"}
    assert "rewrite" in run.xcoms["assess", "return_value"]["sections"]

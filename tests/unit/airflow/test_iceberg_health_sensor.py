from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, TaskDeferred
from airflow.sdk import DAG

from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError
from airflow_iceberg_compaction.policy.model import Policy, Rewrite, TablePolicy, Thresholds
from airflow_iceberg_compaction.sensors.iceberg_health import IcebergHealthSensor


class Instance(SimpleNamespace):
    """The part of a task instance that a task talks to."""

    def __init__(self) -> None:
        super().__init__(dag_id="d", run_id="r", task_id="assess", pushed={})

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = json.loads(json.dumps(value))


@pytest.fixture
def context():
    return {"ti": Instance(), "params": {}}


@pytest.fixture
def policy(tmp_path, lake, namespace, monkeypatch) -> Policy:
    extra = json.dumps(dict(lake.properties))
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg", "extra": extra}))
    return Policy.model_validate(
        {
            "path": "p.yaml",
            "catalog": {"name": lake.name, "conn_id": "iceberg_default"},
            "documents": str(tmp_path),
            "history": None,
            "tables": [
                TablePolicy(
                    name=f"{namespace}.t",
                    thresholds=Thresholds(min_small_files=5),
                    rewrite=Rewrite(min_quiet="0s"),
                    orphan_files={"mode": "off"},
                )
            ],
        }
    )


@pytest.fixture
def table(catalog, namespace):
    return catalog.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))


def a_sensor(policy, **arguments) -> IcebergHealthSensor:
    with DAG(dag_id="d", schedule=None):
        return IcebergHealthSensor(task_id="assess", policy=policy, table=policy.tables[0].name, **arguments)


def append(table, files):
    for number in range(files):
        table.append(pa.table({"id": [number]}))


def test_a_healthy_table_is_skipped_after_its_plan_and_summary_were_pushed(policy, table, context):
    append(table, 1)
    with pytest.raises(AirflowSkipException):
        a_sensor(policy).execute(context)
    assert context["ti"].pushed["health"]["outcome"] == "healthy"
    assert context["ti"].pushed["plan_uri"].endswith("/d/r/plan.json")


def test_a_sick_table_lets_the_run_go_on(policy, table, context):
    append(table, 6)
    summary = a_sensor(policy).execute(context)
    assert "rewrite" in summary["sections"]
    assert summary["before"]["data_files"] == 6


def test_waiting_defers_only_after_looking_once_and_wakes_for_the_next_head(policy, table, context):
    append(table, 1)
    sensor = a_sensor(policy, on_healthy="wait", deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(context)
    assert deferred.value.trigger.judged_snapshot_id == table.current_snapshot().snapshot_id
    assert deferred.value.timeout.total_seconds() <= 12 * 3600
    append(table, 5)
    resume = getattr(sensor, deferred.value.method_name)
    summary = resume(context, event={"status": "changed", "deadline": deferred.value.trigger.deadline})
    assert "rewrite" in summary["sections"]


def test_a_head_that_is_still_healthy_is_waited_on_until_the_same_deadline(policy, table, context):
    append(table, 1)
    sensor = a_sensor(policy, on_healthy="wait", deferrable=True)
    deadline = time.time() + 100
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute_complete(context, event={"status": "recheck", "deadline": deadline})
    assert deferred.value.trigger.deadline == deadline
    with pytest.raises(AirflowSensorTimeout):
        sensor.execute_complete(context, event={"status": "recheck", "deadline": time.time() - 1})


def test_a_sick_table_never_visits_the_triggerer(policy, table, context):
    append(table, 6)
    assert a_sensor(policy, on_healthy="wait", deferrable=True).execute(context)


def test_a_catalog_that_does_not_answer_fails_and_its_reason_is_left_for_the_report(policy, context, monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg", "host": "http://127.0.0.1:9"})
    )
    with pytest.raises(RuntimeError, match="does not answer"):
        a_sensor(policy).execute(context)
    assert "does not answer" in context["ti"].pushed["error"]


def test_a_wrong_parameter_fails_at_once_with_the_name_of_its_field(policy, table, context):
    with pytest.raises(MaintenanceConfigurationError, match="max_files"):
        a_sensor(policy, parameters={"max_files": "many"}).execute(context)


def test_what_the_form_shows_of_the_policy_is_no_wish_of_the_run(policy, table, context):
    append(table, 6)
    context["params"] = {"expire_snapshots": True, "force": False}
    a_sensor(policy).execute(context)
    from airflow_iceberg_compaction import store

    plan = json.loads(store.read_text(context["ti"].pushed["plan_uri"]))
    assert plan["parameters"] == {}


@pytest.mark.parametrize("flag", ["soft_fail", "never_fail", "silent_fail"])
def test_switches_that_would_hide_a_dead_catalog_are_refused(policy, flag):
    with pytest.raises(ValueError, match="healthy table"):
        a_sensor(policy, **{flag: True})

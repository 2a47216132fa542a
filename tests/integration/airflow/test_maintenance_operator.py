from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import report_examples
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_iceberg_compaction.documents import RunResult
from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError, MaintenanceFailedError
from airflow_iceberg_compaction.operators.maintenance import IcebergMaintenanceOperator
from airflow_iceberg_compaction.policy.model import Policy

pytestmark = pytest.mark.airflow


class Instance(SimpleNamespace):
    """The part of a task instance that a task talks to."""

    def __init__(self) -> None:
        super().__init__(dag_id="d", run_id="r", task_id="rewrite_data_files", pushed={})

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return None


class TaskState(dict[str, Any]):
    """Airflow's task state store, which outlives tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)


@pytest.fixture
def context():
    return {"ti": Instance(), "task_state_store": TaskState()}


@pytest.fixture
def plan_uri(tmp_path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(report_examples.a_plan().to_json())
    return str(path)


@pytest.fixture
def operator(deployment, plan_uri):
    def make(**arguments: Any) -> IcebergMaintenanceOperator:
        policy = Policy.model_validate(
            {
                "path": "p.yaml",
                "catalog": {"name": "lake", "conn_id": "iceberg_test"},
                "documents": str(deployment.folder / "documents"),
                "tables": [{"name": "shop.events"}],
            }
        )
        with DAG(dag_id="d", schedule=None):
            return IcebergMaintenanceOperator(
                task_id="rewrite_data_files", policy=policy, section="rewrite", plan_uri=plan_uri, **arguments
            )

    return make


def test_killing_the_task_kills_the_application_and_removes_the_credentials(operator, deployment, context):
    deployment.spark_will("hang")
    task = operator()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            task.execute(context)
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    deadline = time.monotonic() + 60
    while not deployment.calls() and time.monotonic() < deadline:
        worker.join(0.05)
    application = task._hook._submit_sp
    assert application.poll() is None
    task.on_kill()
    worker.join(30)
    assert application.poll() is not None
    assert isinstance(failures[0], MaintenanceFailedError)
    assert not Path(deployment.calls()[0]["properties_file"]).exists()


def test_killing_a_task_that_has_submitted_nothing_looks_up_nothing(operator, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    operator().on_kill()


def test_a_try_that_reconnects_reads_the_result_of_the_application_it_reconnected_to(
    operator, context, monkeypatch, tmp_path
):
    earlier = tmp_path / "rewrite.earlier.result.json"
    result = RunResult(
        run_id="run-7",
        catalog="lake",
        table="shop.events",
        started_at_ms=1,
        finished_at_ms=2,
        application_id="app-of-the-first-try",
        steps=(report_examples.rewrite_step(),),
    )
    earlier.write_text(result.to_json())
    context["task_state_store"].update({"spark_job_id": "driver-1", "result_uri": str(earlier)})
    # The provider finds the driver of the first try still running, polls it to its end and submits nothing.
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: None)
    answer = operator().execute(context)
    assert answer["application_id"] == "app-of-the-first-try"
    assert context["ti"].pushed["result_uri"] == str(earlier)


def test_after_a_success_nothing_is_remembered_that_would_make_clearing_a_no_op(operator, context):
    state = context["task_state_store"]
    state["k8s_driver_status"] = "Succeeded"

    operator().execute(context)
    assert state == {}


def test_a_resubmission_forgets_the_result_of_the_driver_that_failed(operator, context, monkeypatch, tmp_path):
    context["task_state_store"].update({"spark_job_id": "driver-1", "result_uri": str(tmp_path / "old.json")})
    monkeypatch.setattr(SparkSubmitOperator, "submit_job", lambda self, context: self._hook.submit(self.application))

    def execute(self, context):
        self._hook = self._get_hook()
        self.submit_job(context)

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    answer = operator().execute(context)
    assert answer["application_id"] == "local-1"
    assert "old.json" not in context["ti"].pushed["result_uri"]


def test_a_local_documents_folder_is_refused_in_cluster_mode(operator, context, deployment):
    spark = {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": json.dumps({"deploy-mode": "cluster"})}
    deployment.monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    with pytest.raises(MaintenanceConfigurationError, match="documents"):
        operator().execute(context)
    assert deployment.calls() == []


def test_nothing_that_airflow_renders_or_stores_holds_a_secret(operator, context, deployment):
    connection = {"conn_type": "iceberg", "extra": json.dumps({**deployment.properties, "token": "tok-secret-1"})}
    deployment.monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_TEST", json.dumps(connection))
    task = operator()
    task.execute(context)
    rendered = {name: str(getattr(task, name)) for name in task.template_fields}
    assert "tok-secret-1" not in json.dumps(rendered)
    assert "tok-secret-1" not in json.dumps(context["ti"].pushed)
    assert "tok-secret-1" not in json.dumps(deployment.calls()[0]["argv"])
    assert "tok-secret-1" in deployment.calls()[0]["properties"]

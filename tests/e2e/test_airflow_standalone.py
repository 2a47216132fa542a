"""A whole Airflow: what people meet when they install the package, with real Spark below it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

SECRETS = ("pw-hunter2-secret", "tok-hunter2-secret")
EVENTS, USERS = "iceberg_maintenance.lake.shop.events", "iceberg_maintenance.lake.shop.users"
POLICY = """
version: 1
catalog: {{name: lake, conn_id: iceberg_default}}
documents: {folder}/documents
spark: {{driver_memory: 1g, conf: {{spark.sql.shuffle.partitions: "2"}}}}
defaults:
  thresholds: {{min_small_files: 5}}
  rewrite: {{min_quiet: 0s}}
  manifests: {{enabled: false}}
  orphan_files: {{mode: "off"}}
tables: [{{name: shop.events}}, {{name: shop.users}}]
"""
DAG_FILE = """
from datetime import timedelta
from pathlib import Path
from airflow_iceberg_compaction import build_dags
dags = build_dags(Path(__file__).with_name("iceberg_maintenance.yaml"))
for dag in dags.values():
    for task in dag.tasks:
        task.retry_delay = timedelta(seconds=1)
globals().update(dags)
"""


class Airflow:
    """A running ``airflow standalone`` and its REST API."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.log = folder / "standalone.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": self.address.rpartition(":")[2],
            "AIRFLOW__API__BASE_URL": self.address,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_ICEBERG_DEFAULT": json.dumps(
                {
                    "conn_type": "iceberg",
                    "login": "me",
                    "password": SECRETS[0],
                    "extra": {**catalog_properties(folder), "token": SECRETS[1]},
                }
            ),
        }

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            env=self.environment,
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.until(lambda: self.request("GET", "/api/v2/monitor/health") is not None, seconds=120)

    def stop(self) -> None:
        """End the whole process group: standalone leaves children behind when it is asked to end while they are busy."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
                time.sleep(1)

    def until(self, holds: Any, seconds: int = 240) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except (OSError, KeyError):
                pass
            time.sleep(1)
        raise AssertionError("waited in vain; end of Airflow's log:\n" + self.log.read_text()[-4000:])

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        with urllib.request.urlopen(f"{self.address}/auth/token", timeout=30) as answer:
            token = json.load(answer)["access_token"]
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def trigger(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> None:
        self.request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        body = {"logical_date": None, "dag_run_id": run_id, "conf": conf}
        self.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)

    def state(self, dag_id: str, run_id: str) -> str:
        return str(self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        found = self.request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: task for task in found}

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.request("GET", path)["value"]

    def finish(self, dag_id: str, run_id: str) -> str:
        self.until(lambda: self.state(dag_id, run_id) in ("success", "failed"))
        return self.state(dag_id, run_id)


def catalog_properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/warehouse"}


def write_small_files(folder: Path, table: str, files: int = 8) -> None:
    catalog = load_catalog("lake", **catalog_properties(folder))
    catalog.create_namespace_if_not_exists("shop")
    loaded = catalog.create_table_if_not_exists(table, pa.schema([("id", pa.int64())]))
    for number in range(files):
        loaded.append(pa.table({"id": [number]}))


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("standalone")
    (folder / "dags").mkdir()
    (folder / "dags" / "iceberg_maintenance.yaml").write_text(POLICY.format(folder=folder))
    (folder / "dags" / "iceberg_maintenance.py").write_text(DAG_FILE)
    for table in ("shop.events", "shop.users"):
        write_small_files(folder, table)
    found = Airflow(folder)
    try:
        found.start()
        found.until(lambda: found.request("GET", "/api/v2/dags")["total_entries"] == 2)
        yield found
    finally:
        found.stop()


def test_generated_dags_appear_without_an_import_error(airflow):
    assert airflow.request("GET", "/api/v2/importErrors")["total_entries"] == 0
    found = {dag["dag_id"]: dag for dag in airflow.request("GET", "/api/v2/dags")["dags"]}
    assert set(found) == {EVENTS, USERS}


def test_a_wrong_parameter_is_refused_at_the_trigger_by_the_name_of_its_field(airflow):
    with pytest.raises(urllib.error.HTTPError) as refused:
        airflow.trigger(EVENTS, "wrong", {"max_files": "many"})
    assert refused.value.code == 400
    assert "max_files" in refused.value.read().decode()


def test_an_ad_hoc_run_with_parameters_goes_through_and_clearing_a_task_runs_it_again(airflow):
    airflow.trigger(EVENTS, "adhoc", {"target_file_size_mb": 64, "expire_snapshots": False})
    assert airflow.finish(EVENTS, "adhoc") == "success"
    states = {name: task["state"] for name, task in airflow.tasks(EVENTS, "adhoc").items()}
    assert states["assess"] == states["rewrite_data_files"] == states["report"] == "success"
    assert states["expire_snapshots"] == "skipped"
    rewrite = airflow.xcom(EVENTS, "adhoc", "rewrite_data_files")
    assert rewrite["certificate"] == "proven"
    plan = json.loads(Path(airflow.xcom(EVENTS, "adhoc", "assess", "plan_uri")).read_text())
    assert plan["parameters"] == {"target_file_size_mb": 64, "expire_snapshots": False}
    assert airflow.xcom(EVENTS, "adhoc", "report")["stats"]["files_after"] == 1

    body = {"dry_run": False, "task_ids": ["rewrite_data_files"], "dag_run_id": "adhoc", "only_failed": False}
    airflow.request("POST", f"/api/v2/dags/{EVENTS}/clearTaskInstances", body)
    airflow.until(lambda: airflow.tasks(EVENTS, "adhoc")["rewrite_data_files"]["try_number"] == 2)
    assert airflow.finish(EVENTS, "adhoc") == "success"
    again = airflow.xcom(EVENTS, "adhoc", "rewrite_data_files")
    assert again["application_id"] != rewrite["application_id"]
    assert again["snapshots"] == rewrite["snapshots"], "the second application must find the commit of the first"


def test_a_killed_worker_leaves_a_run_that_its_next_try_completes(airflow):
    airflow.trigger(USERS, "killed", {})
    victim: list[int] = []

    def spark_runs() -> bool:
        victim[:] = submitting_processes(airflow.folder)
        return bool(victim)

    airflow.until(spark_runs)
    for pid in victim:
        os.kill(pid, signal.SIGKILL)
    assert airflow.finish(USERS, "killed") == "success"
    assert airflow.tasks(USERS, "killed")["rewrite_data_files"]["try_number"] == 2
    assert airflow.xcom(USERS, "killed", "report")["stats"]["files_after"] == 1


def submitting_processes(folder: Path) -> list[int]:
    """The task process that waits for a Spark application of this test, and its supervisor."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes().decode(errors="replace")
            if "org.apache.spark.deploy.SparkSubmit" in arguments and str(folder) in arguments:
                task = parent_of(int(process.name))
                return [task, parent_of(task)]
    return []


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


def test_secrets_of_the_connection_are_nowhere_to_be_read(airflow):
    for path in (p for p in airflow.folder.rglob("*") if p.is_file()):
        content = path.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content], path
    for dag_id, run_id in ((EVENTS, "adhoc"), (USERS, "killed")):
        for task_id in airflow.tasks(dag_id, run_id):
            base = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
            for page in (base, f"{base}/xcomEntries", f"{base}/logs/1", f"{base}/links"):
                text = json.dumps(airflow.request("GET", page))
                assert not [secret for secret in SECRETS if secret in text], page

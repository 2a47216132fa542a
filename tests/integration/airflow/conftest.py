from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import airflow_environment
import pyarrow as pa
import pytest

SUPPORT = Path(airflow_environment.__file__).parent


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """An empty metadata database in the test process's AIRFLOW_HOME."""
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True)
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()


@dataclass
class Run:
    """What became of a Dag run."""

    state: str
    states: dict[str, str]
    xcoms: dict[tuple[str, str], Any]
    report: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Deployment:
    """A policy, its Dag file, a table with small files, and a spark-submit that does what a test says."""

    folder: Path
    dags: Path
    calls_file: Path
    monkeypatch: pytest.MonkeyPatch
    number: int

    @property
    def name(self) -> str:
        return f"lake{self.number}"

    @property
    def database(self) -> Path:
        return self.folder / "catalog.db"

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.database}", "warehouse": f"file://{self.folder}/warehouse"}

    def catalog(self):
        from pyiceberg.catalog import load_catalog

        return load_catalog(self.name, **self.properties)

    def write_table(self, files: int = 25) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists("shop")
        table = catalog.create_table_if_not_exists("shop.events", pa.schema([("id", pa.int64())]))
        for number in range(files):
            table.append(pa.table({"id": [number]}))

    def write_dag(self, settings: str = "", header: str = "") -> str:
        """Write policy and Dag file; ``settings`` are lines of the table's policy. Returns the Dag id."""
        lines = [
            "version: 1",
            f"catalog: {{name: {self.name}, conn_id: iceberg_test}}",
            f"documents: {self.folder}/documents",
            "history: off",
            *([header] if header else []),
            "tables:",
            "  - name: shop.events",
            "    retries: 0",
            "    rewrite: {min_quiet: 0s}",
            *(f"    {line}" for line in settings.splitlines() if line),
        ]
        (self.dags / f"{self.name}.yaml").write_text("\n".join(lines) + "\n")
        (self.dags / f"{self.name}.py").write_text(
            "# airflow dag\nfrom pathlib import Path\nfrom airflow_iceberg_compaction.factory import build_dags\n"
            f"globals().update(build_dags(Path(__file__).with_name('{self.name}.yaml')))\n"
        )
        return f"iceberg_maintenance.{self.name}.shop.events"

    def spark_will(self, mode: str) -> None:
        self.monkeypatch.setenv("STAND_IN", mode)

    def calls(self) -> list[dict[str, Any]]:
        return (
            [json.loads(line) for line in self.calls_file.read_text().splitlines()] if self.calls_file.exists() else []
        )

    def run(self, dag_id: str, conf: dict[str, Any] | None = None) -> Run:
        """One run in this process, through the real scheduler rules and the real task runner."""
        try:
            from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
        except ImportError:  # before Airflow 3.2
            from airflow.models.dagbag import DagBag, sync_bag_to_db

        wanted = {"bundle_path": self.dags, "bundle_name": "dags-folder"}
        known = inspect.signature(DagBag.__init__).parameters
        bag = DagBag(str(self.dags / f"{self.name}.py"), **{k: v for k, v in wanted.items() if k in known})
        assert bag.import_errors == {}
        sync_bag_to_db(bag, "dags-folder", None)
        run = bag.dags[dag_id].test(run_conf=conf)
        return _outcome_of(run)


def _outcome_of(run: Any) -> Run:
    from airflow.models.asset import AssetEvent
    from airflow.models.xcom import XComModel
    from airflow.settings import Session
    from sqlalchemy import select

    with Session() as session:
        rows = session.scalars(select(XComModel).where(XComModel.run_id == run.run_id, XComModel.dag_id == run.dag_id))
        xcoms = {(row.task_id, row.key): XComModel.deserialize_value(row) for row in rows}
        events = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id))
        extras = [event.extra for event in events]
    report_uri = xcoms.get(("report", "report_uri"))
    return Run(
        state=str(run.state),
        states={instance.task_id: str(instance.state) for instance in run.get_task_instances()},
        xcoms=xcoms,
        report=json.loads(Path(report_uri).read_text()) if report_uri else {},
        events=extras,
    )


_numbers = iter(range(1, 1000))


@pytest.fixture
def deployment(airflow_database, tmp_path, monkeypatch) -> Deployment:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    submit = binaries / "spark-submit"
    submit.write_text(f'#!/bin/sh\nexec {sys.executable} {SUPPORT}/stand_in_spark_submit.py "$@"\n')
    submit.chmod(0o755)
    found = Deployment(tmp_path, airflow_environment.DAGS, tmp_path / "calls", monkeypatch, next(_numbers))
    connection = {"conn_type": "iceberg", "password": "not-to-be-seen", "extra": json.dumps(found.properties)}
    spark = {"conn_type": "spark", "host": "local[1]", "extra": json.dumps({"spark-binary": "spark-submit"})}
    for name, value in {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "STAND_IN": "ok",
        "STAND_IN_CALLS": str(found.calls_file),
        "STAND_IN_CATALOG": str(found.database),
        "AIRFLOW_CONN_ICEBERG_TEST": json.dumps(connection),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
    }.items():
        monkeypatch.setenv(name, value)
    # dag.test() waits a second whenever no task is ready.
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.02)))
    yield found
    for path in airflow_environment.DAGS.glob(f"{found.name}.*"):
        path.unlink()

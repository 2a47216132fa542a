"""An Airflow of the demo's own: its folder, its environment, its Dag file. The user's AIRFLOW_HOME is never touched."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.demo.tables import CATALOG, LOCAL_SPARK_CONF, TABLES, catalog_properties
from airflow_iceberg_compaction.documents import Report

if TYPE_CHECKING:
    from collections.abc import Callable

DAG_FILE = """\
from __future__ import annotations

from pathlib import Path

from airflow_iceberg_compaction.factory import build_dags

# Airflow looks for DAG objects among a Dag file's globals.
globals().update(build_dags(Path(__file__).parent / "iceberg_maintenance.yaml"))
"""

POLICY = """\
version: 1
catalog:
  name: {catalog}
  properties: {properties}
spark:
  conn_id: spark_default
  share_app: true  # one Spark application carries out every section of a run
  conf: {spark_conf}
documents: {documents}
profile: development
defaults:
  schedule: "0 2 * * *"
  thresholds: {{small_file_size: 4MB, min_small_files: 5, delete_files: 2}}
  rewrite: {{target_file_size: 16MB, max_files: 2000}}
  expire_snapshots: {{older_than: 1s, retain_last: 10}}
  orphan_files: {{mode: report, older_than: 3d}}
  report: {{slack: {{conn_id: slack_default, channel: "#data-ops", when: worked}}}}
tables:
  - name: maintenance_demo.event_stream
    probe: >-
      SELECT event_type, count(*), count(DISTINCT user_id) FROM {catalog}.maintenance_demo.event_stream
      GROUP BY event_type ORDER BY event_type
  - name: maintenance_demo.cdc_users
    probe: >-
      SELECT region, count(*), sum(version) FROM {catalog}.maintenance_demo.cdc_users GROUP BY region ORDER BY region
  - name: maintenance_demo.products
    orphan_files: {{mode: off}}
"""


class DemoAirflow:
    """Airflow on SQLite in ``folder``, driven through its command line."""

    def __init__(self, folder: Path, slack_url: str) -> None:
        self.folder = folder
        self.policy = folder / "dags" / "iceberg_maintenance.yaml"
        self.settings = {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_SLACK_DEFAULT": json.dumps(
                {"conn_type": "slack", "password": "xoxb-demo", "extra": {"base_url": slack_url}}
            ),
        }

    def prepare(self) -> None:
        """Write the Dag file and the policy, and make Airflow's database."""
        self.policy.parent.mkdir(parents=True)
        (self.policy.parent / "iceberg_maintenance.py").write_text(DAG_FILE)
        self.policy.write_text(
            POLICY.format(
                catalog=CATALOG,
                properties=json.dumps(catalog_properties(self.folder)),
                spark_conf=json.dumps(LOCAL_SPARK_CONF),
                documents=json.dumps(str(self.folder / "documents")),
            )
        )
        exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in self.settings.items())
        path = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n"
        (self.folder / "env.sh").write_text(exports + path)
        self.run("airflow", "db", "migrate", log="db-migrate")

    def dag_ids(self) -> list[str]:
        return [f"iceberg_maintenance.{CATALOG}.{table}" for table in TABLES]

    def run(self, *command: str, log: str, on_line: Callable[[str], None] = lambda _: None) -> int:
        """Run a command of this environment; everything it prints goes to ``logs/<log>.log``."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
        environment |= self.settings
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
        log_file = self.folder / "logs" / f"{log}.log"
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with (
            log_file.open("w", encoding="utf-8") as copy,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
            ) as process,
        ):
            for line in process.stdout or ():
                copy.write(line)
                on_line(line)
        return process.returncode

    def newest_report(self, dag_id: str) -> Report | None:
        """The report document of the Dag's last run."""
        found = sorted(
            (self.folder / "documents" / dag_id).glob("*/report.json"), key=lambda path: path.stat().st_mtime
        )
        return Report.from_json(found[-1].read_text(encoding="utf-8")) if found else None

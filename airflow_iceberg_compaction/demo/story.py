"""The demo's story, told as it happens."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table

from airflow_iceberg_compaction import cli
from airflow_iceberg_compaction.cli.common import UsageError, stdout
from airflow_iceberg_compaction.demo.airflow_home import DemoAirflow
from airflow_iceberg_compaction.demo.fingerprint import Fingerprint, fingerprint
from airflow_iceberg_compaction.demo.slack_stand_in import SlackStandIn
from airflow_iceberg_compaction.demo.tables import EVENT_STREAM, TABLES, catalog_config
from airflow_iceberg_compaction.environment import check_spark_environment
from airflow_iceberg_compaction.report.console import render_report
from airflow_iceberg_compaction.report.text import duration
from airflow_iceberg_compaction.submit import SubmitError, explain_start_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from airflow_iceberg_compaction.documents import Report

_T = TypeVar("_T")
_MARKER = ".iceberg-compaction-demo"
_UNTOUCHED = "event_ts < '2025-01-14T00:00:00+00:00'"  # the partition that arrived well sized


def tell(folder: Path) -> int:
    """Run the demo in ``folder``, which it empties first, and return 0 if every promise was kept."""
    check_spark_environment()
    folder = _fresh(folder)
    console = stdout()
    with SlackStandIn().running() as slack:
        return _Story(folder, console, slack).tell()


class _Story:
    def __init__(self, folder: Path, console: Console, slack: SlackStandIn) -> None:
        self.folder = folder
        self.console = console
        self.slack = slack
        self.airflow = DemoAirflow(folder, slack.base_url)
        self.broken: list[str] = []

    def tell(self) -> int:
        self._chapter("1. Three tables: a stream, a CDC feed, and one that is well")
        self._make_tables()
        before = self._fingerprints()
        untouched = self._untouched_files()
        self._bar("setting up Airflow in its own folder", self.airflow.prepare)

        self._chapter("2. Health, from metadata alone: no Spark, no data file is opened")
        cli.main(["health", "--policy", str(self.airflow.policy)])

        self._chapter("3. The plan: a reason for every partition")
        for table in TABLES:
            cli.main(["plan", table, "--policy", str(self.airflow.policy)])
            self.console.print()

        self._chapter("4. Airflow runs the generated Dags")
        for table, report in self._run_dags("first-run").items():
            self.console.print(Panel(render_report(report), title=table, title_align="left"))
        self._tell_slack()

        self._chapter("5. Airflow runs them again: nothing to do, so Spark never starts")
        self._second_run()

        self._chapter("6. No row was harmed")
        self._proof(before, untouched)
        self._goodbye()
        return 1 if self.broken else 0

    def _make_tables(self) -> None:
        command = [sys.executable, "-m", "airflow_iceberg_compaction.demo.tables", str(self.folder)]
        lines: list[str] = []
        with (
            _progress(self.console) as progress,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            ) as process,
        ):
            task = progress.add_task("making the tables", total=None)
            for line in process.stdout or ():
                lines.append(line)
                if match := re.match(r"progress (\d+)/(\d+) (.*)", line):
                    progress.update(task, completed=int(match[1]), total=int(match[2]), description=match[3])
        if process.returncode:
            log = self.folder / "logs" / "make-tables.log"
            log.parent.mkdir(exist_ok=True)
            log.write_text("".join(lines), encoding="utf-8")
            raise SubmitError(explain_start_failure(lines) or f"the demo's tables could not be made; {log} says why")

    def _run_dags(self, round_name: str) -> dict[str, Report]:
        reports = {}
        for table, dag_id in zip(TABLES, self.airflow.dag_ids(), strict=True):
            started = time.monotonic()
            code = self._airflow_test(dag_id, f"{round_name}-{table}")
            report = self.airflow.newest_report(dag_id)
            log = self.folder / "logs" / f"{round_name}-{table}.log"
            if code or report is None:
                self.broken.append(f"the Dag {dag_id} failed; {log} says why")
                self.console.print(f"[red]failed[/]  {dag_id}, see {log}")
                continue
            took = duration((time.monotonic() - started) * 1000)
            times = {0: "Spark not started", 1: "Spark started once"}
            spark = times.get(report.spark_starts, f"Spark started {report.spark_starts} times")
            self.console.print(f"airflow dags test {dag_id}: {report.outcome.replace('_', ' ')} in {took}, {spark}")
            reports[table] = report
        return reports

    def _airflow_test(self, dag_id: str, log: str) -> int:
        with _progress(self.console) as progress:
            task = progress.add_task(f"{dag_id}", total=None)

            def on_line(line: str) -> None:
                if match := re.search(r"progress (\w+ .*)|task_id=(\w+)", line):
                    progress.update(task, description=f"{dag_id}: {match[1] or match[2]}")

            return self.airflow.run("airflow", "dags", "test", dag_id, log=log, on_line=on_line)

    def _second_run(self) -> None:
        reports = self._run_dags("second-run")
        shown = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("table", "step", "Spark", "why"):
            shown.add_column(column, overflow="fold")
        for table, report in reports.items():
            for section in report.sections:
                started = "[red]started[/]" if section.spark_started else "not started"
                shown.add_row(table, section.section, started, escape(section.reason))
            if report.spark_starts:
                self.broken.append(f"the second run started Spark for {table}")
        self.console.print(shown)

    def _tell_slack(self) -> None:
        for message in self.slack.messages:
            texts = [block["text"]["text"] for block in message["blocks"] if block.get("text")]
            fields = [f["text"].replace("\n", ": ") for block in message["blocks"] for f in block.get("fields", [])]
            body = "\n".join([*texts, *fields]).replace("*", "")
            self.console.print(Panel(escape(body), title=f"Slack, {message['channel']}", title_align="left"))
        if not self.slack.messages:
            self.broken.append("no report reached Slack")

    def _fingerprints(self) -> dict[str, Fingerprint]:
        config = catalog_config(self.folder)
        catalog = config.load()
        return self._bar(
            "reading every row", lambda: {table: fingerprint(config.load_table(table, catalog)) for table in TABLES}
        )

    def _untouched_files(self) -> set[str]:
        table = catalog_config(self.folder).load_table(EVENT_STREAM)
        return {task.file.file_path for task in table.scan(row_filter=_UNTOUCHED).plan_files()}

    def _proof(self, before: dict[str, Fingerprint], untouched: set[str]) -> None:
        after = self._fingerprints()
        shown = Table(box=None, padding=(0, 2, 0, 0))
        for column in ("table", "before", "after", ""):
            shown.add_column(column)
        for table in TABLES:
            same = before[table] == after[table]
            shown.add_row(table, str(before[table]), str(after[table]), "equal" if same else "[red]DIFFERENT[/]")
            if not same:
                self.broken.append(f"the content of {table} changed")
        self.console.print(shown)
        if self._untouched_files() == untouched:
            self.console.print(
                f"the healthy partition of {EVENT_STREAM} still has its file: {Path(min(untouched)).name}"
            )
        else:
            self.broken.append(f"the healthy partition of {EVENT_STREAM} was rewritten")

    def _goodbye(self) -> None:
        for promise in self.broken:
            self.console.print(f"[red]broken promise:[/] {escape(promise)}")
        policy = self.airflow.policy
        binary = Path(sys.executable).parent / "iceberg-compaction"
        self.console.print(
            Rule("look further", align="left"),
            f"{binary} health --partitions --policy {policy}",
            f"{binary} plan {EVENT_STREAM} --policy {policy} --json",
            f"{binary} history --policy {policy}",
            f"Airflow UI on this demo:  . {self.folder}/env.sh && airflow standalone",
            f"    user and password: {self.folder}/airflow/simple_auth_manager_passwords.json.generated",
            sep="\n",
            soft_wrap=True,
        )

    def _chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Rule(title, align="left", style="bold"))

    def _bar(self, text: str, work: Callable[[], _T]) -> _T:
        with _progress(self.console) as progress:
            progress.add_task(text, total=None)
            return work()


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _fresh(folder: Path) -> Path:
    """An empty folder. Only a folder that a demo made is ever emptied."""
    folder = folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARKER).exists():
        raise UsageError(f"{folder} is not empty and no demo made it; give another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARKER).touch()
    return folder

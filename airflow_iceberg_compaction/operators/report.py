"""The end of every run: what was done, why, and what it cost, told to everyone who should know."""

from __future__ import annotations

import dataclasses
import io
import time
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_iceberg_compaction import metrics, runs, store
from airflow_iceberg_compaction.assets import event_extra, maintenance_asset
from airflow_iceberg_compaction.documents import DocumentError, Plan, Report, RunResult, Section, TableNumbers
from airflow_iceberg_compaction.links.maintenance import MaintenanceReportLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.policy.model import Policy, SlackReport, TablePolicy

_TELLS_ITSELF = ("failed", "conflicted", "refused")


class IcebergReportOperator(BaseOperator):
    """
    Gather the plan and the results of a run into one report, and publish it.

    Meant as a teardown: it runs whatever became of the tasks before it and never turns a failed run green. The report
    goes to the run's folder as JSON and as a page, to the log, to Slack where the policy says so, to the history
    table, and as the extra of one event on the table's maintenance asset. A Slack or history that does not answer is a
    warning.

    :param policy: The resolved policy.
    :param table: Name of one of its tables, ``namespace.name``.
    """

    operator_extra_links = (MaintenanceReportLink(),)
    ui_color = "#e4f3dd"

    def __init__(self, *, policy: Policy, table: str, **kwargs: Any) -> None:
        kwargs.setdefault("outlets", [maintenance_asset(policy.catalog.name, table)])
        super().__init__(**kwargs)
        self.policy = policy
        self.table = table

    @property
    def table_policy(self) -> TablePolicy:
        return self.policy.table(self.table)

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_iceberg_compaction.report.html import render_html

        plan = self._plan(context)
        report = self._gather(context, plan)
        folder = runs.run_folder(self.policy, context)
        report_uri = store.join(folder, "report.json")
        store.write_text(report_uri, report.to_json(indent=2))
        store.write_text(store.join(folder, "report.html"), render_html(report, plan))
        context["ti"].xcom_push(key=runs.REPORT_URI, value=report_uri)
        metrics.record_report(report)
        self._log(report)
        self._tell_slack(report)
        extra = event_extra(report, report_uri)
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = extra
        return extra

    def _gather(self, context: Context, plan: Plan | None) -> Report:
        from airflow_iceberg_compaction.report.summary import build_report

        now_ms = int(time.time() * 1000)
        states = self._states(context)
        if plan is None or (states[runs.ASSESS_TASK_ID] == "failed" and plan.outcome != "cannot_judge"):
            why = self._pull(context, runs.ASSESS_TASK_ID, runs.ERROR) or (
                f"task {runs.ASSESS_TASK_ID} is {states.get(runs.ASSESS_TASK_ID, 'not run')}; its log says why"
            )
            report = build_report(plan or self._no_plan(context, now_ms), (), None, now_ms)
            return dataclasses.replace(report, outcome="failed", reason=f"{runs.ASSESS_TASK_ID}: {why}")
        results, failures = self._results(context, states)
        config = self._catalog()
        after = self._measure(config, now_ms) if config and any(result.steps for result in results) else None
        report = build_report(plan, results, after, now_ms, failures)
        if config:
            from airflow_iceberg_compaction.maintenance import record

            record(config, self.policy, report)
        return report

    def _states(self, context: Context) -> dict[str, str]:
        """State of each sibling by its plain name; empty for tasks that have not run."""
        instance = context["ti"]
        names = [runs.ASSESS_TASK_ID, *runs.SECTION_TASK_IDS.values()]
        found = instance.get_task_states(
            dag_id=instance.dag_id,
            task_ids=[runs.sibling(self.task_id, name) for name in names],
            run_ids=[instance.run_id],
        ).get(instance.run_id, {})
        return {name: str(found.get(runs.sibling(self.task_id, name)) or "not run") for name in names}

    def _pull(self, context: Context, task: str, key: str) -> Any:
        return context["ti"].xcom_pull(task_ids=runs.sibling(self.task_id, task), key=key)

    def _plan(self, context: Context) -> Plan | None:
        plan_uri = self._pull(context, runs.ASSESS_TASK_ID, runs.PLAN_URI)
        if not plan_uri:
            return None
        try:
            return Plan.from_json(store.read_text(plan_uri))
        except (OSError, DocumentError) as error:
            self.log.warning("The plan at %s cannot be read: %s", plan_uri, error)
            return None

    def _no_plan(self, context: Context, now_ms: int) -> Plan:
        return Plan(
            run_id=runs.run_name(context),
            catalog=self.policy.catalog.name,
            table=self.table,
            table_uuid="",
            snapshot_id=None,
            created_at_ms=now_ms,
            outcome="cannot_judge",
            before=TableNumbers(),
        )

    def _results(self, context: Context, states: dict[str, str]) -> tuple[list[RunResult], dict[Section, str]]:
        results: list[RunResult] = []
        failures: dict[Section, str] = {}
        for section, task in runs.SECTION_TASK_IDS.items():
            result_uri = self._pull(context, task, runs.RESULT_URI)
            result = self._result(result_uri) if result_uri else None
            if result is not None and result not in results:
                results.append(result)
            step = next((s for s in result.steps if s.section == section), None) if result else None
            if states[task] == "failed" and (step is None or step.outcome not in _TELLS_ITSELF):
                failures[section] = (
                    self._pull(context, task, runs.ERROR) or f"task {task} failed without a result; its log says why"
                )
        return results, failures

    def _result(self, result_uri: str) -> RunResult | None:
        try:
            return RunResult.from_json(store.read_text(result_uri))
        except (OSError, DocumentError) as error:
            self.log.warning("The result at %s cannot be read: %s", result_uri, error)
            return None

    def _catalog(self) -> CatalogConfig | None:
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import resolve_catalog

        try:
            return resolve_catalog(self.policy)
        except Exception as error:
            self.log.warning("The catalog cannot be resolved: %s", error)
            return None

    def _measure(self, config: CatalogConfig, now_ms: int) -> TableNumbers | None:
        from airflow_iceberg_compaction.maintenance import measure

        try:
            return measure(config, self.table_policy, now_ms=now_ms, cache=runs.manifest_cache(self.policy))
        except Exception as error:
            self.log.warning("The table cannot be measured after the run: %s", config.redact(str(error)))
            return None

    def _log(self, report: Report) -> None:
        from rich.console import Console

        from airflow_iceberg_compaction.report.console import render_report

        text = io.StringIO()
        Console(width=150, color_system=None, file=text).print(render_report(report))
        for line in text.getvalue().splitlines():
            self.log.info("%s", line.rstrip())

    def _tell_slack(self, report: Report) -> None:
        settings: SlackReport | None = self.table_policy.report.slack
        if settings is None:
            return
        from airflow_iceberg_compaction.notifications.report import post_to_slack
        from airflow_iceberg_compaction.report.slack import is_wanted

        if not is_wanted(report, settings):
            return
        try:
            post_to_slack(settings.conn_id, settings.channel, report)
        except Exception as error:
            self.log.warning("The report did not reach Slack: %s", error)

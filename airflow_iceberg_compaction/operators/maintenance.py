"""One section of a plan, carried out by one Spark application."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, AirflowSkipException
from airflow.sdk import BaseHook

from airflow_iceberg_compaction import metrics, runs, store
from airflow_iceberg_compaction._compat import task_state
from airflow_iceberg_compaction.documents import (
    SECTIONS,
    Certificate,
    DocumentError,
    Plan,
    RunResult,
    Section,
    StepResult,
)
from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError
from airflow_iceberg_compaction.links.maintenance import MaintenanceReportLink, SparkApplicationLink
from airflow_iceberg_compaction.operators.verdict import find_finished_step, judge, read_result

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.policy.model import Policy


class IcebergMaintenanceOperator(SparkSubmitOperator):
    """
    Carry out one section of a plan with Spark, and only if the section has work.

    An empty section skips the task before anything is submitted. Catalog credentials reach spark-submit in a file that
    only this user can read and that is gone afterwards; they are in no argument and in no rendered field. The task
    succeeds only if the job's result document says so and its certificate is not violated.

    A retry resumes: the job skips batches whose commits it finds in the table's history. Clearing a finished task
    runs the section again. Where the policy says ``share_app``, the first task of a run with work carries out every
    section that follows too, and the later tasks take over their part of its result.

    :param policy: The resolved policy.
    :param section: The plan's section: ``rewrite``, ``delete_files``, ``manifests``, ``expire`` or ``orphans``.
    :param plan_uri: Where the plan lies. (templated)
    :param durable: Whether a try after a worker crash reconnects to an application that still runs on a cluster
        (Airflow 3.3 or newer).
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "plan_uri")
    operator_extra_links = (SparkApplicationLink(), MaintenanceReportLink())
    ui_color = "#fde8d7"

    def __init__(self, *, policy: Policy, section: Section, plan_uri: str, **kwargs: Any) -> None:
        kwargs.setdefault("conn_id", policy.spark.conn_id)
        kwargs.setdefault("deploy_mode", policy.spark.deploy_mode)
        kwargs.setdefault("name", f"iceberg-compaction-{section}")
        super().__init__(**kwargs)
        self.policy = policy
        self.section = section
        self.plan_uri = plan_uri
        self.application_id: str | None = None
        self.result_uri: str | None = None
        self._submitted = False

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # ours has a result
        plan = self._read_plan()
        if not plan.has_work(self.section):
            metrics.record_section(plan, self.section, spark_started=False)
            raise AirflowSkipException(f"{plan.table}: {_why_nothing(plan, self.section)}; Spark is not started")
        with (
            runs.failure_told(context),
            metrics.span(self.section, catalog=plan.catalog, table=plan.table),
        ):
            result, step = self._take_over(context) or self._submit(plan, context)
        return {
            "section": self.section,
            "outcome": step.outcome,
            "reason": step.reason,
            "snapshots": list(step.snapshots),
            "duration_ms": step.duration_ms,
            "numbers": step.numbers,
            "certificate": Certificate.from_laws(step.laws, step.remarks).verdict,
            "application_id": result.application_id,
        }

    def submit_job(self, context: Context) -> str | None:
        """Submit to a cluster; called only when there is no running application to reconnect to."""
        self._submitted = True
        if (state := task_state(context)) is not None:
            state.set(runs.RESULT_URI, self.result_uri)
        return super().submit_job(context)

    def on_kill(self) -> None:
        if self._hook is not None:  # nothing was submitted yet, and a signal handler must not look up connections
            super().on_kill()

    def _take_over(self, context: Context) -> tuple[RunResult, StepResult] | None:
        """This section's part of an application that an earlier task of the run shared, once."""
        if not self.policy.spark.share_app:
            return None
        taken = store.join(runs.run_folder(self.policy, context), f"{self.section}.taken")
        for section in SECTIONS[: SECTIONS.index(self.section)]:
            task_id = runs.sibling(self.task_id, runs.SECTION_TASK_IDS[section])
            result_uri = context["ti"].xcom_pull(task_ids=task_id, key=runs.RESULT_URI)
            # Taking a part twice would make clearing this task a green no-op.
            if not result_uri or (store.exists(taken) and store.read_text(taken) == result_uri):
                continue
            try:
                result = RunResult.from_json(store.read_text(result_uri))
            except (OSError, DocumentError):
                continue
            if (step := find_finished_step(self.section, result)) is not None:
                store.write_text(taken, result_uri)
                context["ti"].xcom_push(key=runs.RESULT_URI, value=result_uri)
                self.log.info("The application of task %s has carried out %s already", task_id, self.section)
                self.application_id = result.application_id
                return result, step
        return None

    def _submit(self, plan: Plan, context: Context) -> tuple[RunResult, StepResult]:
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import resolve_catalog
        from airflow_iceberg_compaction.submit import properties_file

        catalog = resolve_catalog(self.policy)
        conf = self._configure(catalog, self._spark_connection())
        # A fresh name for every submission: an old result can never be taken for a new one.
        name = f"{self.section}.{uuid.uuid4().hex[:8]}.result.json"
        self.result_uri = store.join(runs.run_folder(self.policy, context), name)
        context["ti"].xcom_push(key=runs.RESULT_URI, value=self.result_uri)
        sections = [self.section]
        if self.policy.spark.share_app:
            sections += [s for s in SECTIONS[SECTIONS.index(self.section) + 1 :] if plan.has_work(s)]
        self.application_args = ["--plan", self.plan_uri, "--result", self.result_uri]
        for section in sections:
            self.application_args += ["--section", section]
        metrics.record_section(plan, self.section, spark_started=True)
        failure: Exception | None = None
        with properties_file(conf) as path:
            self.properties_file = path
            try:
                super().execute(context)
            except (AirflowException, RuntimeError) as error:  # the provider raises both for a failed driver
                failure = error
        if (reconnected := self._reconnected_result_uri(context)) is not None:
            self.result_uri = reconnected
            context["ti"].xcom_push(key=runs.RESULT_URI, value=reconnected)
        if failure is None:
            self._forget_application(context)
        result = read_result(self.result_uri, failure)
        self.application_id = result.application_id
        step = judge(self.section, result, failure)
        if failure is not None:
            self.log.warning("spark-submit failed, but %s was completed before that: %s", self.section, failure)
        return result, step

    def _configure(self, catalog: CatalogConfig, connection: Connection) -> dict[str, str]:
        """Spark's configuration for the properties file, with what depends on where the driver runs."""
        from airflow_iceberg_compaction.catalog import CatalogError
        from airflow_iceberg_compaction.environment import EnvironmentProblem, find_spark_submit
        from airflow_iceberg_compaction.submit import SubmitError, job_files, private_folder, spark_conf

        master = connection.host or ""
        deploy_mode = self._deploy_mode or connection.extra_dejson.get("deploy-mode")
        if deploy_mode == "cluster":
            if store.local_path(self.plan_uri) is not None:
                raise MaintenanceConfigurationError(
                    f"the plan at {self.plan_uri} is on this machine, which a driver in cluster mode cannot read; set "
                    "`documents` in the policy to a location that both can reach, such as s3://bucket/maintenance"
                )
            # The provider refuses to start on YARN otherwise; without the ResourceManager's API nothing can reconnect.
            if "yarn" in f"{connection.conn_type}:{master}" and not self._yarn_track_via_rm_api:
                self.durable = False
        try:
            conf = spark_conf(self.policy.spark, catalog)
            if not self.application:
                files = job_files(private_folder())
                self.application, self.py_files = files.application, files.py_files
            if not (self._spark_binary or connection.extra_dejson.get("spark-binary")):
                self._spark_binary = find_spark_submit()
        except (CatalogError, EnvironmentProblem, SubmitError) as error:
            raise MaintenanceConfigurationError(str(error)) from error
        if master.startswith("local"):
            interpreter = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
            self.env_vars = {**interpreter, **(self.env_vars or {})}
            loopback = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            conf = {**loopback, "spark.ui.enabled": "false", **conf}
        return conf

    def _forget_application(self, context: Context) -> None:
        """After a success: Airflow would find the finished application and make clearing the task a green no-op."""
        if (state := task_state(context)) is not None:
            for key in (self.external_id_key, self._K8S_DRIVER_STATUS_KEY, runs.RESULT_URI):
                state.delete(key)

    def _reconnected_result_uri(self, context: Context) -> str | None:
        """Where an application that an earlier try submitted writes its result, if this try reconnected to it."""
        state = task_state(context)
        if state is None or self._submitted or not state.get(self.external_id_key):
            return None
        return str(state.get(runs.RESULT_URI) or "") or None

    def _read_plan(self) -> Plan:
        try:
            return Plan.from_json(store.read_text(self.plan_uri))
        except FileNotFoundError as error:
            raise MaintenanceConfigurationError(
                f"there is no plan at {self.plan_uri!r}; run the task `{runs.ASSESS_TASK_ID}` first, and let all "
                "workers share the policy's `documents` location"
            ) from error
        except DocumentError as error:
            raise MaintenanceConfigurationError(str(error)) from error

    def _spark_connection(self) -> Connection:
        try:
            return BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            # The Spark hook would take a missing connection for YARN.
            raise MaintenanceConfigurationError(
                f"Spark connection {self._conn_id!r} does not exist; create it (type spark, host such as local[*], "
                "spark://host:7077 or k8s://https://host), or set `spark.conn_id` in the policy"
            ) from error


def _why_nothing(plan: Plan, section: Section) -> str:
    reason = getattr(getattr(plan, section), "reason", "")
    return f"nothing to do for {section}" + (f" ({reason})" if reason else "")

"""One section of a plan, carried out by one Spark application."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_iceberg_compaction import runs, store
from airflow_iceberg_compaction.documents import Certificate, DocumentError, Plan, RunResult, Section, StepResult
from airflow_iceberg_compaction.exceptions import (
    CertificateError,
    MaintenanceConfigurationError,
    MaintenanceConflictError,
    MaintenanceFailedError,
    MaintenanceRefusedError,
    ResultMissingError,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_iceberg_compaction.policy.model import Policy


class IcebergMaintenanceOperator(SparkSubmitOperator):
    """
    Carry out one section of a plan with Spark, and only if the section has work.

    An empty section skips the task before anything is submitted. Catalog credentials reach spark-submit in a file that
    only this user can read and that is gone afterwards; they are in no argument and in no rendered field. The task
    succeeds only if the job's result document says so and its certificate is not violated.

    :param policy: The resolved policy.
    :param section: The plan's section: ``rewrite``, ``delete_files``, ``manifests``, ``expire`` or ``orphans``.
    :param plan_uri: Where the plan lies. (templated)
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "plan_uri")
    ui_color = "#fde8d7"

    def __init__(
        self,
        *,
        policy: Policy,
        section: Section,
        plan_uri: str,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("conn_id", policy.spark.conn_id)
        kwargs.setdefault("deploy_mode", policy.spark.deploy_mode)
        kwargs.setdefault("name", f"iceberg-compaction-{section}")
        super().__init__(**kwargs)
        self.policy = policy
        self.section = section
        self.plan_uri = plan_uri

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # ours has a result
        plan = self._read_plan()
        if not plan.has_work(self.section):
            raise AirflowSkipException(f"{plan.table}: {self._why_nothing(plan)}; Spark is not started")
        try:
            step, result = self._run(context)
        except Exception as error:
            # For the report: a failed task leaves nothing else behind.
            context["ti"].xcom_push(key=runs.ERROR, value=_first_line(error))
            raise
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

    def _run(self, context: Context) -> tuple[StepResult, RunResult]:
        from airflow_iceberg_compaction.catalog import CatalogError
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import resolve_catalog
        from airflow_iceberg_compaction.submit import job_files, properties_file, spark_conf

        catalog = resolve_catalog(self.policy)
        self._check_spark_connection()
        try:
            conf = spark_conf(self.policy.spark, catalog)
        except CatalogError as error:
            raise MaintenanceConfigurationError(str(error)) from error
        if not self.application:
            files = job_files(Path(tempfile.gettempdir()) / "iceberg-compaction")
            self.application, self.py_files = files.application, files.py_files
        # A fresh name for every submission: an old result can never be taken for a new one.
        result_uri = store.join(
            runs.run_folder(self.policy, context), f"{self.section}.{uuid.uuid4().hex[:8]}.result.json"
        )
        context["ti"].xcom_push(key=runs.RESULT_URI, value=result_uri)
        self.application_args = ["--plan", self.plan_uri, "--result", result_uri, "--section", self.section]
        failure: AirflowException | None = None
        with properties_file(conf) as path:
            self.properties_file = path
            try:
                super().execute(context)
            except AirflowFailException:
                raise
            except AirflowException as error:
                failure = error
        return self._judge(result_uri, failure)

    def _judge(self, result_uri: str, failure: AirflowException | None) -> tuple[StepResult, RunResult]:
        """The section's result, or the exception that says what became of it."""
        try:
            result = RunResult.from_json(store.read_text(result_uri))
        except (FileNotFoundError, DocumentError) as error:
            if failure is not None:
                raise MaintenanceFailedError(f"{failure}\nThe job left no result at {result_uri}.") from failure
            raise ResultMissingError(
                f"Spark reported success but left no readable result at {result_uri} ({error}); check that the driver "
                "can write to the policy's `documents` location"
            ) from error
        step = next((step for step in result.steps if step.section == self.section), None)
        if step is None:
            raise MaintenanceFailedError(
                f"the job ended before {self.section}: {result.error or failure or 'no reason was recorded'}"
            ) from failure
        certificate = Certificate.from_laws(step.laws, step.remarks)
        if certificate.verdict == "violated":
            broken = "; ".join(
                f"{law.name} ({law.scope}): {law.before!r} became {law.after!r}"
                for law in step.laws
                if law.verdict == "violated"
            )
            raise CertificateError(f"{self.section}: conservation violated, nothing of it was published: {broken}")
        if step.outcome == "conflicted":
            raise MaintenanceConflictError(f"{self.section}: {step.reason}")
        if step.outcome == "refused":
            raise MaintenanceRefusedError(f"{self.section}: {step.reason}")
        if step.outcome == "failed" or failure is not None:
            raise MaintenanceFailedError(f"{self.section}: {step.reason or result.error or failure}") from failure
        if self.section == "rewrite" and step.snapshots and not step.laws:
            raise CertificateError("rewrite: the job published files but left no certificate")
        return step, result

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

    def _why_nothing(self, plan: Plan) -> str:
        reason = getattr(getattr(plan, self.section), "reason", "") or plan.reason
        return f"nothing to do for {self.section}" + (f" ({reason})" if reason else "")

    def _check_spark_connection(self) -> None:
        """Without this the Spark hook takes a missing connection for YARN."""
        from airflow.sdk import BaseHook
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise MaintenanceConfigurationError(
                f"Spark connection {self._conn_id!r} does not exist; create it (type spark, host such as local[*], "
                "spark://host:7077 or k8s://...), or set `spark.conn_id` in the policy"
            ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:500]

"""The gate of every maintenance run: it judges the table and writes the plan."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException, conf
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_iceberg_compaction import metrics, runs, store
from airflow_iceberg_compaction.documents import SECTIONS
from airflow_iceberg_compaction.exceptions import CannotJudgeError, MaintenanceConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_iceberg_compaction.documents import Plan
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy

DEFAULT_TIMEOUT = timedelta(hours=12)
RECHECK_AFTER = timedelta(hours=6)  # of silence: expiry and orphan sweeps fall due by the clock


class IcebergHealthSensor(BaseSensorOperator):
    """
    Judge a table from its metadata and write the plan of the run.

    The plan goes to the run's folder and its location to the XCom ``plan_uri``; the XCom ``health`` holds a small
    summary. Both are pushed before the task is skipped, so the report can tell why nothing ran. A catalog that does
    not answer fails the task, and a table that cannot be judged does too: neither is ever read as healthy.

    :param policy: The resolved policy.
    :param table: Name of one of its tables, ``namespace.name``.
    :param parameters: Run parameters; ``None`` takes the params of the Dag run. (templated)
    :param on_healthy: ``skip`` ends a healthy run at once, ``wait`` waits until there is work.
    :param deferrable: Wait in the triggerer, where each poll looks at the snapshot summary alone.
    :param timeout: Longest time to wait; after it the task fails.
    """

    template_fields: Sequence[str] = ("parameters",)
    ui_color = "#d8ecf3"

    def __init__(
        self,
        *,
        policy: Policy,
        table: str,
        parameters: Mapping[str, Any] | None = None,
        on_healthy: Literal["skip", "wait"] = "skip",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        timeout: timedelta | float = DEFAULT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("soft_fail") or kwargs.get("never_fail") or kwargs.get("silent_fail"):
            raise ValueError(
                "soft_fail, never_fail and silent_fail would turn a dead catalog into a healthy table; leave them out"
            )
        super().__init__(timeout=timeout, **kwargs)
        self.policy = policy
        self.table = table
        self.parameters = parameters
        self.on_healthy = on_healthy
        self.deferrable = deferrable

    @property
    def table_policy(self) -> TablePolicy:
        return self.policy.table(self.table)

    def execute(self, context: Context) -> Any:
        with runs.failure_told(context):
            if self.deferrable and self.on_healthy == "wait":
                return self._poke_or_defer(context, deadline=time.time() + self.timeout)
            return super().execute(context)

    def poke(self, context: Context) -> PokeReturnValue:
        """Judge once; skip the task, ask for another poke, or let the run go on."""
        done, plan = self._judge(context)
        return PokeReturnValue(is_done=done, xcom_value=_summary(plan) if done else None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """The head has changed or time has passed; whether that is work, the manifests tell."""
        self.log.info("%s is looked at again: %s", self.table, event)
        with runs.failure_told(context):
            return self._poke_or_defer(context, deadline=event["deadline"])

    def _poke_or_defer(self, context: Context, deadline: float) -> Any:
        """Judge once before deferring: a table that needs work never visits the triggerer."""
        done, plan = self._judge(context)
        if done:
            return _summary(plan)
        from airflow_iceberg_compaction.triggers.iceberg_health import IcebergHealthTrigger
        from airflow_iceberg_compaction.triggers.probe import probe_arguments

        probe = probe_arguments(self.policy, self.table)
        if probe is None:
            raise MaintenanceConfigurationError(
                "the catalog's secrets are in the policy's properties, where the triggerer must not read them; define "
                "the catalog by `conn_id`, or set deferrable=False"
            )
        remaining = deadline - time.time()
        if remaining <= 0:
            raise AirflowSensorTimeout(f"{self.table} was healthy for {self.timeout:.0f} s")
        return self.defer(
            trigger=IcebergHealthTrigger(
                probe=probe,
                judged_snapshot_id=plan.snapshot_id,
                min_small_files=self.table_policy.thresholds.min_small_files,
                recheck_at=time.time() + RECHECK_AFTER.total_seconds(),
                deadline=deadline,
                poll_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=remaining),
        )

    def _judge(self, context: Context) -> tuple[bool, Plan]:
        plan = self.assess(context)
        if plan.outcome == "cannot_judge":
            raise CannotJudgeError(f"{self.table}: {plan.reason}")
        if plan.dry_run:
            raise AirflowSkipException(f"{self.table}: dry run, nothing is executed; the plan is in the report")
        has_work = any(plan.has_work(section) for section in SECTIONS)
        if not has_work and self.on_healthy == "skip":
            raise AirflowSkipException(f"{self.table}: {plan.reason or 'healthy, nothing to do'}")
        return has_work, plan

    def assess(self, context: Context) -> Plan:
        """Read the table's metadata, write the plan document, push where it is, and set the policy's write properties."""
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import resolve_catalog
        from airflow_iceberg_compaction.maintenance import assess_and_plan, set_write_properties
        from airflow_iceberg_compaction.plan.parameters import RunParameters

        values = dict(context["params"] if self.parameters is None else self.parameters)
        if values.get("expire_snapshots") == self.table_policy.expire_snapshots.enabled:
            del values["expire_snapshots"]  # the form shows what the policy says; that is no wish of this run
        try:
            parameters = RunParameters.from_mapping(values)
        except ValueError as error:
            raise MaintenanceConfigurationError(f"run parameters: {error}") from error
        with metrics.span("assess", catalog=self.policy.catalog.name, table=self.table):
            catalog = resolve_catalog(self.policy)
            _, plan = assess_and_plan(
                catalog,
                self.policy,
                self.table_policy,
                parameters,
                run_id=runs.run_name(context),
                now_ms=int(time.time() * 1000),
                cache=runs.manifest_cache(self.policy),
            )
        plan_uri = store.join(runs.run_folder(self.policy, context), "plan.json")
        store.write_text(plan_uri, plan.to_json(indent=2))
        context["ti"].xcom_push(key=runs.PLAN_URI, value=plan_uri)
        context["ti"].xcom_push(key=runs.HEALTH, value=_summary(plan))
        set_write_properties(catalog, plan)
        metrics.record_health(plan)
        self.log.info("%s: %s; plan written to %s", self.table, plan.reason or plan.outcome, plan_uri)
        return plan


def _summary(plan: Plan) -> dict[str, Any]:
    return {
        "table": plan.table,
        "outcome": plan.outcome,
        "reason": plan.reason,
        "dry_run": plan.dry_run,
        "snapshot_id": plan.snapshot_id,
        "sections": [section for section in SECTIONS if plan.has_work(section)],
        "before": plan.before.to_dict(),
        "rewrite": {
            "partitions": sum(1 for partition in plan.rewrite.partitions if partition.decision == "rewrite"),
            "input_files": plan.rewrite.input_files,
            "input_bytes": plan.rewrite.input_bytes,
            "output_files": plan.rewrite.output_files,
        },
        "cost": {"currency": plan.cost.currency, "total": plan.cost.total},
    }

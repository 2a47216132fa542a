"""From a policy to Dags: one per table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, TaskGroup, TriggerRule

from airflow_iceberg_compaction import runs
from airflow_iceberg_compaction.operators.maintenance import IcebergMaintenanceOperator
from airflow_iceberg_compaction.operators.report import IcebergReportOperator
from airflow_iceberg_compaction.params import run_params
from airflow_iceberg_compaction.policy.loader import load_policy
from airflow_iceberg_compaction.sensors.iceberg_health import IcebergHealthSensor

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import Policy


def build_dags(path: str | Path) -> dict[str, DAG]:
    """One Dag per enabled table of the policy file, by Dag id. Put the result into a Dag file's ``globals()``."""
    policy = load_policy(path)
    dags = (build_dag(policy, table.name) for table in sorted(policy.tables, key=lambda t: t.name) if table.enabled)
    return {dag.dag_id: dag for dag in dags}


def dag_id(policy: Policy, table: str) -> str:
    return f"iceberg_maintenance.{policy.catalog.name}.{table}"


def build_dag(policy: Policy, table: str, **dag_kwargs: Any) -> DAG:
    """The maintenance Dag of one table. ``dag_kwargs`` override what the policy says."""
    settings = policy.table(table)
    arguments: dict[str, Any] = {
        "dag_id": dag_id(policy, table),
        "schedule": settings.schedule,
        "catchup": False,
        "max_active_runs": 1,
        "params": run_params(),
        "tags": ["iceberg-maintenance", *settings.tags],
        "default_args": {"owner": settings.owner},
    }
    with DAG(**{**arguments, **dag_kwargs}) as dag:
        _maintenance_tasks(policy, table, parameters=None)
    return dag


def iceberg_maintenance(
    policy: Policy | str | Path,
    table: str,
    *,
    group_id: str = "iceberg_maintenance",
    parameters: Mapping[str, Any] | None = None,
) -> TaskGroup:
    """The tasks of a maintenance run as a task group, for a Dag of your own.

    :param policy: a resolved policy, or the path of a policy file.
    :param parameters: run parameters such as ``{"force": True}``; values may be Jinja templates.
    """
    resolved = load_policy(policy) if isinstance(policy, str | Path) else policy
    with TaskGroup(group_id=group_id) as group:
        _maintenance_tasks(resolved, table, parameters=dict(parameters or {}))
    return group


def _maintenance_tasks(policy: Policy, table: str, parameters: Mapping[str, Any] | None) -> None:
    settings = policy.table(table)
    common: dict[str, Any] = {
        "retries": settings.retries,
        "retry_delay": timedelta(minutes=5),
        "execution_timeout": settings.execution_timeout,
    }
    assess = IcebergHealthSensor(
        task_id=runs.ASSESS_TASK_ID, policy=policy, table=table, parameters=parameters, **common
    )
    if settings.pool:
        common["pool"] = settings.pool
    plan_uri = f"{{{{ ti.xcom_pull(task_ids={assess.task_id!r}, key={runs.PLAN_URI!r}) }}}}"
    report = IcebergReportOperator(
        task_id=runs.REPORT_TASK_ID, policy=policy, table=table, retries=2, retry_delay=timedelta(seconds=30)
    ).as_teardown()
    assess >> report
    previous = None
    for section, task_id in runs.SECTION_TASK_IDS.items():
        task = IcebergMaintenanceOperator(
            task_id=task_id,
            policy=policy,
            section=section,
            plan_uri=plan_uri,
            # A section before this one may have had nothing to do, but must not have failed; a skipped assessment
            # skips everything without starting a worker for it, hence the edge from assess to each task.
            trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
            **common,
        )
        assess >> task >> report
        if previous is not None:
            previous >> task
        previous = task

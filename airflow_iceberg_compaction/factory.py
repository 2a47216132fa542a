"""From a policy to Dags: one per table."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import DAG, TaskGroup, TriggerRule, get_parsing_context

from airflow_iceberg_compaction import runs
from airflow_iceberg_compaction._compat import retry_arguments
from airflow_iceberg_compaction.dag_docs import describe
from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError
from airflow_iceberg_compaction.operators.broken_policy import BrokenPolicyOperator
from airflow_iceberg_compaction.operators.maintenance import IcebergMaintenanceOperator
from airflow_iceberg_compaction.operators.report import IcebergReportOperator
from airflow_iceberg_compaction.params import run_params
from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_policy, load_policy_isolated
from airflow_iceberg_compaction.schedules import dag_schedule
from airflow_iceberg_compaction.sensors.iceberg_health import IcebergHealthSensor

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy

DAG_ID_PREFIX = "iceberg_maintenance"
TAG = "iceberg-maintenance"
RETRY_DELAY = timedelta(minutes=5)


def build_dags(path: str | Path, *, on_error: Literal["raise", "isolate"] = "raise") -> dict[str, DAG]:
    """One Dag per enabled table of the policy file, by Dag id. Put the result into a Dag file's ``globals()``.

    When Airflow parses the file to run one task, only the Dag of that task is built.

    :param path: the policy file; give it relative to ``__file__``, so that it is versioned with the Dag file.
    :param on_error: ``raise`` makes any mistake one import error with all messages; ``isolate`` keeps the valid tables
        and shows each broken one as a Dag that carries its message. A mistake that all tables share always raises.
    """
    wanted = get_parsing_context().dag_id
    if wanted is not None and (dag := _build_wanted(path, wanted)) is not None:
        return {wanted: dag}
    if on_error == "isolate":
        policy, errors = load_policy_isolated(path)
    else:
        policy, errors = load_policy(path), {}
    dags: dict[str, DAG] = {}
    broken: dict[str, Exception] = dict(errors)
    for table in policy.tables:
        if not table.enabled:
            continue
        try:
            dag = build_dag(policy, table)
        except MaintenanceConfigurationError as error:
            if on_error == "raise":
                raise
            broken[table.name] = error
        else:
            dags[dag.dag_id] = dag
    for name, mistake in broken.items():
        dag = _broken_dag(policy, name, mistake, taken=dags)
        dags[dag.dag_id] = dag
    return {name: dags[name] for name in sorted(dags) if wanted in (None, name)}


def _build_wanted(path: str | Path, wanted: str) -> DAG | None:
    """The Dag of a task that is about to run; None when the whole file has to tell what is the matter with it."""
    table = wanted.removeprefix(f"{DAG_ID_PREFIX}.").partition(".")[2]
    try:
        policy = load_policy(path, only=table)
        return build_dag(policy, table) if dag_id(policy, table) == wanted else None
    except (PolicyError, MaintenanceConfigurationError):
        return None


def dag_id(policy: Policy, table: str) -> str:
    """The id of a table's Dag."""
    return f"{DAG_ID_PREFIX}.{policy.catalog.name}.{table}"


def build_dag(policy: Policy, table: str | TablePolicy, **dag_arguments: Any) -> DAG:
    """The maintenance Dag of one table of ``policy``. ``dag_arguments`` win over what the policy says."""
    settings = policy.table(table) if isinstance(table, str) else table
    arguments: dict[str, Any] = {
        "dag_id": dag_id(policy, settings.name),
        "description": f"Keeps the Iceberg table {settings.name} of catalog {policy.catalog.name} healthy.",
        "schedule": dag_schedule(policy, settings),
        "catchup": False,
        "max_active_runs": 1,
        "tags": {TAG, *settings.tags},
        "doc_md": describe(policy, settings.name),
    }
    with DAG(**{**arguments, **dag_arguments}) as dag:
        _add_tasks(policy, settings, parameters=None)
    # Only now, and into the dict: each task would take a deep copy of the Dag's params, and each Dag would validate the
    # same constants again, which is most of what a large file costs.
    dag.params.update(run_params(expire_snapshots=settings.expire_snapshots.enabled))
    return dag


def iceberg_maintenance(
    policy: Policy | str | Path,
    table: str,
    *,
    group_id: str = "iceberg_maintenance",
    parameters: Mapping[str, Any] | None = None,
) -> TaskGroup:
    """The tasks of a maintenance run as a task group, for a Dag of your own.

    Its last task is a teardown: what you set downstream of the group does not wait for the report, and a failed
    report does not fail your run.

    :param policy: a resolved policy, or the path of a policy file.
    :param parameters: run parameters such as ``{"force": True}``; values may be Jinja templates.
    """
    resolved = load_policy(policy) if isinstance(policy, str | Path) else policy
    with TaskGroup(group_id=group_id) as group:
        _add_tasks(resolved, resolved.table(table), parameters=dict(parameters or {}))
    return group


def _broken_dag(policy: Policy, table: str, error: Exception, taken: Container[str]) -> DAG:
    """A Dag that never runs by itself and says what is wrong with its table."""
    # The name is one of the things that can be wrong with a table, and it must not take a good one's place.
    name = re.sub(r"[^\w.-]", "_", dag_id(policy, table))
    while name in taken:
        name += "_"
    with DAG(
        dag_id=name,
        description="The policy of this table cannot be used; see the Dag's documentation.",
        schedule=None,
        catchup=False,
        tags={TAG, "config-error"},
        doc_md=f"The policy of this table cannot be used:\n\n```\n{error}\n```",
    ) as dag:
        BrokenPolicyOperator(task_id="policy_error", message=str(error))
    return dag


def _add_tasks(policy: Policy, table: TablePolicy, parameters: Mapping[str, Any] | None) -> None:
    common: dict[str, Any] = {
        "owner": table.owner,
        "retries": table.retries,
        "retry_delay": RETRY_DELAY,
        "execution_timeout": table.execution_timeout,
    }
    spark: dict[str, Any] = {**common, **retry_arguments()}
    if table.pool:
        spark["pool"] = table.pool
    assess = IcebergHealthSensor(
        task_id=runs.ASSESS_TASK_ID, policy=policy, table=table.name, parameters=parameters, **common
    )
    report = IcebergReportOperator(
        task_id=runs.REPORT_TASK_ID,
        policy=policy,
        table=table.name,
        **{**common, "retry_delay": timedelta(seconds=30), "execution_timeout": timedelta(minutes=30)},
    ).as_teardown()
    plan_uri = f"{{{{ ti.xcom_pull(task_ids={assess.task_id!r}, key={runs.PLAN_URI!r}) }}}}"
    previous: IcebergMaintenanceOperator | None = None
    for section, task_id in runs.SECTION_TASK_IDS.items():
        task = IcebergMaintenanceOperator(
            task_id=task_id,
            policy=policy,
            section=section,
            plan_uri=plan_uri,
            # A section before this one may have had nothing to do, but must not have failed; a skipped assessment
            # skips everything without starting a worker for it, hence the edge from assess to each task.
            trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
            **spark,
        )
        assess >> task
        if previous is not None:
            previous >> task
        previous = task
    previous >> report

"""What Airflow 3.3 has and 3.1 or 3.2 may not, found by looking, not by comparing versions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

CONFLICT_RETRY_DELAY = timedelta(seconds=30)


def retry_arguments() -> dict[str, Any]:
    """Operator arguments that retry a commit conflict fast; empty before Airflow 3.3, where all retries wait alike.

    Errors that no retry can mend need no rule: their classes derive from AirflowFailException.
    """
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError:
        return {}
    rule = RetryRule(
        exception="airflow_iceberg_compaction.exceptions.MaintenanceConflictError",
        action=RetryAction.RETRY,
        retry_delay=CONFLICT_RETRY_DELAY,
        reason="another writer committed first; the next try plans against the new head",
    )
    return {"retry_policy": ExceptionRetryPolicy(rules=[rule])}


def stats() -> Any:
    """Airflow's metrics client: ``incr``, ``gauge`` and ``timing``, each with ``tags``."""
    try:
        from airflow.sdk.observability import stats as module
    except ImportError:
        from airflow.stats import Stats

        return Stats
    return module


def task_state(context: Any) -> Any | None:
    """The store that outlives tries of a task, None before Airflow 3.3."""
    return context.get("task_state_store")


def no_failures() -> tuple[type[Exception], ...]:
    """Exceptions by which a task ends or pauses without having failed."""
    try:
        from airflow.sdk.exceptions import AirflowRescheduleException, AirflowSkipException
    except ImportError:
        from airflow.exceptions import AirflowRescheduleException, AirflowSkipException  # type: ignore[no-redef]
    return AirflowSkipException, AirflowRescheduleException


def cron_timetable(cron: str, timezone: str) -> Any:
    """A timetable that runs at the times of ``cron``, without data intervals."""
    try:
        from airflow.sdk import CronTriggerTimetable
    except ImportError:
        from airflow.timetables.trigger import CronTriggerTimetable  # type: ignore[assignment]
    return CronTriggerTimetable(cron, timezone=timezone)


def assets_or_time(timetable: Any, assets: Any) -> Any:
    """A timetable that runs at the times of ``timetable`` and whenever ``assets`` changed."""
    try:
        from airflow.sdk import AssetOrTimeSchedule
    except ImportError:
        from airflow.timetables.assets import AssetOrTimeSchedule  # type: ignore[assignment]
    return AssetOrTimeSchedule(timetable=timetable, assets=assets)

"""What the policy says about time and commits, as Airflow understands it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAny, AssetWatcher

from airflow_iceberg_compaction._compat import assets_or_time, cron_timetable
from airflow_iceberg_compaction.assets import table_uri
from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy


def dag_schedule(policy: Policy, table: TablePolicy) -> Any:
    """The ``schedule`` of a table's Dag. Opens no connection and reads no catalog."""
    schedule = table.schedule
    if schedule is None or isinstance(schedule, str):
        return schedule
    if schedule.timetable:
        return _timetable(table.name, schedule.timetable)
    timetable = cron_timetable(schedule.cron, schedule.timezone) if schedule.cron else None
    assets: list[Asset] = [Asset(uri) for uri in schedule.assets]
    if schedule.on_commit:
        assets = [watched_asset(policy, table.name)]
    if not assets:
        return timetable
    condition = AssetAny(*assets)
    return condition if timetable is None else assets_or_time(timetable, condition)


def _timetable(table: str, path: str) -> Any:
    """An instance of the timetable class at ``path``; nothing else is ever called."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise MaintenanceConfigurationError(f"{table}: timetable {path!r} cannot be imported: {error}") from error
    # The scheduler's Timetable is a protocol that refuses issubclass(), and authors may derive from the SDK's own base.
    if not (isinstance(found, type) and {"Timetable", "BaseTimetable"} & {base.__name__ for base in found.__mro__}):
        raise MaintenanceConfigurationError(f"{table}: {path!r} is not a timetable class")
    return found()


def watched_asset(policy: Policy, table: str, *, poll_interval: float = 60.0) -> Asset:
    """The table as an asset that gets an event when any engine commits data to it, and none from maintenance."""
    from airflow_iceberg_compaction.triggers.iceberg_snapshot import IcebergCommitTrigger
    from airflow_iceberg_compaction.triggers.probe import probe_arguments

    probe = probe_arguments(policy, table)
    if probe is None:
        raise MaintenanceConfigurationError(
            f"{table}: `on_commit` needs a catalog without secrets in the policy's properties, because the triggerer's "
            "arguments are stored with the Dag; define the catalog by `conn_id`"
        )
    name = f"iceberg/{policy.catalog.name}.{table}"
    watcher = AssetWatcher(
        name=f"{name}/commits", trigger=IcebergCommitTrigger(probe=probe, poll_interval=poll_interval)
    )
    return Asset(name=name, uri=table_uri(policy.catalog.name, table), group="iceberg", watchers=[watcher])

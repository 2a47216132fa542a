"""The stages in their order, for every shell: what Airflow's tasks and the command line both call."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.catalog import CatalogUnreachableError, TableNotFoundError
from airflow_iceberg_compaction.documents import SECTIONS
from airflow_iceberg_compaction.history import History, Learned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.documents import Plan, Report, TableNumbers
    from airflow_iceberg_compaction.health.cache import ManifestCache
    from airflow_iceberg_compaction.health.model import TableHealth
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import Policy, TablePolicy

log = logging.getLogger(__name__)

# A table's files may lie outside its location, where several tables may share a folder.
_STORAGE_PATHS = (
    "write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.metadata.path",
)  # fmt: skip


def assess_and_plan(
    config: CatalogConfig,
    policy: Policy,
    table: TablePolicy,
    parameters: RunParameters,
    *,
    run_id: str,
    now_ms: int,
    cache: ManifestCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[TableHealth, Plan]:
    """Health of one table and the plan that follows from it, from metadata alone."""
    from airflow_iceberg_compaction.health.assessment import assess
    from airflow_iceberg_compaction.health.details import read_details
    from airflow_iceberg_compaction.health.selection import select_partitions
    from airflow_iceberg_compaction.plan.planner import candidates, make_plan

    catalog = config.load()
    loaded = config.load_table(table.name, catalog)
    health = assess(
        loaded, table, catalog_name=config.name, table_name=table.name, now_ms=now_ms, cache=cache, progress=progress
    )
    selected = select_partitions(loaded, health, parameters.partition_filter) if parameters.partition_filter else None
    keys = candidates(health, table, parameters, now_ms, selected)
    learned = _learned(catalog, policy, table.name)
    plan = make_plan(
        health,
        read_details(loaded, health, keys),
        table,
        policy.prices,
        parameters,
        run_id=run_id,
        now_ms=now_ms,
        selected=selected,
        throughput=learned.throughput,
        last_orphan_sweep_ms=learned.last_orphan_sweep_ms,
    )
    if plan.orphans.due:
        plan = _with_neighbours(plan, config, catalog, table)
    wanted = {key: value for key, value in table.write_properties.items() if loaded.properties.get(key) != value}
    return health, dataclasses.replace(plan, write_properties=wanted)


def _with_neighbours(plan: Plan, config: CatalogConfig, catalog: Catalog, table: TablePolicy) -> Plan:
    """The plan with the places a sweep must not reach into; without the sweep when they cannot be known."""
    try:
        others = _other_locations(config, catalog, table)
    except (CatalogUnreachableError, TableNotFoundError) as error:
        orphans = dataclasses.replace(
            plan.orphans, due=False, reason=f"not swept: another table is unreadable ({error})"
        )
        plan = dataclasses.replace(plan, orphans=orphans)
        if plan.outcome == "work" and not any(plan.has_work(section) for section in SECTIONS):
            plan = dataclasses.replace(plan, outcome="healthy", reason=orphans.reason)
        return plan
    return dataclasses.replace(plan, orphans=dataclasses.replace(plan.orphans, other_locations=others))


def set_write_properties(config: CatalogConfig, plan: Plan) -> None:
    """Set the table properties of the plan, so that writers make better files from now on. A metadata commit, no Spark."""
    if not plan.write_properties or plan.dry_run:
        return
    with config.load_table(plan.table).transaction() as transaction:
        transaction.set_properties(plan.write_properties)
    log.info("Set on %s: %s", plan.table, ", ".join(f"{key}={value}" for key, value in plan.write_properties.items()))


def measure(
    config: CatalogConfig, table: TablePolicy, *, now_ms: int, cache: ManifestCache | None = None
) -> TableNumbers:
    """The table's totals now, for the "after" of a report."""
    from airflow_iceberg_compaction.health.assessment import assess
    from airflow_iceberg_compaction.plan.planner import table_numbers

    loaded = config.load_table(table.name)
    return table_numbers(
        assess(loaded, table, catalog_name=config.name, table_name=table.name, now_ms=now_ms, cache=cache)
    )


def record(config: CatalogConfig, policy: Policy, report: Report) -> None:
    """Append the run to the history. A run is not worse for a history that cannot be written: that is a warning."""
    if policy.history is None or report.dry_run:
        return
    try:
        History(config.load(), policy.history).append(report)
    except Exception as error:
        log.warning(
            "The run of %s is not in the history %s: %s", report.table, policy.history, config.redact(str(error))
        )


def _learned(catalog: Catalog, policy: Policy, table: str) -> Learned:
    if policy.history is None:
        return Learned()
    try:
        return History(catalog, policy.history).learned(table)
    except Exception as error:
        log.warning("The history %s cannot be read, so nothing is learned from it: %s", policy.history, error)
        return Learned()


def _other_locations(config: CatalogConfig, catalog: Catalog, table: TablePolicy) -> tuple[str, ...]:
    """Where other tables lie, into which a sweep must not reach; all of the catalog's before anything is deleted.

    Each costs a call to the catalog, so this is asked only when a sweep is due.
    """
    own = tuple(table.name.split(".")[:-1])
    namespaces = set(_namespaces(catalog)) if table.orphan_files.mode == "delete" else {own}
    names = {".".join(name) for namespace in sorted(namespaces) for name in catalog.list_tables(namespace)}
    roots: set[str] = set()
    for name in names - {table.name}:
        other = config.load_table(name, catalog).metadata
        roots |= {other.location, *(other.properties[key] for key in _STORAGE_PATHS if key in other.properties)}
    return tuple(sorted(roots))


def _namespaces(catalog: Catalog, parent: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(parent):
        if len(namespace) > len(parent):  # some catalogs list the parent itself
            yield tuple(namespace)
            yield from _namespaces(catalog, tuple(namespace))

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_iceberg_compaction import maintenance
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.policy.model import Catalog as CatalogPolicy
from airflow_iceberg_compaction.policy.model import OrphanFiles, Policy, TablePolicy

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.documents import Plan

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.mark.parametrize("mode", ["report", "delete"])
def test_a_due_sweep_knows_where_other_tables_lie(
    lake: CatalogConfig, catalog: Catalog, namespace: str, mode: str
) -> None:
    for name in ("mine", "neighbour"):
        catalog.create_table(f"{namespace}.{name}", ROWS.schema).append(ROWS)
    elsewhere = f"{namespace}_other"
    catalog.create_namespace(elsewhere)
    catalog.create_table(f"{elsewhere}.far", ROWS.schema)
    table = TablePolicy(name=f"{namespace}.mine", orphan_files=OrphanFiles(mode=mode))
    policy = Policy(path="p.yaml", catalog=CatalogPolicy(name="lake"), tables=(table,), history=None)

    _, plan = maintenance.assess_and_plan(lake, policy, table, RunParameters(), run_id="r", now_ms=1)

    found = {"/".join(location.split("/")[-2:]) for location in plan.orphans.other_locations}
    assert f"{namespace}/neighbour" in found
    assert f"{namespace}/mine" not in found
    assert (f"{elsewhere}/far" in found) is (mode == "delete")


def test_write_properties_are_set_once_and_never_in_a_dry_run(
    lake: CatalogConfig, catalog: Catalog, namespace: str
) -> None:
    name = f"{namespace}.t"
    catalog.create_table(name, ROWS.schema, properties={"write.parquet.compression-codec": "zstd"}).append(ROWS)
    table = TablePolicy(
        name=name,
        write_properties={"write.target-file-size-bytes": "256MB", "write.parquet.compression-codec": "zstd"},
    )
    policy = Policy(path="p.yaml", catalog=CatalogPolicy(name="lake"), tables=(table,), history=None)

    def plan(**parameters: bool) -> Plan:
        chosen = RunParameters.from_mapping(parameters)
        return maintenance.assess_and_plan(lake, policy, table, chosen, run_id="r", now_ms=1)[1]

    assert plan().write_properties == {"write.target-file-size-bytes": "256000000"}
    maintenance.set_write_properties(lake, plan(dry_run=True))
    assert "write.target-file-size-bytes" not in catalog.load_table(name).properties
    maintenance.set_write_properties(lake, plan())
    assert catalog.load_table(name).properties["write.target-file-size-bytes"] == "256000000"
    assert plan().write_properties == {}


def test_a_broken_neighbour_stops_the_sweep_and_nothing_else(
    lake: CatalogConfig, catalog: Catalog, namespace: str
) -> None:
    for name in ("mine", "broken"):
        catalog.create_table(f"{namespace}.{name}", ROWS.schema).append(ROWS)
    Path(catalog.load_table(f"{namespace}.broken").metadata_location.removeprefix("file://")).unlink()
    table = TablePolicy(name=f"{namespace}.mine")
    policy = Policy(path="p.yaml", catalog=CatalogPolicy(name="lake"), tables=(table,), history=None)

    _, plan = maintenance.assess_and_plan(lake, policy, table, RunParameters(), run_id="r", now_ms=1)

    assert not plan.orphans.due
    assert plan.orphans.reason.startswith("not swept: another table is unreadable")
    assert plan.outcome == "healthy"


def test_a_sweep_knows_the_shared_data_folders_of_other_tables(
    lake: CatalogConfig, catalog: Catalog, namespace: str
) -> None:
    catalog.create_table(f"{namespace}.mine", ROWS.schema).append(ROWS)
    catalog.create_table(f"{namespace}.other", ROWS.schema, properties={"write.data.path": "s3://bucket/shared"})
    table = TablePolicy(name=f"{namespace}.mine")
    policy = Policy(path="p.yaml", catalog=CatalogPolicy(name="lake"), tables=(table,), history=None)
    _, plan = maintenance.assess_and_plan(lake, policy, table, RunParameters(), run_id="r", now_ms=1)
    assert "s3://bucket/shared" in plan.orphans.other_locations

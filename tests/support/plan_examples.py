"""Hand-made health, details and policies for tests of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow_iceberg_compaction.documents import Plan
from airflow_iceberg_compaction.health.model import (
    DataFileDetail,
    PartitionDetail,
    PartitionField,
    PartitionHealth,
    PartitionTuple,
    RefInfo,
    SnapshotInfo,
    Spec,
    TableHealth,
)
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.planner import candidates, make_plan
from airflow_iceberg_compaction.policy.model import Prices, TablePolicy

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_800_000_000_000
MB = 1_000_000

Key = tuple[int, PartitionTuple]

BY_DAY = Spec(
    spec_id=0,
    fields=(
        PartitionField(name="day", transform="day", source_name="ts", source_type="timestamptz", result_type="date"),
    ),
)
BY_HOUR = Spec(
    spec_id=1,
    fields=(
        PartitionField(name="hour", transform="hour", source_name="ts", source_type="timestamptz", result_type="int"),
    ),
)
BY_NAME = Spec(
    spec_id=2,
    fields=(
        PartitionField(name="who", transform="identity", source_name="who", source_type="string", result_type="string"),
    ),
)


def policy(**settings: Any) -> TablePolicy:
    """100 MB target, files below 75 MB are small, five of them make a partition sick."""
    thresholds = {"small_file_size": 75 * MB, "min_small_files": 5, "delete_files": 10, "delete_ratio": 0.5}
    rewrite = {"target_file_size": 100 * MB}
    return TablePolicy.model_validate(
        {
            "name": "shop.events",
            **settings,
            "thresholds": thresholds | settings.get("thresholds", {}),
            "rewrite": rewrite | settings.get("rewrite", {}),
        }
    )


def files(*sizes_mb: float, deletes: int = 0, deleted_rows: int = 0) -> tuple[DataFileDetail, ...]:
    return tuple(
        DataFileDetail(
            path=f"file-{number}",
            size_bytes=int(size * MB),
            rows=1000,
            sequence_number=1,
            attached_delete_files=deletes,
            file_scoped_delete_rows=deleted_rows,
        )
        for number, size in enumerate(sizes_mb)
    )


def partition(
    values: PartitionTuple, found: Sequence[DataFileDetail], *, spec_id: int = 0, **facts: Any
) -> tuple[PartitionHealth, PartitionDetail]:
    """A partition that holds exactly these files; ``facts`` are further fields of its health."""
    small = [file for file in found if file.size_bytes < 75 * MB]
    health = PartitionHealth(
        spec_id=spec_id,
        partition=values,
        data_files=len(found),
        data_bytes=sum(file.size_bytes for file in found),
        rows=sum(file.rows for file in found),
        small_files=len(small),
        small_bytes=sum(file.size_bytes for file in small),
        **facts,
    )
    return health, PartitionDetail(spec_id=spec_id, partition=values, files=tuple(found))


class Example:
    """A table made of partitions, and the plan for it."""

    def __init__(
        self,
        parts: Iterable[tuple[PartitionHealth, PartitionDetail]] = (),
        specs: tuple[Spec, ...] = (BY_DAY,),
        **facts: Any,
    ) -> None:
        self.parts = list(parts)
        head = SnapshotInfo(snapshot_id=9, parent_id=None, timestamp_ms=NOW_MS - 30 * DAY_MS, operation="append")
        self.health = TableHealth(
            **{
                "catalog": "lake",
                "table": "shop.events",
                "table_uuid": "u",
                "location": "file:/w/shop/events",
                "format_version": 2,
                "snapshot_id": 9,
                "current_spec_id": specs[-1].spec_id,
                "judged_at_ms": NOW_MS,
                "specs": specs,
                "partitions": tuple(health for health, _ in self.parts),
                "snapshots": (head,),
                "refs": (RefInfo(name="main", type="branch", snapshot_id=9),),
                **facts,
            }
        )

    def plan(
        self,
        table_policy: TablePolicy | None = None,
        parameters: RunParameters | None = None,
        *,
        selected: frozenset[Key] | None = None,
        prices: Prices | None = None,
        throughput: float | None = None,
        last_orphan_sweep_ms: int | None = NOW_MS,
    ) -> Plan:
        table_policy = table_policy or policy()
        parameters = parameters or RunParameters()
        wanted = candidates(self.health, table_policy, parameters, NOW_MS, selected)
        details = {(detail.spec_id, detail.partition): detail for _, detail in self.parts}
        return make_plan(
            self.health,
            {key: details[key] for key in wanted},
            table_policy,
            prices or Prices(),
            parameters,
            run_id="run-1",
            now_ms=NOW_MS,
            selected=selected,
            throughput=throughput,
            last_orphan_sweep_ms=last_orphan_sweep_ms,
        )


def decisions(plan: Plan) -> dict[Any, tuple[str, str]]:
    """(decision, reason) by the partition's first value."""
    return {next(iter(row.partition.values())): (row.decision, row.reason) for row in plan.rewrite.partitions}

"""How long it takes to plan many candidate partitions, and how large the filters become.

    python benchmarks/plan.py [--partitions 100000] [--files 12] [--save benchmarks/results/plan.json]

Health and file details are made in memory: this is the plan alone, from judged partitions to the finished document.
Every partition is a candidate and no budget stops any, which is the worst case.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_iceberg_compaction.documents import Plan
from airflow_iceberg_compaction.health.model import (
    DataFileDetail,
    PartitionDetail,
    PartitionField,
    PartitionHealth,
    RefInfo,
    SnapshotInfo,
    Spec,
    TableHealth,
)
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.planner import candidates, make_plan
from airflow_iceberg_compaction.plan.predicate import partitions_filter
from airflow_iceberg_compaction.policy.model import Prices, TablePolicy

NOW_MS = 1_800_000_000_000
MB = 1_000_000
SPEC = Spec(
    spec_id=0,
    fields=(
        PartitionField(name="day", transform="day", source_name="ts", source_type="timestamptz", result_type="date"),
        PartitionField(name="b", transform="bucket[16]", source_name="id", source_type="long", result_type="int"),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of the plan.")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=12, help="data files of each partition")
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    health, details = make(args.partitions, args.files)
    policy = TablePolicy.model_validate(
        {
            "name": "shop.events",
            "thresholds": {"min_small_files": 5},
            "rewrite": {"target_file_size": 128 * MB, "max_files": None, "max_bytes": None},
        }
    )
    parameters = RunParameters()
    results: dict[str, Any] = {}
    keys = timed(results, "candidates", lambda: candidates(health, policy, parameters, NOW_MS))
    require(len(keys) == args.partitions)
    plan: Plan = timed(
        results,
        "make_plan",
        lambda: make_plan(health, details, policy, Prices(), parameters, run_id="r", now_ms=NOW_MS),
    )
    require(plan.rewrite.input_files == args.partitions * args.files)
    text = timed(results, "plan to JSON", plan.to_json)
    timed(results, "plan from JSON", lambda: Plan.from_json(text))
    scattered = [(2 * n, n % 16) for n in range(5000)]
    filter = timed(results, "filter of 5,000 scattered partitions", lambda: partitions_filter(SPEC, scattered))
    results["partitions"], results["files"] = args.partitions, args.partitions * args.files
    results["batches"] = len(plan.rewrite.batches)
    results["plan megabytes"] = round(len(text) / MB, 1)
    results["filter kilobytes"] = round(len(json.dumps(filter)) / 1000, 1)
    for name, value in results.items():
        print(f"{name:40s} {value:>12,}{' CPU s' if isinstance(value, float) and 'bytes' not in name else ''}")
    if args.save:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        document = {"python": platform.python_version(), "machine": platform.machine(), **results}
        args.save.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def require(condition: bool) -> None:
    if not condition:
        raise SystemExit("the plan is not what this benchmark means to measure")


def timed(results: dict[str, Any], name: str, work: Callable[[], Any]) -> Any:
    """CPU seconds, since all of it is one thread: the best of three, the first of which warms up the interpreter."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        value = work()
        best = min(best, time.process_time() - started)
    results[name] = round(best, 3)
    return value


def make(partitions: int, files: int) -> tuple[TableHealth, dict[Any, PartitionDetail]]:
    choose = random.Random(7)
    healths, details = [], {}
    for number in range(partitions):
        values = (number // 16, number % 16)
        found = tuple(
            DataFileDetail(
                path=f"s3://lake/shop/events/data/{number}-{i}.parquet",
                size_bytes=choose.randint(MB, 60 * MB),
                rows=10_000,
                sequence_number=1,
                attached_delete_files=0,
                file_scoped_delete_rows=0,
            )
            for i in range(files)
        )
        size = sum(file.size_bytes for file in found)
        healths.append(
            PartitionHealth(
                spec_id=0, partition=values, data_files=files, data_bytes=size, rows=files * 10_000, small_files=files
            )
        )
        details[0, values] = PartitionDetail(spec_id=0, partition=values, files=found)
    head = SnapshotInfo(snapshot_id=1, parent_id=None, timestamp_ms=NOW_MS - 10**9, operation="append")
    health = TableHealth(
        catalog="lake",
        table="shop.events",
        table_uuid="u",
        location="s3://lake/shop/events",
        format_version=2,
        snapshot_id=1,
        current_spec_id=0,
        judged_at_ms=NOW_MS,
        specs=(SPEC,),
        partitions=tuple(healths),
        snapshots=(head,),
        refs=(RefInfo(name="main", type="branch", snapshot_id=1),),
    )
    return health, details


if __name__ == "__main__":
    main()

"""Our plan against Iceberg's own planner object, on randomised tables of files that Spark wrote.

PLAN_TABLES sets how many tables are compared; `make test-plan` compares 2,000.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from random_tables import Iceberg, Pool, RandomTables

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.details import read_details
from airflow_iceberg_compaction.plan.batches import Prospect
from airflow_iceberg_compaction.plan.cost import Tariff
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.rewrite import plan_rewrite
from airflow_iceberg_compaction.plan.rules import PlannerOptions, plan_groups
from airflow_iceberg_compaction.policy.model import Prices, TablePolicy

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_iceberg_compaction.documents import RewriteSection
    from airflow_iceberg_compaction.health.model import DataFileDetail, PartitionDetail, TableHealth

pytestmark = pytest.mark.spark

TABLES = int(os.environ.get("PLAN_TABLES", "200"))
CHUNKS = 10
NOW_MS = 4_000_000_000_000

Groups = list[tuple[list[str], int]]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_plan_is_what_iceberg_would_pick(chunk: int, iceberg: Iceberg, pools: list[Pool], catalog: Catalog) -> None:
    namespace = f"dealt{chunk}"
    catalog.create_namespace(namespace)
    tables = RandomTables(iceberg, namespace, pools)
    seen = Counter[str]()
    for seed in range(chunk, TABLES, CHUNKS):
        seen += compare(iceberg, tables.deal(seed), catalog, random.Random(-seed - 1))
    # Tables that never lead to work, or always, would compare nothing.
    assert seen.keys() >= {"groups", "no groups", "batches", "no batches"}, seen


def compare(iceberg: Iceberg, name: str, catalog: Catalog, choose: random.Random) -> Counter[str]:
    loaded = catalog.load_table(name)
    policy = random_policy(name, choose)
    health = assess(loaded, policy, catalog_name="lake", table_name=name, now_ms=NOW_MS)
    assert health.cannot_judge is None
    assert health.unjudged == ()
    if health.snapshot_id is None:
        return Counter()
    details = read_details(loaded, health, [(p.spec_id, p.partition) for p in health.partitions])
    java = iceberg.load(name)
    has_groups = compare_rules(iceberg, java, health, details, choose)
    has_batches = compare_plan(iceberg, java, health, details, policy, choose)
    return Counter(["groups" if has_groups else "no groups", "batches" if has_batches else "no batches"])


def compare_rules(
    iceberg: Iceberg, java: Any, health: TableHealth, details: dict[Any, PartitionDetail], choose: random.Random
) -> bool:
    """Any options: the groups of the whole table, whether there are any or none."""
    files = pooled_files(health, details)
    # Several manifests are read in parallel, and files of several old partitions are pooled: then only groups that are
    # not split have a certain content.
    in_order = health.metadata.data_manifests == 1 and len(files) == len([d for d in details.values() if d.files])
    options = random_options(choose, splits=in_order)
    ours = [group_facts(group) for part in files.values() for group in plan_groups(part, options)]
    shuffles = options.compression_factor is not None
    theirs = iceberg.plan(java, iceberg.always_true(), planner_only(options.to_mapping()), shuffles=shuffles)
    if options.max_files_to_rewrite is None or len(files) == 1:
        assert ordered(ours) == ordered(theirs), (health.table, options)
    return bool(theirs)


def compare_plan(
    iceberg: Iceberg,
    java: Any,
    health: TableHealth,
    details: dict[Any, PartitionDetail],
    policy: TablePolicy,
    choose: random.Random,
) -> bool:
    """A policy's plan: Iceberg picks for every batch exactly what the plan says, and the plan says it of all."""
    parameters = RunParameters(force=choose.random() < 0.1, strategy=choose.choice((None, None, "sort")))
    tariff = Tariff.of(Prices(), None, 7.0)
    section, chosen = plan_rewrite(health, details, policy, parameters, tariff, NOW_MS)
    by_batch: dict[str, list[Prospect]] = defaultdict(list)
    ids = batch_ids(section, health)
    for prospect in chosen:
        by_batch[ids[prospect.key]].append(prospect)
    for batch in section.batches:
        ours = [group_facts(group) for prospect in by_batch[batch.batch_id] for group in prospect.groups]
        expression = iceberg.expression(json.dumps(batch.filter), java)
        shuffles = section.strategy != "binpack"
        theirs = iceberg.plan(java, expression, planner_only(batch.options), shuffles=shuffles)
        assert ordered(ours) == ordered(theirs), (health.table, batch)
        assert (batch.groups, batch.output_files) == (len(theirs), sum(count for _, count in theirs))
        assert batch.input_files == sum(len(paths) for paths, _ in theirs)
    return bool(section.batches)


def batch_ids(section: RewriteSection, health: TableHealth) -> dict[Any, str]:
    from airflow_iceberg_compaction.health.values import human_partition

    named = {
        (p.spec_id, json.dumps(human_partition(health.spec(p.spec_id), p.partition))): (p.spec_id, p.partition)
        for p in health.partitions
    }
    rows = ((named[row.spec_id, json.dumps(row.partition)], row.batch_id) for row in section.partitions)
    return {key: batch_id for key, batch_id in rows if batch_id is not None}


def pooled_files(health: TableHealth, details: dict[Any, PartitionDetail]) -> dict[Any, list[DataFileDetail]]:
    """Files as Iceberg groups them: those of former specs go with the partition of nulls of the current one."""
    nulls = (None,) * len(health.spec(health.current_spec_id).fields)
    files: dict[Any, list[DataFileDetail]] = defaultdict(list)
    for (spec_id, partition), detail in details.items():
        files[partition if spec_id == health.current_spec_id else nulls] += detail.files
    return {key: part for key, part in files.items() if part}


def group_facts(group: Any) -> tuple[list[str], int]:
    return [file.path for file in group.files], group.output_files


def ordered(groups: Groups) -> list[tuple[list[str], int]]:
    return sorted((sorted(paths), count) for paths, count in groups)


def planner_only(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "use-starting-sequence-number"}


def random_options(choose: random.Random, *, splits: bool) -> PlannerOptions:
    target = choose.randint(2_500, 40_000)
    minimum = choose.randint(0, target - 1)
    return PlannerOptions(
        target_file_size_bytes=target,
        min_file_size_bytes=minimum,
        max_file_size_bytes=target + choose.randint(1, target),
        min_input_files=choose.randint(1, 8),
        delete_file_threshold=choose.choice((0, 1, 2, 3, 2**31 - 1)),
        delete_ratio_threshold=choose.choice((0.01, 0.3, 0.5, 1.0)),
        max_file_group_size_bytes=choose.randint(3_000, 60_000) if splits else 100 * 1024**3,
        rewrite_all=choose.random() < 0.1,
        max_files_to_rewrite=choose.choice((None, None, 3)) if splits else None,
        compression_factor=choose.choice((None, None, 1.0, 0.4, 2.5)),
    )


def random_policy(name: str, choose: random.Random) -> TablePolicy:
    target = choose.randint(3_000, 40_000)
    return TablePolicy.model_validate(
        {
            "name": name,
            "thresholds": {
                "small_file_size": choose.randint(1, 30_000),
                "min_small_files": choose.randint(1, 6),
                "delete_files": choose.randint(1, 6),
                "delete_ratio": choose.choice((0.1, 0.5)),
            },
            "rewrite": {
                "target_file_size": target,
                "min_input_files": choose.randint(1, 6),
                "min_quiet": timedelta(0),
                "sort_order": ("id",),
                "old_specs": choose.random() < 0.3,
            },
        }
    )

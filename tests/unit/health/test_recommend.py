from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from made_tables import File, TableMaker, position_delete
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction import recommend as module
from airflow_iceberg_compaction.health.cache import ManifestCache
from airflow_iceberg_compaction.health.triage import proof_of_health
from airflow_iceberg_compaction.policy.model import Rewrite, TablePolicy, Thresholds
from airflow_iceberg_compaction.recommend import recommend

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
POLICY = TablePolicy(
    name="db.made", check_interval=5, thresholds=Thresholds(small_file_size=500, min_small_files=3, delete_files=2)
)
PATIENT = 60.0


def table_with(tmp_path: Path, *files: File, deletes: tuple[File, ...] = ()) -> TableMaker:
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    manifests = [maker.manifest(files)] + ([maker.manifest(deletes, deletes=True)] if deletes else [])
    maker.snapshot(*manifests)
    return maker


def after_commits(maker: TableMaker, commits: int) -> Table:
    return maker.table(last_sequence_number=commits)


@pytest.fixture
def cache(tmp_path: Path) -> ManifestCache:
    return ManifestCache(tmp_path / "cache.db")


def test_many_small_files_in_one_partition_are_worth_compacting(tmp_path: Path, cache: ManifestCache) -> None:
    maker = table_with(tmp_path, *[File(("eu",), size=1)] * 3, File(("us",), size=1), File(("us",), size=900))
    answer = recommend(after_commits(maker, 10), POLICY, cache=cache, max_wait_seconds=PATIENT)
    assert answer == {"compaction_recommended": True, "small_files_count": 4}


def test_as_many_in_different_partitions_are_not(tmp_path: Path, cache: ManifestCache) -> None:
    maker = table_with(tmp_path, *[File((region,), size=1) for region in ("a", "b", "c")])
    answer = recommend(after_commits(maker, 10), POLICY, cache=cache, max_wait_seconds=PATIENT)
    assert answer == {"compaction_recommended": False, "small_files_count": 3}


def test_only_every_nth_commit_is_looked_at(tmp_path: Path, cache: ManifestCache) -> None:
    maker = table_with(tmp_path, *[File(("eu",), size=1)] * 3)
    answers = [
        recommend(after_commits(maker, commits), POLICY, cache=cache, max_wait_seconds=PATIENT)["small_files_count"]
        for commits in (3, 4, 5, 6)
    ]
    assert answers == [0, 0, 3, 3]


def test_an_nth_commit_by_another_writer_is_not_missed(tmp_path: Path, cache: ManifestCache) -> None:
    maker = table_with(tmp_path, *[File(("eu",), size=1)] * 3)
    assert recommend(after_commits(maker, 4), POLICY, cache=cache, max_wait_seconds=PATIENT)["small_files_count"] == 0
    assert recommend(after_commits(maker, 6), POLICY, cache=cache, max_wait_seconds=PATIENT)["small_files_count"] == 3


def test_a_slow_look_does_not_hold_the_writer_and_answers_later(
    tmp_path: Path, cache: ManifestCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    real = module._assess

    def slow(*args: Any) -> Any:
        release.wait(PATIENT)
        return real(*args)

    monkeypatch.setattr(module, "_assess", slow)
    maker = table_with(tmp_path, *[File(("eu",), size=1)] * 3)
    assert recommend(after_commits(maker, 5), POLICY, cache=cache, max_wait_seconds=0)["small_files_count"] == 0
    release.set()
    assert recommend(after_commits(maker, 6), POLICY, cache=cache, max_wait_seconds=PATIENT)["small_files_count"] == 3


def test_a_damaged_table_never_breaks_the_writer(
    tmp_path: Path, cache: ManifestCache, caplog: pytest.LogCaptureFixture
) -> None:
    maker = table_with(tmp_path, File(("eu",)))
    Path(maker.snapshots[0]["manifest-list"].removeprefix("file://")).unlink()
    with caplog.at_level(logging.WARNING):
        answer = recommend(after_commits(maker, 5), POLICY, cache=cache, max_wait_seconds=PATIENT)
    assert answer == {"compaction_recommended": False, "small_files_count": 0}
    assert "No compaction recommendation" in caplog.text


def test_something_that_is_no_table_never_breaks_the_writer() -> None:
    nonsense: Any = object()
    assert recommend(nonsense) == {"compaction_recommended": False, "small_files_count": 0}


def test_a_writer_without_a_policy_gets_the_built_in_thresholds(tmp_path: Path, cache: ManifestCache) -> None:
    maker = table_with(tmp_path, *[File(("eu",), size=1)] * 20)
    assert recommend(after_commits(maker, 100), cache=cache, max_wait_seconds=PATIENT)["compaction_recommended"]


def test_too_few_files_without_deletes_prove_health(tmp_path: Path) -> None:
    table = table_with(tmp_path, File(("eu",), size=1), File(("eu",), size=1)).table()
    assert proof_of_health(table, POLICY) == "2 data files in all, fewer than min_small_files = 3, and no deletes"


def test_an_empty_table_is_healthy(tmp_path: Path) -> None:
    assert proof_of_health(TableMaker(tmp_path, SCHEMA, BY_REGION).table(), POLICY) == "the table has no snapshot"


def test_what_might_be_sick_is_not_proven_healthy(tmp_path: Path) -> None:
    assert proof_of_health(table_with(tmp_path, *[File(("eu",))] * 3).table(), POLICY) is None
    deletes = (position_delete(("eu",)),)
    assert proof_of_health(table_with(tmp_path, File(("eu",)), deletes=deletes).table(), POLICY) is None
    due = POLICY.model_copy(update={"rewrite": Rewrite(full_every="1d")})
    assert proof_of_health(table_with(tmp_path, File(("eu",))).table(), due) is None
    damaged = table_with(tmp_path, File(("eu",)))
    Path(damaged.snapshots[0]["manifest-list"].removeprefix("file://")).unlink()
    assert proof_of_health(damaged.table(), POLICY) is None


def test_a_writer_of_a_real_table_asks_after_each_append(
    catalog: Catalog, namespace: str, cache: ManifestCache
) -> None:
    """The documented example, on a table that PyIceberg writes."""
    table = catalog.create_table(f"{namespace}.events", SCHEMA)
    big_enough = Thresholds(small_file_size=10_000, min_small_files=3)
    policy = POLICY.model_copy(update={"check_interval": 2, "thresholds": big_enough})
    answers = []
    for _ in range(6):
        table.append(pa.table({"id": [1], "region": ["eu"]}, schema=table.schema().as_arrow()))
        answers.append(recommend(table, policy, cache=cache, max_wait_seconds=PATIENT))
    assert [answer["small_files_count"] for answer in answers] == [0, 2, 2, 4, 4, 6]
    assert [answer["compaction_recommended"] for answer in answers] == [False, False, False, True, True, True]

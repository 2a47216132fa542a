from __future__ import annotations

from datetime import timedelta
from typing import Any

from plan_examples import BY_DAY, BY_NAME, DAY_MS, HOUR_MS, NOW_MS, Example, files, partition, policy

from airflow_iceberg_compaction.health.model import MetadataHealth, RefInfo, SnapshotInfo, Spec
from airflow_iceberg_compaction.plan.parameters import RunParameters

UNPARTITIONED = Spec(spec_id=0, fields=())


def snapshots(*ages_days: int, **head_summary: str) -> tuple[SnapshotInfo, ...]:
    return tuple(
        SnapshotInfo(
            snapshot_id=number,
            parent_id=number - 1 or None,
            timestamp_ms=NOW_MS - age * DAY_MS,
            operation="append",
            summary={key.replace("_", "-"): value for key, value in head_summary.items()},
        )
        for number, age in enumerate(ages_days, start=1)
    )


def with_log(*ages_days: int, **facts: Any) -> Example:
    log = snapshots(*ages_days)
    main = RefInfo(name="main", type="branch", snapshot_id=len(log))
    return Example(snapshots=log, refs=(main,), snapshot_id=len(log), **facts)


# ------------------------------------------------------------------------------------------------------- delete files


def test_dangling_deletes_are_removed() -> None:
    section = (
        Example([partition((1,), files(100), equality_delete_files=3, dangling_delete_files=3)]).plan().delete_files
    )
    assert (section.remove_dangling, section.dangling_delete_files) == (True, 3)


def test_a_table_that_never_had_partitions_needs_no_removal() -> None:
    table = Example(
        [partition((), files(100), equality_delete_files=3, dangling_delete_files=3)], specs=(UNPARTITIONED,)
    )
    section = table.plan().delete_files
    assert not section.remove_dangling
    assert "they stay" in section.reason


def test_deletes_of_the_whole_table_forbid_the_removal() -> None:
    parts = [partition((1,), files(100), equality_delete_files=3, dangling_delete_files=3)]
    section = Example(parts, global_equality_delete_files=1).plan().delete_files
    assert not section.remove_dangling
    assert "would drop them too" in section.reason


def test_deletes_that_the_planned_rewrite_applies_are_removed_in_the_same_run() -> None:
    part = partition((1,), files(100, deletes=12), equality_delete_files=12, applied_delete_files=12)
    section = Example([part]).plan().delete_files
    assert section.remove_dangling
    assert "12 more after the rewrite" in section.reason


def test_a_partition_that_is_rewritten_in_part_keeps_its_deletes() -> None:
    found = files(100, deletes=12) + files(100)
    part = partition((1,), found, equality_delete_files=12, applied_delete_files=12)
    plan = Example([part]).plan()
    assert plan.rewrite.input_files == 1
    assert not plan.delete_files.remove_dangling


def test_deletes_that_name_a_rewritten_file_are_removed_in_the_same_run() -> None:
    found = files(100, deletes=1, deleted_rows=5) + files(100)
    facts = {"position_delete_files": 1, "file_scoped_position_delete_files": 1, "applied_delete_files": 1}
    plan = Example([partition((1,), found, **facts)]).plan(policy(thresholds={"delete_ratio": 0.1}))
    assert plan.rewrite.input_files == 1
    assert plan.delete_files.remove_dangling


def test_position_deletes_are_compacted_when_they_outnumber_their_data_files() -> None:
    crowded = partition((1,), files(100, 100), position_delete_files=12, delete_bytes=12_000)
    section = Example([crowded]).plan(policy(delete_files={"min_position_delete_files": 10})).delete_files
    assert section.rewrite_position_deletes
    assert section.options["min-input-files"] == "2"
    assert not Example([crowded]).plan(policy(delete_files={"min_position_delete_files": 11})).delete_files.options


def test_one_position_delete_for_each_data_file_cannot_be_fewer() -> None:
    spread = [
        partition((day,), files(100, 100), position_delete_files=2, file_scoped_position_delete_files=2, delete_bytes=9)
        for day in range(50)
    ]
    assert not Example(spread).plan().has_work("delete_files")


def test_large_position_deletes_are_left_as_iceberg_would_leave_them() -> None:
    large = partition((1,), files(100), position_delete_files=20, delete_bytes=20 * 60 * 1024**2)
    assert not Example([large]).plan().has_work("delete_files")


def test_leftovers_of_version_2_are_turned_into_vectors_in_version_3() -> None:
    part = partition((1,), files(100, 100), position_delete_files=2, delete_bytes=2000)
    assert Example([part], format_version=3).plan().delete_files.rewrite_position_deletes
    assert not Example([part], format_version=2).plan().delete_files.rewrite_position_deletes
    single = partition((1,), files(100, 100), position_delete_files=1, delete_bytes=2000)
    assert not Example([single], format_version=3).plan().delete_files.rewrite_position_deletes


def test_switched_off_delete_files_are_counted_and_left() -> None:
    part = partition((1,), files(100), equality_delete_files=3, dangling_delete_files=3)
    section = Example([part]).plan(policy(delete_files={"enabled": False})).delete_files
    assert (section.remove_dangling, section.dangling_delete_files) == (False, 3)


# ---------------------------------------------------------------------------------------------------------- manifests


def manifests(count: int, size: int, deletes: int = 0, spec_id: int = 0) -> MetadataHealth:
    return MetadataHealth(
        data_manifests=count - deletes,
        delete_manifests=deletes,
        manifest_bytes=size,
        manifests_by_spec={spec_id: (count, size)},
        target_manifest_bytes=1000,
    )


def test_many_small_manifests_are_joined() -> None:
    section = Example(metadata=manifests(40, 9_500)).plan().manifests
    assert (section.rewrite, section.spec_ids, section.manifests, section.ideal_manifests) == (True, (0,), 40, 10)


def test_few_or_full_manifests_are_left() -> None:
    assert not Example(metadata=manifests(19, 1_000)).plan().manifests.rewrite
    assert not Example(metadata=manifests(40, 20_000)).plan().manifests.rewrite
    assert not Example(metadata=manifests(40, 9_500)).plan(policy(manifests={"enabled": False})).manifests.rewrite


def test_one_manifest_of_data_and_one_of_deletes_cannot_be_fewer() -> None:
    eager = policy(manifests={"min_manifests": 1, "max_ratio": 1.0})
    assert not Example(metadata=manifests(2, 10, deletes=1)).plan(eager).manifests.rewrite
    assert Example(metadata=manifests(3, 10, deletes=1)).plan(eager).manifests.rewrite


# ------------------------------------------------------------------------------------------------------------- expiry


def test_snapshots_past_their_retention_are_listed() -> None:
    section = with_log(30, 20, 1).plan(policy(expire_snapshots={"older_than": "7d", "retain_last": 1})).expire
    assert section.snapshots == (1, 2)
    assert section.older_than_ms == NOW_MS - 7 * DAY_MS


def test_the_run_may_shorten_retention_or_leave_expiry_out() -> None:
    example, lenient = with_log(3, 2, 1), policy(expire_snapshots={"older_than": "7d", "retain_last": 1})
    assert not example.plan(lenient).has_work("expire")
    assert example.plan(lenient, RunParameters(snapshot_retention_hours=36)).expire.snapshots == (1, 2)
    off = RunParameters(snapshot_retention_hours=36, expire_snapshots=False)
    assert not example.plan(lenient, off).has_work("expire")


def test_the_run_may_expire_where_the_policy_does_not() -> None:
    off = policy(expire_snapshots={"enabled": False, "older_than": "7d", "retain_last": 1})
    assert not with_log(30, 1).plan(off).has_work("expire")
    assert with_log(30, 1).plan(off, RunParameters(expire_snapshots=True)).expire.snapshots == (1,)


def test_a_table_that_forbids_garbage_collection_keeps_snapshots_and_orphans() -> None:
    example = with_log(30, 1, properties={"gc.enabled": "false"})
    plan = example.plan(policy(expire_snapshots={"retain_last": 1}), last_orphan_sweep_ms=None)
    assert not plan.has_work("expire")
    assert not plan.has_work("orphans")
    assert "gc.enabled" in plan.expire.reason


# ------------------------------------------------------------------------------------------------------------ orphans


def test_a_sweep_is_due_when_there_was_none_or_the_last_is_long_ago() -> None:
    weekly = policy(orphan_files={"every": timedelta(days=7)})
    example = Example([partition((1,), files(100))])
    assert example.plan(weekly, last_orphan_sweep_ms=None).orphans.due
    assert example.plan(weekly, last_orphan_sweep_ms=NOW_MS - 7 * DAY_MS).orphans.due
    assert not example.plan(weekly, last_orphan_sweep_ms=NOW_MS - 7 * DAY_MS + HOUR_MS).orphans.due


def test_orphans_switched_off_are_never_due() -> None:
    assert not Example().plan(policy(orphan_files={"mode": "off"}), last_orphan_sweep_ms=None).orphans.due


def test_specs_are_named_where_manifests_are_many() -> None:
    section = Example(specs=(BY_DAY, BY_NAME), metadata=manifests(40, 100, spec_id=2)).plan().manifests
    assert section.spec_ids == (2,)

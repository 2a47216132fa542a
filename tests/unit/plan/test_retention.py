from __future__ import annotations

from airflow_iceberg_compaction.health.model import RefInfo, SnapshotInfo
from airflow_iceberg_compaction.plan.retention import expired_snapshots

NOW = 1_000_000


def log(*ages: int) -> list[SnapshotInfo]:
    """A line of snapshots with ids 1, 2, ... and the given ages."""
    return [
        SnapshotInfo(snapshot_id=i, parent_id=i - 1 if i > 1 else None, timestamp_ms=NOW - age, operation="append")
        for i, age in enumerate(ages, start=1)
    ]


def branch(snapshot_id: int, name: str = "main", **settings: int) -> RefInfo:
    return RefInfo(name=name, type="branch", snapshot_id=snapshot_id, **settings)  # type: ignore[arg-type]


def tag(snapshot_id: int, **settings: int) -> RefInfo:
    return RefInfo(name="t", type="tag", snapshot_id=snapshot_id, **settings)  # type: ignore[arg-type]


def gone(
    snapshots: list[SnapshotInfo], *refs: RefInfo, older_than: int = 100, retain_last: int = 1, **properties: str
) -> tuple[int, ...]:
    return expired_snapshots(
        snapshots,
        refs,
        {name.replace("_", "."): value for name, value in properties.items()},
        older_than_ms=NOW - older_than,
        retain_last=retain_last,
        now_ms=NOW,
    )


def test_snapshots_older_than_the_cutoff_go_and_the_head_stays() -> None:
    assert gone(log(400, 300, 200), branch(3)) == (1, 2)


def test_the_last_ones_are_kept_whatever_their_age() -> None:
    assert gone(log(400, 300, 200), branch(3), retain_last=3) == ()


def test_a_snapshot_as_old_as_the_cutoff_stays() -> None:
    assert gone(log(101, 100, 1), branch(3)) == (1,)


def test_a_young_ancestor_behind_an_old_one_goes_with_it() -> None:
    assert set(gone(log(50, 400, 1), branch(3))) == {1, 2}


def test_a_tag_keeps_its_snapshot_and_no_ancestor() -> None:
    assert gone(log(400, 300, 200, 1), branch(4), tag(2)) == (1, 3)


def test_a_tag_past_its_age_keeps_nothing() -> None:
    assert gone(log(400, 300, 1), branch(3), tag(2, max_ref_age_ms=299)) == (1, 2)
    assert gone(log(400, 300, 1), branch(3), tag(2, max_ref_age_ms=300)) == (1,)


def test_a_branch_has_settings_of_its_own() -> None:
    snapshots = log(400, 300, 200)
    assert gone(snapshots, branch(3, max_snapshot_age_ms=300)) == (1,)
    assert gone(snapshots, branch(3, min_snapshots_to_keep=2)) == (1,)


def test_another_branch_keeps_its_own_line() -> None:
    side = SnapshotInfo(snapshot_id=9, parent_id=1, timestamp_ms=NOW - 300, operation="append")
    assert gone([*log(400, 300, 200), side], branch(3), branch(9, "audit")) == (1, 2)


def test_what_no_ref_reaches_goes_by_age_alone() -> None:
    old = SnapshotInfo(snapshot_id=8, parent_id=1, timestamp_ms=NOW - 101, operation="append")
    young = SnapshotInfo(snapshot_id=9, parent_id=1, timestamp_ms=NOW - 100, operation="append")
    assert gone([*log(50, 1), old, young], branch(2), retain_last=9) == (8,)


def test_a_ref_without_a_snapshot_protects_nothing() -> None:
    assert gone(log(400, 1), branch(2), tag(77)) == (1,)


def test_a_table_property_ages_refs_out() -> None:
    snapshots = log(400, 300, 1)
    properties = {"history.expire.max-ref-age-ms": "10"}
    assert expired_snapshots(
        snapshots, [branch(3), tag(2)], properties, older_than_ms=NOW - 100, retain_last=1, now_ms=NOW
    ) == (1, 2)

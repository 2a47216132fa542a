from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from made_tables import File, TableMaker, position_delete
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.cache import ManifestCache
from airflow_iceberg_compaction.health.model import TableHealth
from airflow_iceberg_compaction.policy.model import TablePolicy, Thresholds

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
DAY = 24 * 3600


def judged(table: Table, cache: ManifestCache | None, small: int = 500) -> TableHealth:
    policy = TablePolicy(name="db.made", thresholds=Thresholds(small_file_size=small))
    return assess(table, policy, catalog_name="lake", table_name="db.made", now_ms=0, cache=cache)


def growing_table(tmp_path: Path) -> TableMaker:
    """Two snapshots: the second adds one manifest to the two of the first."""
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    first = [
        maker.manifest([File(("eu",)), File((None,), size=3)]),
        maker.manifest([position_delete(("eu",))], deletes=True),
    ]
    maker.snapshot(*first, snapshot_id=1)
    more = maker.manifest([File(("eu",)), File((None,), size=3)], sequence=2, snapshot=2)
    maker.snapshot(*first, more, snapshot_id=2)
    return maker


def at_first_snapshot(maker: TableMaker) -> Table:
    return maker.table(refs={"main": {"snapshot-id": 1, "type": "branch"}}, current_snapshot_id=1)


def test_a_judged_snapshot_is_not_read_again(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "deep" / "cache.db")
    table = growing_table(tmp_path).table()
    cold, warm = judged(table, cache), judged(table, cache)
    assert (cold.stage, cold.manifests_read, cold.manifests_cached) == (1, 3, 0)
    assert (warm.stage, warm.manifests_read, warm.manifests_cached) == (0, 0, 0)
    assert warm.partitions == cold.partitions == judged(table, None).partitions
    assert warm.metadata == cold.metadata


def test_a_new_snapshot_reads_only_its_new_manifests(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    maker = growing_table(tmp_path)
    judged(at_first_snapshot(maker), cache)
    health = judged(maker.table(), cache)
    assert (health.manifests_read, health.manifests_cached) == (1, 2)
    assert health.partitions == judged(maker.table(), None).partitions


def test_the_first_delete_of_a_table_has_data_manifests_read_for_the_paths_in_them(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    maker = TableMaker(tmp_path, SCHEMA, BY_REGION)
    file = File(("eu",))
    data = maker.manifest([file])
    deletes = [position_delete(("eu",), target=path) for path in (file.path, "gone")]
    maker.snapshot(data, snapshot_id=1)
    maker.snapshot(data, maker.manifest(deletes, deletes=True, sequence=2, snapshot=2), snapshot_id=2)
    judged(at_first_snapshot(maker), cache)
    health = judged(maker.table(), cache)
    assert (health.manifests_read, health.manifests_cached) == (2, 0)
    assert [partition.dangling_delete_files for partition in health.partitions] == [1]


def test_other_thresholds_are_another_question(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    table = growing_table(tmp_path).table()
    judged(table, cache)
    health = judged(table, cache, small=2000)
    assert health.manifests_read == 3
    assert sum(partition.small_files for partition in health.partitions) == 4
    assert judged(table, cache).partitions == judged(table, None).partitions


def test_a_value_that_changed_on_disk_is_not_believed(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    table = growing_table(tmp_path).table()
    expected = judged(table, cache).partitions
    with sqlite3.connect(cache.path) as database:
        database.execute("UPDATE entry SET value = replace(CAST(value AS TEXT), '1000', '2000')")
    health = judged(table, cache)
    assert (health.stage, health.manifests_read) == (1, 3)
    assert health.partitions == expected
    assert judged(table, cache).stage == 0


def test_a_value_cannot_be_passed_off_as_that_of_another_manifest(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    cache.put({"a": b"of a", "b": b"of b"}, "m")
    with sqlite3.connect(cache.path) as database:
        [(value, digest)] = database.execute("SELECT value, digest FROM entry WHERE name = 'b'")
        database.execute("UPDATE entry SET value = ?, digest = ? WHERE name = 'a'", (value, digest))
    assert cache.get(["a", "b"], "m") == {"b": b"of b"}


@pytest.mark.parametrize("damage", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_replaced(tmp_path: Path, damage: bytes) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    cache.path.write_bytes(damage)
    cache.put({"a": b"1"}, "m")
    assert cache.get(["a"], "m") == {"a": b"1"}


def test_a_database_damaged_in_the_middle_is_replaced(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    cache.put({f"name {n}": bytes(2000) for n in range(200)}, "m")
    with sqlite3.connect(cache.path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(cache.path.read_bytes())
    content[8192:-4096] = b"\xa5" * (len(content) - 12288)
    cache.path.write_bytes(content)
    cache.get([f"name {n}" for n in range(200)], "m")
    cache.put({"a": b"1"}, "m")
    assert cache.get(["a"], "m") == {"a": b"1"}


def test_a_cache_of_another_version_starts_anew(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    cache.put({"a": b"1"}, "m")
    with sqlite3.connect(cache.path) as database:
        database.execute("PRAGMA user_version = 99")
    assert cache.get(["a"], "m") == {}
    cache.put({"a": b"2"}, "m")
    assert cache.get(["a"], "m") == {"a": b"2"}


def test_deleting_the_file_at_any_time_is_harmless(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    cache.put({"a": b"1"}, "m")
    for leftover in tmp_path.glob("cache.db*"):
        leftover.unlink()
    assert cache.get(["a"], "m") == {}
    cache.put({"a": b"1"}, "m")
    assert cache.get(["a"], "m") == {"a": b"1"}


def test_a_folder_that_cannot_be_written_is_a_slower_assessment_not_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ManifestCache(tmp_path / "file" / "cache.db")
    table = growing_table(tmp_path).table()
    assert judged(table, cache).partitions == judged(table, None).partitions


def test_what_nobody_used_for_a_month_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    now = [0.0]
    cache = ManifestCache(tmp_path / "cache.db", clock=lambda: now[0])
    cache.put({"used": b"1", "forgotten": b"2"}, "m")
    now[0] = 20 * DAY
    cache.get(["used"], "m")
    now[0] = 40 * DAY
    cache.put({"new": b"3"}, "m")
    assert cache.get(["used", "forgotten", "new"], "m") == {"used": b"1", "new": b"3"}


def test_beyond_its_size_the_longest_unused_goes_first(tmp_path: Path) -> None:
    now = [0.0]
    cache = ManifestCache(tmp_path / "cache.db", max_bytes=400_000, clock=lambda: now[0])
    for n in range(100):
        now[0] = n
        cache.put({f"n{n}": bytes(10_000)}, "m")
    kept = cache.get([f"n{n}" for n in range(100)], "m")
    assert "n99" in kept
    assert "n0" not in kept
    assert 10 <= len(kept) <= 40


def test_many_names_are_looked_up_at_once(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    values = {f"n{n}": str(n).encode() for n in range(2500)}
    cache.put(values, "m")
    assert cache.get(list(values), "m") == values


def test_processes_share_one_cache(tmp_path: Path) -> None:
    script = (
        "import sys; from airflow_iceberg_compaction.health.cache import ManifestCache\n"
        "cache = ManifestCache(sys.argv[1])\n"
        "for n in range(50): cache.put({f'{sys.argv[2]}-{n}': b'x' * 1000}, 'm')\n"
    )
    path = tmp_path / "cache.db"
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), str(n)]) for n in range(4)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0, 0]
    names = [f"{writer}-{n}" for writer in range(4) for n in range(50)]
    assert len(ManifestCache(path).get(names, "m")) == 200


def test_properties_are_read_anew_even_if_the_snapshot_was_judged(tmp_path: Path) -> None:
    cache = ManifestCache(tmp_path / "cache.db")
    maker = growing_table(tmp_path)
    judged(maker.table(), cache)
    maker.properties = {"commit.manifest.target-size-bytes": "1024", "write.target-file-size-bytes": "nonsense"}
    warm = judged(maker.table(), cache)
    assert warm.stage == 0
    assert warm.metadata.target_manifest_bytes == 1024

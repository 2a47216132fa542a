from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from airflow_iceberg_compaction.documents import DeleteFilesSection, ExpireSection, ManifestsSection, OrphansSection

pytestmark = pytest.mark.spark

DAY_MS = 24 * 3600 * 1000


def now_ms() -> int:
    return int(time.time() * 1000)


def snapshot_ids(on_lake, table: str) -> list[int]:
    return [row[0] for row in on_lake.sql(f"SELECT snapshot_id FROM lake.{table}.snapshots ORDER BY committed_at")]


def test_snapshots_go_by_the_cut_off_of_the_plan_and_never_beyond_it(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=5)
    ids = snapshot_ids(on_lake, table)
    cut_off = now_ms()
    plan = on_lake.plan(
        table, expire=ExpireSection(older_than_ms=cut_off, retain_last=3, snapshots=tuple(ids[:2]), reason="test")
    )
    on_lake.fill(table, files=2, start=1000)  # two commits after the plan, such as those of its own rewrite
    new = snapshot_ids(on_lake, table)[5:]
    before = on_lake.rows(table)
    code, result = on_lake.run(plan, sections=["expire"])
    assert code == 0
    # The two newcomers count among the three to retain, so two more than planned were pushed out.
    assert snapshot_ids(on_lake, table) == [ids[4], *new]
    assert on_lake.step(result, "expire").numbers["snapshots_expired"] == 4
    assert on_lake.rows(table) == before


def test_a_snapshot_that_got_a_tag_after_planning_is_kept(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=4)
    ids = snapshot_ids(on_lake, table)
    plan = on_lake.plan(
        table, expire=ExpireSection(older_than_ms=now_ms(), retain_last=1, snapshots=tuple(ids[:3]), reason="test")
    )
    on_lake.sql(f"ALTER TABLE lake.{table} CREATE TAG audit AS OF VERSION {ids[1]}")
    code, result = on_lake.run(plan, sections=["expire"])
    assert code == 0
    assert snapshot_ids(on_lake, table) == [ids[1], ids[3]]
    assert "tag" in on_lake.step(result, "expire").reason


def test_expiring_twice_finds_nothing_the_second_time(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=3)
    plan = on_lake.plan(
        table,
        expire=ExpireSection(older_than_ms=now_ms(), snapshots=tuple(snapshot_ids(on_lake, table)[:2]), reason="test"),
    )
    on_lake.run(plan, sections=["expire"])
    code, result = on_lake.run(plan, sections=["expire"])
    assert code == 0
    assert on_lake.step(result, "expire").outcome == "nothing_to_do"


def test_manifests_are_merged_and_data_stays_untouched(on_lake) -> None:
    table = on_lake.create(commit__manifest_merge__enabled="false")
    on_lake.fill(table, files=6)
    before = on_lake.rows(table)
    assert on_lake.sql(f"SELECT count(*) FROM lake.{table}.manifests") == [(6,)]
    plan = on_lake.plan(table, manifests=ManifestsSection(rewrite=True, spec_ids=(0,), manifests=6))
    code, result = on_lake.run(plan, sections=["manifests"])
    assert code == 0
    step = on_lake.step(result, "manifests")
    assert (step.numbers["manifests_rewritten"], step.numbers["manifests_added"]) == (6, 1)
    assert [law.verdict for law in step.laws] == ["held"]
    assert on_lake.rows(table) == before
    again = on_lake.run(plan, sections=["manifests"])[1]
    assert on_lake.step(again, "manifests").snapshots == step.snapshots


def test_dangling_deletes_go_once_their_data_was_rewritten(on_lake) -> None:
    if on_lake.iceberg_version < (1, 12):
        pytest.skip("older versions may drop an equality delete that still applies, so the job leaves them alone")
    table = on_lake.create(by="bucket(2, id)", write__delete__granularity="partition")
    on_lake.fill(table, files=3)
    on_lake.sql(f"DELETE FROM lake.{table} WHERE id % 10 = 1")
    on_lake.fill(table, files=3, start=1000)
    before = on_lake.rows(table)
    # The other bucket keeps older data, so Iceberg cannot drop the deletes of this one by itself.
    code, _ = on_lake.run(on_lake.plan(table, [on_lake.bucket(0, of=2)]), sections=["rewrite"])
    assert code == 0
    assert on_lake.sql(f"SELECT count(*) FROM lake.{table}.delete_files") == [(2,)]
    plan = on_lake.plan(table, delete_files=DeleteFilesSection(remove_dangling=True))
    code, result = on_lake.run(plan, sections=["delete_files"])
    step = on_lake.step(result, "delete_files")
    assert (code, step.outcome, step.numbers["delete_files_removed"]) == (0, "succeeded", 1)
    # Which rows deletes hide is counted on request only, and the certificate says so.
    assert {law.name: law.verdict for law in step.laws} == {"data_untouched": "held", "rows": "not_checked"}
    assert on_lake.rows(table) == before


def test_small_position_deletes_are_packed(on_lake) -> None:
    table = on_lake.create(write__delete__granularity="partition")
    on_lake.fill(table, files=1, rows=100)
    for number in range(4):
        on_lake.sql(f"DELETE FROM lake.{table} WHERE id = {number}")
    before = on_lake.rows(table)
    plan = on_lake.plan(
        table, delete_files=DeleteFilesSection(rewrite_position_deletes=True, options={"rewrite-all": "true"})
    )
    code, result = on_lake.run(plan, sections=["delete_files"])
    step = on_lake.step(result, "delete_files")
    assert code == 0
    assert step.numbers["delete_files_removed"] > 0
    # Which rows deletes hide is counted on request only, and the certificate says so.
    assert {law.name: law.verdict for law in step.laws} == {"data_untouched": "held", "rows": "not_checked"}
    assert on_lake.rows(table) == before


def put_orphans(on_lake, table: str, count: int, age_days: int = 10) -> list[Path]:
    folder = Path(on_lake.iceberg(table).location.removeprefix("file:")) / "data"
    folder = Path("/" + str(folder).lstrip("/"))
    made = []
    for number in range(count):
        path = folder / f"orphan-{number}.parquet"
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age_days * 86400,) * 2)
        made.append(path)
    return made


def orphan_plan(on_lake, table: str, **changes):
    section = {
        "due": True,
        "mode": "report",
        "older_than_ms": now_ms() - 3 * DAY_MS,
        "max_deletes": 100,
        "max_share": 1.0,
    }
    return on_lake.plan(table, orphans=OrphansSection(**(section | changes)))


def test_orphans_are_only_listed_by_default(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=3)
    orphans = put_orphans(on_lake, table, 2)
    code, result = on_lake.run(orphan_plan(on_lake, table), sections=["orphans"])
    numbers = on_lake.step(result, "orphans").numbers
    assert code == 0
    assert (numbers["orphan_files_found"], numbers["orphan_files_deleted"]) == (2, 0)
    listed = Path(numbers["orphan_list"]).read_text().splitlines()
    assert sorted(Path(line).name for line in listed) == ["orphan-0.parquet", "orphan-1.parquet"]
    assert all(path.exists() for path in orphans)


def test_orphans_are_deleted_in_delete_mode_and_live_files_are_not(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=3)
    before = on_lake.rows(table)
    orphans = put_orphans(on_lake, table, 2)
    young = put_orphans(on_lake, table, 3, age_days=0)[2]
    for path in orphans:
        os.utime(path, (time.time() - 10 * 86400,) * 2)
    code, result = on_lake.run(orphan_plan(on_lake, table, mode="delete"), sections=["orphans"])
    assert code == 0
    assert on_lake.step(result, "orphans").numbers["orphan_files_deleted"] == 2
    assert not any(path.exists() for path in orphans)
    assert young.exists()
    assert on_lake.rows(table) == before


@pytest.mark.parametrize(
    ("changes", "setting"), [({"max_deletes": 1}, "max_deletes"), ({"max_share": 0.1}, "max_share")]
)
def test_too_many_orphans_are_not_deleted(on_lake, changes, setting) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=3)
    orphans = put_orphans(on_lake, table, 2)
    code, result = on_lake.run(orphan_plan(on_lake, table, mode="delete", **changes), sections=["orphans"])
    step = on_lake.step(result, "orphans")
    assert code == 1
    assert step.outcome == "refused"
    assert setting in step.reason
    assert all(path.exists() for path in orphans)


def test_nothing_is_deleted_beside_the_table_s_folder(on_lake) -> None:
    """Data of this table may lie in a folder that it shares with others, even one whose name begins like its own."""
    table = on_lake.create()
    shared = on_lake.iceberg(table).location + "-shared"
    on_lake.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('write.data.path' = '{shared}')")
    on_lake.fill(table, files=3)
    theirs = Path("/" + shared.removeprefix("file:").lstrip("/")) / "theirs.parquet"
    theirs.write_bytes(b"x")
    own = Path("/" + on_lake.iceberg(table).location.removeprefix("file:").lstrip("/")) / "data" / "orphan.parquet"
    own.parent.mkdir(exist_ok=True)
    own.write_bytes(b"x")
    for path in (theirs, own):
        os.utime(path, (time.time() - 10 * 86400,) * 2)
    code, result = on_lake.run(orphan_plan(on_lake, table, mode="delete"), sections=["orphans"])
    step = on_lake.step(result, "orphans")
    assert (code, step.numbers["orphan_files_found"], step.numbers["orphan_files_deleted"]) == (0, 2, 1)
    assert theirs.exists()
    assert not own.exists()


def test_a_location_shared_with_another_table_is_refused(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=1)
    plan = orphan_plan(on_lake, table, other_locations=(on_lake.iceberg(table).location + "/nested/other",))
    code, result = on_lake.run(plan, sections=["orphans"])
    assert code == 1
    assert "overlaps" in on_lake.step(result, "orphans").reason


def test_an_age_below_one_day_is_refused(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=1)
    code, result = on_lake.run(orphan_plan(on_lake, table, older_than_ms=now_ms()), sections=["orphans"])
    assert code == 1
    assert "24 hours" in on_lake.step(result, "orphans").reason


def test_two_snapshots_are_compared_as_they_were_and_not_as_the_table_is(on_lake) -> None:
    from spark_jobs import compare
    from spark_jobs.context import Context

    table = on_lake.create(prefix="t-")
    on_lake.fill(table, files=3)
    context = Context(gateway=on_lake.gateway, plan=on_lake.plan(table), document=None)
    (law, checksum) = compare.snapshots(context, "test", on_lake.iceberg(table).head())
    assert (law.verdict, law.before, law.after) == ("violated", 100, 150)
    assert checksum.verdict == "violated"


def test_snapshots_of_different_schemas_are_not_compared_by_content(on_lake) -> None:
    """A column added since the last write is in one of them only; rows are counted all the same."""
    table = on_lake.create(write__delete__granularity="partition")
    on_lake.fill(table, files=1, rows=100)
    for number in range(4):
        on_lake.sql(f"DELETE FROM lake.{table} WHERE id = {number}")
    on_lake.sql(f"ALTER TABLE lake.{table} ADD COLUMN note string")
    section = DeleteFilesSection(rewrite_position_deletes=True, options={"rewrite-all": "true"})
    plan = on_lake.plan(table, delete_files=section, rewrite={"audit": "checksum"})
    code, result = on_lake.run(plan, sections=["delete_files"])
    laws = {law.name: law.verdict for law in on_lake.step(result, "delete_files").laws}
    assert code == 0
    assert laws == {"data_untouched": "held", "rows": "held", "checksum": "not_checked"}


def test_dangling_deletes_that_are_left_alone_on_an_old_iceberg_are_said(on_lake) -> None:
    def old(context):
        context.gateway.__dict__["iceberg_version"] = "1.11.0"
        return context

    table = on_lake.create()
    on_lake.fill(table, files=1)
    plan = on_lake.plan(table, delete_files=DeleteFilesSection(remove_dangling=True))
    code, result = on_lake.run(plan, sections=["delete_files"], configure=old)
    step = on_lake.step(result, "delete_files")
    assert (code, step.outcome) == (0, "nothing_to_do")
    assert "Iceberg before 1.12" in step.reason


def test_a_table_that_was_dropped_since_the_plan_is_named_without_a_traceback(on_lake, capfd) -> None:
    table = on_lake.create()
    on_lake.fill(table, files=2)
    plan = on_lake.plan(table)
    on_lake.sql(f"DROP TABLE lake.{table}")
    code, result = on_lake.run(plan, sections=["rewrite"])
    step = on_lake.step(result)
    assert (code, step.outcome) == (1, "failed")
    assert f"{table} could not be loaded" in step.reason
    assert "does it exist" in step.reason
    assert "Traceback" not in "".join(capfd.readouterr())

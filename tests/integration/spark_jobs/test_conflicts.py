"""Somebody else commits between our plan and our commit; the hook `at_stage` makes the moment exact."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def while_it_runs(stage: str, action, times: int = 1):
    """Configure the job so that ``action`` happens when a batch reaches ``stage``, at most ``times`` times."""
    left = [times]

    def at_stage(reached: str) -> None:
        if reached == stage and left[0]:
            left[0] -= 1
            action()

    return lambda context: dataclasses.replace(context, at_stage=at_stage)


def data_files_on_disk(on_lake, table: str) -> set[str]:
    return {path.name for path in on_lake.data_folder(table).rglob("*.parquet") if "eq-" not in path.name}


def live_files(on_lake, table: str) -> set[str]:
    return {row[0].rpartition("/")[2] for row in on_lake.sql(f"SELECT file_path FROM lake.{table}.all_data_files")}


@pytest.fixture
def filled(on_lake):
    table = on_lake.create()
    on_lake.fill(table)
    return table


def expect(on_lake, table, plan, rows, *, configure, outcome="succeeded", attempts=None):
    code, result = on_lake.run(plan, configure=configure)
    step = on_lake.step(result)
    assert step.outcome == outcome, step.reason
    assert code == {"succeeded": 0, "nothing_to_do": 0, "conflicted": 4, "failed": 1}[outcome]
    assert on_lake.rows(table) == rows
    if attempts is not None:
        assert [b.attempts for b in step.batches] == [attempts]
    # What lost a race was removed: nothing on disk but files that some snapshot knows (and position deletes).
    unknown = {
        name for name in data_files_on_disk(on_lake, table) - live_files(on_lake, table) if "deletes" not in name
    }
    assert unknown == set()
    return step


def test_an_append_to_the_same_partition_does_not_disturb(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    configure = while_it_runs("written", lambda: on_lake.fill(filled, files=1, start=5000))
    rows = sorted([*on_lake.rows(filled), *(repr((i, f"name-{i}", i * 0.5)) for i in range(5000, 5050))])
    expect(on_lake, filled, plan, rows, configure=configure, attempts=1)


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_deleted_meanwhile_by_position_stay_deleted(on_lake, version) -> None:
    table = on_lake.create(format_version=version)
    on_lake.fill(table)
    plan = on_lake.plan(table)
    rows = [row for row in on_lake.rows(table) if not row.startswith("(7,")]
    configure = while_it_runs("audited", lambda: on_lake.sql(f"DELETE FROM lake.{table} WHERE id = 7"))
    step = expect(on_lake, table, plan, rows, configure=configure, attempts=2)
    assert next(law for law in step.laws if law.name == "rows").after == 299


def test_rows_deleted_meanwhile_by_equality_stay_deleted(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    rows = [row for row in on_lake.rows(filled) if not row.startswith("(7,")]
    configure = while_it_runs("audited", lambda: on_lake.equality_delete(filled, "id", [7]))
    expect(on_lake, filled, plan, rows, configure=configure, attempts=1)


def test_a_delete_of_the_old_spec_reaches_rows_that_move_to_a_new_one(on_lake) -> None:
    """Equality deletes find files by spec: new files of another spec must not be published past one."""
    table = on_lake.create(by="bucket(2, id)")
    on_lake.fill(table)
    on_lake.sql(f"ALTER TABLE lake.{table} REPLACE PARTITION FIELD bucket(2, id) WITH bucket(3, id)")
    (bucket,) = on_lake.sql("SELECT lake.system.bucket(2, 7L)")[0]
    plan = on_lake.plan(table)
    rows = [row for row in on_lake.rows(table) if not row.startswith("(7,")]

    def delete() -> None:
        on_lake.equality_delete(table, "id", [7], f"id_bucket={bucket}", spec_id=0)

    expect(on_lake, table, plan, rows, configure=while_it_runs("audited", delete), attempts=2)


def test_equality_deletes_that_keep_coming_do_not_starve_a_batch(on_lake, filled) -> None:
    """Files as young as their commit lose to every such delete, so the second attempt makes them as old as their rows."""
    options = {"min-input-files": "2", "use-starting-sequence-number": "false"}
    plan = on_lake.plan(filled, options=options)
    rows = [row for row in on_lake.rows(filled) if not row.startswith(("(7,", "(8,"))]
    doomed = iter((7, 8))
    configure = while_it_runs("audited", lambda: on_lake.equality_delete(filled, "id", [next(doomed)]), times=2)
    expect(on_lake, filled, plan, rows, configure=configure, attempts=2)


def test_a_live_file_that_is_missing_is_damage_and_not_a_lost_race(on_lake) -> None:
    table = on_lake.create(by="bucket(2, id)")
    on_lake.fill(table)
    plan = on_lake.plan(table, [on_lake.bucket(0, of=2), on_lake.bucket(1, of=2)])
    lost = on_lake.sql(f"SELECT file_path FROM lake.{table}.files WHERE partition.id_bucket = 0 LIMIT 1")[0][0]
    Path("/" + lost.removeprefix("file:").lstrip("/")).unlink()
    code, result = on_lake.run(plan)
    step = on_lake.step(result)
    assert (code, [b.outcome for b in step.batches]) == (1, ["failed", "committed"])
    assert f"the table is damaged: its current snapshot holds {lost}" in step.reason


def test_an_overwrite_of_an_input_wins(on_lake) -> None:
    table = on_lake.create(write__delete__mode="copy-on-write")
    on_lake.fill(table)
    plan = on_lake.plan(table)
    rows = [row for row in on_lake.rows(table) if not row.startswith("(7,")]
    configure = while_it_runs("written", lambda: on_lake.sql(f"DELETE FROM lake.{table} WHERE id = 7"))
    expect(on_lake, table, plan, rows, configure=configure, attempts=2)


def test_inputs_that_another_compaction_took_are_already_done(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    rows = on_lake.rows(filled)
    compact = f"CALL lake.system.rewrite_data_files(table => '{filled}', options => map('min-input-files', '2'))"
    configure = while_it_runs("written", lambda: on_lake.sql(compact))
    step = expect(on_lake, filled, plan, rows, configure=configure, outcome="nothing_to_do")
    assert [b.outcome for b in step.batches] == ["already_done"]


def test_a_concurrent_manifest_rewrite_does_not_disturb(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    rows = on_lake.rows(filled)
    configure = while_it_runs("audited", lambda: on_lake.sql(f"CALL lake.system.rewrite_manifests('{filled}')"))
    expect(on_lake, filled, plan, rows, configure=configure)


def test_expiry_of_the_start_snapshot_is_a_lost_race(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    rows = sorted([*on_lake.rows(filled), *(repr((i, f"name-{i}", i * 0.5)) for i in range(5000, 5100))])

    def overtake() -> None:
        on_lake.fill(filled, files=2, start=5000)
        later = "TIMESTAMP '2100-01-01 00:00:00'"
        on_lake.sql(f"CALL lake.system.expire_snapshots(table => '{filled}', older_than => {later}, retain_last => 1)")

    expect(on_lake, filled, plan, rows, configure=while_it_runs("audited", overtake), attempts=2)


def test_a_column_that_appears_meanwhile_is_kept(on_lake, filled) -> None:
    plan = on_lake.plan(filled)

    def evolve() -> None:
        on_lake.sql(f"ALTER TABLE lake.{filled} ADD COLUMN note string")
        on_lake.sql(f"INSERT INTO lake.{filled} VALUES (9000, 'x', 1.0, 'hello')")

    code, _ = on_lake.run(plan, configure=while_it_runs("written", evolve))
    assert code == 0
    assert on_lake.sql(f"SELECT count(*), count(note) FROM lake.{filled}") == [(301, 1)]


def test_a_column_dropped_meanwhile_stays_dropped(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    configure = while_it_runs("planned", lambda: on_lake.sql(f"ALTER TABLE lake.{filled} DROP COLUMN price"))
    code, _ = on_lake.run(plan, configure=configure)
    assert code == 0
    assert on_lake.sql(f"SELECT * FROM lake.{filled} WHERE id = 3") == [(3, "name-3")]


def test_a_spec_that_changes_meanwhile_does_not_disturb(on_lake, filled) -> None:
    plan = on_lake.plan(filled)
    rows = on_lake.rows(filled)
    change = f"ALTER TABLE lake.{filled} ADD PARTITION FIELD bucket(2, id)"
    expect(on_lake, filled, plan, rows, configure=while_it_runs("written", lambda: on_lake.sql(change)))


def test_a_batch_that_loses_every_race_is_conflicted_and_the_others_go_on(on_lake) -> None:
    table = on_lake.create(by="bucket(2, id)")
    on_lake.fill(table)
    (victim,) = on_lake.sql(f"SELECT min(id) FROM lake.{table} WHERE lake.system.bucket(2, id) = 0")[0]
    plan = on_lake.plan(table, [on_lake.bucket(0, of=2), on_lake.bucket(1, of=2)])
    counter = iter(range(10_000))

    def at_stage(stage: str) -> None:
        # An update of a row in bucket 0 keeps taking that batch's inputs away.
        if stage == "audited":
            on_lake.sql(f"UPDATE lake.{table} SET name = 'n{next(counter)}' WHERE id = {victim}")

    def configure(context):
        return dataclasses.replace(context, at_stage=at_stage, max_attempts=2)

    code, result = on_lake.run(plan, configure=configure)
    step = on_lake.step(result)
    assert [b.outcome for b in step.batches] == ["conflicted", "committed"]
    assert (code, step.outcome) == (4, "conflicted")
    assert on_lake.sql(f"SELECT count(*) FROM lake.{table}") == [(300,)]


def unknown_state(on_lake, *, lands: bool):
    """Make the first commit end without an answer from the catalog, whether it landed or not."""
    from spark_jobs.errors import UnknownCommitStateError
    from spark_jobs.jvm import IcebergTable

    real, calls = IcebergTable.commit, []

    def commit(self, *given, **more):
        calls.append(given)
        if len(calls) > 1:
            return real(self, *given, **more)
        if lands:
            real(self, *given, **more)
        raise UnknownCommitStateError("the connection was lost")

    return commit


@pytest.mark.parametrize("lands", [True, False])
def test_an_unknown_commit_state_is_settled_by_the_stamp(on_lake, filled, monkeypatch, lands) -> None:
    from spark_jobs.jvm import IcebergTable

    rows = on_lake.rows(filled)
    plan = on_lake.plan(filled)
    monkeypatch.setattr(IcebergTable, "commit", unknown_state(on_lake, lands=lands))
    code, result = on_lake.run(plan)
    step = on_lake.step(result)
    assert (code, step.outcome) == (0, "succeeded")
    assert step.batches[0].attempts == (1 if lands else 2)
    assert on_lake.rows(filled) == rows
    assert on_lake.files(filled) == 1
    # The files of the commit that did not land are gone, because they can never be published any more.
    assert data_files_on_disk(on_lake, filled) == live_files(on_lake, filled)


def test_the_stamp_is_looked_for_until_the_catalog_is_back(on_lake, filled, monkeypatch) -> None:
    from spark_jobs.jvm import Gateway, IcebergTable

    commit, real_table, outage = unknown_state(on_lake, lands=True), Gateway.table, []

    def lose_the_catalog(*given, **more):
        outage.extend(("first look", "second look"))
        return commit(*given, **more)

    def table(self, identifier):
        if outage:
            raise RuntimeError(f"the catalog is down at the {outage.pop()}")
        return real_table(self, identifier)

    rows, plan = on_lake.rows(filled), on_lake.plan(filled)
    monkeypatch.setattr(IcebergTable, "commit", lose_the_catalog)
    monkeypatch.setattr(Gateway, "table", table)
    code, result = on_lake.run(plan)
    assert (code, [b.attempts for b in on_lake.step(result).batches]) == (0, [1])
    monkeypatch.undo()
    assert on_lake.rows(filled) == rows


def test_a_commit_that_was_reported_lost_but_landed_keeps_its_files(on_lake, filled, monkeypatch) -> None:
    """A client that repeats a request whose answer was lost meets its own commit and calls it a conflict."""
    from spark_jobs.errors import ConflictError
    from spark_jobs.jvm import IcebergTable

    real = IcebergTable.commit

    def commit(self, *given, **more):
        real(self, *given, **more)
        raise ConflictError("the commit failed: CommitFailedException: metadata location has changed")

    rows = on_lake.rows(filled)
    monkeypatch.setattr(IcebergTable, "commit", commit)
    code, result = on_lake.run(on_lake.plan(filled))
    assert (code, on_lake.step(result).batches[0].outcome) == (0, "committed")
    assert on_lake.rows(filled) == rows


def test_a_catalog_that_fails_right_after_the_commit_costs_no_file(on_lake, filled, monkeypatch) -> None:
    from spark_jobs.jvm import Gateway, IcebergTable

    real_commit, real_table, broken = IcebergTable.commit, Gateway.table, []

    def commit(self, *given, **more):
        real_commit(self, *given, **more)
        broken.append(True)

    def table(self, identifier):
        if broken:
            raise RuntimeError("the catalog is down")
        return real_table(self, identifier)

    rows, plan = on_lake.rows(filled), on_lake.plan(filled)
    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "commit", commit)
        patched.setattr(Gateway, "table", table)
        code, _ = on_lake.run(plan)
        assert code == 1
    assert on_lake.rows(filled) == rows
    code, result = on_lake.run(plan)
    assert (code, on_lake.step(result).batches[0].outcome) == (0, "already_committed")

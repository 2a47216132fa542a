"""A job that dies leaves what it committed; the next try does the rest and cleans up."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from airflow_iceberg_compaction.documents import RunResult

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


class PowerCutError(BaseException):
    """Ends the job in this process as abruptly as Python allows."""


def cut_at(stage: str, times: int = 1):
    def at_stage(reached: str) -> None:
        if reached == stage:
            raise PowerCutError(stage)

    return lambda context: dataclasses.replace(context, at_stage=at_stage)


def unpublished(on_lake, table: str) -> set[str]:
    known = {row[0].rpartition("/")[2] for row in on_lake.sql(f"SELECT file_path FROM lake.{table}.all_data_files")}
    found = {path.name for path in (on_lake.data_folder(table) / "compacted").rglob("*") if path.is_file()}
    return {name for name in found - known if not name.endswith(".crc")}


def test_committed_batches_are_skipped_and_their_laws_remembered(on_lake) -> None:
    table = on_lake.create(by="bucket(2, id)")
    on_lake.fill(table)
    before = on_lake.rows(table)
    plan = on_lake.plan(table, [on_lake.bucket(0, of=2), on_lake.bucket(1, of=2)])
    with pytest.raises(PowerCutError):
        on_lake.run(plan, configure=cut_at("committed"))
    lost = on_lake.result(plan)
    assert lost.finished_at_ms is None
    code, result = on_lake.run(plan)
    step = on_lake.step(result)
    assert code == 0
    assert [b.outcome for b in step.batches] == ["already_committed", "committed"]
    assert step.numbers["files_compacted"] == 12
    remembered = {law.name for law in step.laws if law.scope == "batch b-0001"}
    assert {"rows", "null_counts"} <= remembered
    assert {law.verdict for law in step.laws} == {"held"}
    assert on_lake.rows(table) == before
    assert unpublished(on_lake, table) == set()


def test_a_run_that_is_assessed_again_does_its_new_work(on_lake) -> None:
    """Clearing a whole Dag run keeps its id, and batches are numbered anew: old stamps must not pass for new work."""
    table = on_lake.create()
    on_lake.fill(table)
    first = on_lake.plan(table)
    on_lake.run(first)
    on_lake.fill(table, files=6, start=1000)
    again = dataclasses.replace(on_lake.plan(table), run_id=first.run_id, created_at_ms=first.created_at_ms + 1)
    code, result = on_lake.run(again, name="again.json")
    assert code == 0
    assert [b.outcome for b in on_lake.step(result).batches] == ["committed"]
    assert on_lake.files(table) == 1


def test_another_application_checks_what_a_lost_one_published(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    plan = on_lake.plan(table)
    with pytest.raises(PowerCutError):
        on_lake.run(plan, configure=cut_at("committed"))
    code, result = on_lake.run(plan, name="other-result.json")
    laws = {law.name: law.verdict for law in on_lake.step(result).laws if law.scope == "batch b-0001"}
    assert code == 0
    assert {"rows", "head_rows"} <= laws.keys()
    assert set(laws.values()) == {"held"}


def test_sections_of_other_applications_stay_in_the_result(on_lake) -> None:
    from airflow_iceberg_compaction.documents import ManifestsSection

    table = on_lake.create()
    on_lake.fill(table)
    plan = on_lake.plan(table, manifests=ManifestsSection(rewrite=True, spec_ids=(0,)))
    on_lake.run(plan, sections=["rewrite"])
    _, result = on_lake.run(plan, sections=["manifests"])
    assert [s.section for s in result.steps] == ["rewrite", "manifests"]


def test_files_of_an_attempt_that_may_still_be_alive_are_left_alone(on_lake) -> None:
    """A lost driver can come back: while all its inputs are live, its commit could still succeed."""
    from spark_jobs.attempts import Attempt, clean_leftovers

    table = on_lake.create()
    on_lake.fill(table)
    plan = on_lake.plan(table)
    loaded = on_lake.iceberg(table)
    expression = loaded.expression(plan.rewrite.batches[0].filter)
    groups = loaded.plan_groups(expression, loaded.head().snapshot_id, "binpack", plan.rewrite.batches[0].options)
    attempt = Attempt.new(loaded, plan.plan_id, "b-0001")
    attempt.begin(loaded, groups)
    removed, kept = clean_leftovers(loaded, plan)
    assert removed == 0
    assert "may still be published" in kept[0]
    on_lake.run(plan)
    assert unpublished(on_lake, table) == set()


def leave_behind(on_lake, table: str, name: str):
    """Configure the job so that a file appears beside the outputs, as a task of a lost executor leaves one."""

    def at_stage(reached: str) -> None:
        if reached == "written":
            record = next((on_lake.data_folder(table) / "compacted").rglob("inputs.txt"))
            record.with_name(name).write_bytes(b"half a file")

    return lambda context: dataclasses.replace(context, at_stage=at_stage)


def test_what_a_lost_executor_left_goes_when_the_batch_is_published(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    before = on_lake.rows(table)
    code, _ = on_lake.run(on_lake.plan(table), configure=leave_behind(on_lake, table, "00000-9-left.parquet"))
    assert code == 0
    assert on_lake.rows(table) == before
    assert unpublished(on_lake, table) == set()


def test_a_batch_that_was_rolled_back_is_done_again(on_lake) -> None:
    table = on_lake.create()
    on_lake.fill(table)
    plan = on_lake.plan(table)
    on_lake.run(plan)
    on_lake.sql(f"CALL lake.system.rollback_to_snapshot('{table}', {plan.snapshot_id})")
    code, result = on_lake.run(plan)
    assert (code, [b.outcome for b in on_lake.step(result).batches]) == (0, ["committed"])
    assert on_lake.files(table) == 1


def test_files_that_only_a_tag_still_holds_are_no_leftovers(on_lake) -> None:
    """The stamp is expired and the head has moved on; reading the tag must still work."""
    table = on_lake.create(write__delete__mode="copy-on-write")
    on_lake.fill(table)
    before = on_lake.rows(table)
    plan = on_lake.plan(table)
    with pytest.raises(PowerCutError):
        on_lake.run(plan, configure=cut_at("committed"))
    on_lake.fill(table, files=1, start=9000)
    on_lake.sql(f"ALTER TABLE lake.{table} CREATE TAG kept")
    on_lake.sql(f"DELETE FROM lake.{table} WHERE id >= 0")
    later = "TIMESTAMP '2100-01-01 00:00:00'"
    on_lake.sql(f"CALL lake.system.expire_snapshots(table => '{table}', older_than => {later}, retain_last => 1)")
    on_lake.run(plan)
    kept = sorted(map(repr, on_lake.sql(f"SELECT * FROM lake.{table} VERSION AS OF 'kept' WHERE id < 9000")))
    assert kept == before
    assert unpublished(on_lake, table) == set()


# stage, seconds until the kill, batches committed by then (None: either way is right)
MOMENTS = {
    "planning": ("planned", 0, 0),
    "writing": ("writing", 0, 0),
    "between write and audit": ("written", 0, 0),
    "between audit and commit": ("audited", 0, 0),
    "as the commit starts": ("committing", 0, 0),
    "early in the commit": ("committing", 0.03, None),
    "late in the commit": ("committing", 0.15, None),
    "after the commit, before the result": ("committed", 0, 1),
    "at the very end": ("finishing", 0, 2),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rerun_completes_what_kill_minus_nine_interrupted(on_lake, tmp_path, moment) -> None:
    stage, delay, committed = MOMENTS[moment]
    table = on_lake.create(by="bucket(2, id)")
    on_lake.fill(table)
    on_lake.sql(f"DELETE FROM lake.{table} WHERE id % 10 = 3")
    before = on_lake.rows(table)
    plan = on_lake.plan(table, [on_lake.bucket(0, of=2), on_lake.bucket(1, of=2)])
    result_file = tmp_path / f"{plan.run_id}-result.json"
    kill_a_driver(on_lake, tmp_path, plan, result_file, stage, delay)

    left = RunResult.from_json(result_file.read_text())
    assert left.finished_at_ms is None
    assert on_lake.rows(table) == before
    stamped = on_lake.sql(
        f"SELECT count(*) FROM lake.{table}.snapshots WHERE summary['iceberg-compaction.run-id'] = '{plan.run_id}'"
    )[0][0]
    assert committed is None or stamped == committed

    code, result = on_lake.run(plan)
    step = on_lake.step(result)
    assert (code, step.outcome) == (0, "succeeded"), step.reason
    assert [b.outcome for b in step.batches].count("already_committed") == stamped
    assert on_lake.rows(table) == before
    assert on_lake.files(table) == 2
    assert unpublished(on_lake, table) == set()


def test_a_killed_executor_costs_time_and_nothing_else(on_lake, tmp_path) -> None:
    table = on_lake.create()
    on_lake.fill(table, rows=200_000)
    before = on_lake.spark.table(f"lake.{table}").selectExpr("count(*)", "sum(hash(*))").first()
    plan = on_lake.plan(table)
    result_file = tmp_path / f"{plan.run_id}-result.json"
    data = on_lake.data_folder(table) / "compacted"
    done = another_driver("killed_executor.py", on_lake, tmp_path, plan, result_file, data=str(data))
    assert done.returncode == 0, done.stdout + done.stderr
    (killed_at,) = [line for line in done.stdout.splitlines() if line.startswith("killed while")]
    assert ".parquet" in killed_at
    assert on_lake.step(on_lake.result(plan)).outcome == "succeeded"
    assert on_lake.spark.table(f"lake.{table}").selectExpr("count(*)", "sum(hash(*))").first() == before
    assert unpublished(on_lake, table) == set()


def kill_a_driver(on_lake, folder, plan, result_file, stage, delay) -> None:
    done = another_driver("killed_driver.py", on_lake, folder, plan, result_file, stage=stage, delay=delay)
    assert done.returncode == -9, done.stdout + done.stderr


def another_driver(script, on_lake, folder, plan, result_file, **more) -> subprocess.CompletedProcess[str]:
    here = dict(on_lake.spark.sparkContext.getConf().getAll())
    conf = {
        **{key: value for key, value in here.items() if key.startswith(("spark.sql.", "spark.jars.packages"))},
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    (folder / "plan.json").write_text(plan.to_json())
    settings = {
        "conf": conf,
        "plan": str(folder / "plan.json"),
        "result": str(result_file),
        **more,
    }
    settings_file = folder / f"{uuid.uuid4().hex}.json"
    settings_file.write_text(json.dumps(settings))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_GATEWAY", "SPARK_"))}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), str(settings_file)],
        env=environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip

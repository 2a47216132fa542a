from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import report_examples as examples

from airflow_iceberg_compaction.documents import PartitionPlan, RewriteSection, TableNumbers
from airflow_iceberg_compaction.report.summary import build_report

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Plan


@pytest.fixture
def plan() -> Plan:
    return examples.a_plan()


AFTER = TableNumbers(data_files=43, data_bytes=9000, small_files=2, delete_files=0)


def test_a_run_that_did_what_was_planned_succeeds_with_numbers_before_and_after(plan: Plan) -> None:
    report = build_report(plan, [examples.result(examples.rewrite_step(), examples.expire_step())], AFTER, 1000)
    assert (report.outcome, report.reason) == ("succeeded", "rewrite, expire")
    assert report.stats.to_dict() == {
        "files_before": 100, "files_after": 43, "files_compacted": 60, "files_removed": 57,
        "bytes_before": 10_000, "bytes_after": 9000, "bytes_saved": 1000,
        "delete_files_before": 9, "delete_files_after": 0, "snapshots_expired": 3,
        "orphan_files_found": 0, "orphan_files_deleted": 0, "small_files_remaining": 2, "compaction_time_ms": 93_500,
    }  # fmt: skip
    assert report.certificate.verdict == "proven"
    assert report.snapshots == (77,)
    assert report.probe == {"before_ms": 2000, "after_ms": 500, "equal": True}
    assert [s.spark_started for s in report.sections] == [True, False, False, True, False]
    assert report.spark_starts == 1
    assert report.sections[4].reason == "swept 2 days ago, due every 7d"


def test_sections_in_separate_applications_make_one_report(plan: Plan) -> None:
    results = [examples.result(examples.rewrite_step()), examples.result(examples.expire_step())]
    merged = build_report(plan, results, AFTER, 0)
    assert merged.spark_starts == 2
    assert replace(merged, spark_starts=1) == build_report(
        plan, [examples.result(examples.rewrite_step(), examples.expire_step())], AFTER, 0
    )


def test_a_violated_law_fails_the_run_and_names_the_numbers(plan: Plan) -> None:
    step = examples.rewrite_step(outcome="failed", laws=(examples.law(verdict="violated", after=499),))
    report = build_report(plan, [examples.result(step)], None, 0)
    assert report.outcome == "failed"
    assert report.reason == "law 'rows' is violated in batch b1: 500 before, 499 after"


def test_a_job_without_a_result_fails_the_run_and_leaves_the_certificate_partial(plan: Plan) -> None:
    report = build_report(plan, [], None, 0, {"rewrite": "exit code 137"})
    assert (report.outcome, report.reason) == ("failed", "rewrite: exit code 137")
    assert report.certificate.verdict == "partial"


def test_planned_work_that_never_ran_is_not_a_success(plan: Plan) -> None:
    report = build_report(plan, [examples.result(examples.rewrite_step())], AFTER, 0)
    assert report.outcome == "refused"
    assert report.reason == "expire: planned, but an earlier step ended the run"


def test_a_dry_run_did_nothing_and_says_so(plan: Plan) -> None:
    report = build_report(replace(plan, dry_run=True), [], plan.before, 0)
    assert (report.outcome, report.reason) == ("nothing_to_do", "dry run")
    assert report.stats.files_after == report.stats.files_before == 100
    assert report.sections[0].reason == "dry run: planned, not carried out"


def test_a_table_that_cannot_be_judged_is_refused_not_healthy(plan: Plan) -> None:
    unjudged = replace(plan, outcome="cannot_judge", reason="format version 4", rewrite=RewriteSection())
    assert build_report(unjudged, [], None, 0).outcome == "refused"


def test_waiting_partitions_are_named_when_nothing_is_rewritten(plan: Plan) -> None:
    hot = PartitionPlan(spec_id=0, partition={}, decision="defer", reason="too_hot")
    waiting = replace(plan, rewrite=RewriteSection(partitions=(hot,)))
    section = build_report(waiting, [], plan.before, 0).sections[0]
    assert section.reason == "no partition is rewritten now; 1 wait (too_hot)"


@pytest.mark.parametrize("outcome", ["failed", "conflicted"])
def test_the_worst_section_names_the_run(plan: Plan, outcome: str) -> None:
    steps = (examples.rewrite_step(), examples.expire_step(outcome=outcome, reason="boom"))
    report = build_report(plan, [examples.result(*steps)], AFTER, 0)
    assert (report.outcome, report.reason) == (outcome, "expire: boom")


def test_without_a_measurement_the_after_is_derived_from_what_was_committed(plan: Plan) -> None:
    report = build_report(plan, [examples.result(examples.rewrite_step(), examples.expire_step())], None, 0)
    assert (report.stats.files_after, report.stats.bytes_after, report.stats.delete_files_after) == (43, 9000, 0)

from __future__ import annotations

import pytest

from airflow_iceberg_compaction.documents import Law, RunResult, StepResult
from airflow_iceberg_compaction.exceptions import (
    CertificateError,
    MaintenanceConflictError,
    MaintenanceFailedError,
    MaintenanceRefusedError,
    ResultMissingError,
)
from airflow_iceberg_compaction.operators.verdict import find_finished_step, judge, read_result

HELD = Law(name="rows", scope="batch b-1", before=10, after=10, verdict="held", checked="before_publish")
VIOLATED = Law(name="rows", scope="batch b-1", before=10, after=9, verdict="violated", checked="before_publish")


def a_result(*steps: StepResult, finished: bool = True, error: str = "") -> RunResult:
    return RunResult(
        run_id="r",
        catalog="lake",
        table="shop.events",
        started_at_ms=1,
        finished_at_ms=2 if finished else None,
        steps=steps,
        error=error,
    )


def a_step(outcome="succeeded", section="rewrite", laws=(HELD,), snapshots=(7,), reason=""):
    return StepResult(section=section, outcome=outcome, laws=laws, snapshots=snapshots, reason=reason)


def test_a_proven_step_lets_the_task_succeed():
    step = a_step()
    assert judge("rewrite", a_result(step), None) is step


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [
        (a_step(laws=(HELD, VIOLATED)), CertificateError, "rows in batch b-1 was 10 and became 9"),
        (a_step(laws=()), CertificateError, "no certificate"),
        (a_step("conflicted", reason="three attempts"), MaintenanceConflictError, "three attempts"),
        (a_step("refused", reason="another table lies there"), MaintenanceRefusedError, "another table"),
        (a_step("failed", reason="disk full"), MaintenanceFailedError, "disk full"),
    ],
)
def test_any_other_step_fails_it_and_says_why(step, error, says):
    with pytest.raises(error, match=says):
        judge("rewrite", a_result(step), None)


def test_a_violated_law_outranks_a_step_that_calls_itself_conflicted():
    with pytest.raises(CertificateError):
        judge("rewrite", a_result(a_step("conflicted", laws=(VIOLATED,))), None)


def test_a_job_that_died_before_the_section_is_a_failure():
    with pytest.raises(MaintenanceFailedError, match="out of memory"):
        judge("expire", a_result(error="out of memory"), None)


def test_a_step_that_was_cut_short_is_not_taken_for_done():
    with pytest.raises(MaintenanceFailedError, match="killed"):
        judge("rewrite", a_result(a_step(), finished=False), None)


def test_a_section_that_was_complete_when_a_later_one_failed_stays_complete():
    rewrite, expire = a_step(), a_step("failed", section="expire", laws=())
    result = a_result(rewrite, expire, finished=False)
    assert judge("rewrite", result, RuntimeError("exit code 1")) is rewrite
    assert find_finished_step("rewrite", result) is rewrite
    assert find_finished_step("expire", result) is None


def test_a_missing_document_after_success_names_the_setting_to_check(tmp_path):
    with pytest.raises(ResultMissingError, match="documents"):
        read_result(str(tmp_path / "none.json"), None)


def test_a_truncated_document_is_as_good_as_none(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(a_result(a_step()).to_json()[:-20])
    with pytest.raises(ResultMissingError, match="not valid JSON"):
        read_result(str(path), None)


def test_a_failed_job_without_a_document_keeps_what_spark_said(tmp_path):
    with pytest.raises(MaintenanceFailedError, match="OutOfMemoryError"):
        read_result(str(tmp_path / "none.json"), RuntimeError("java.lang.OutOfMemoryError"))

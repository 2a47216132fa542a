"""From a result document to "the task may go green", or to the exception that says why not."""

from __future__ import annotations

from airflow_iceberg_compaction import store
from airflow_iceberg_compaction.documents import Certificate, DocumentError, RunResult, Section, StepResult
from airflow_iceberg_compaction.exceptions import (
    CertificateError,
    MaintenanceConflictError,
    MaintenanceFailedError,
    MaintenanceRefusedError,
    ResultMissingError,
)

_DONE = ("succeeded", "nothing_to_do")


def read_result(result_uri: str, failure: BaseException | None) -> RunResult:
    """The result document of an application that ended.

    :param failure: what spark-submit raised, None when it reported success.
    """
    try:
        return RunResult.from_json(store.read_text(result_uri))
    except (FileNotFoundError, DocumentError) as error:
        if failure is not None:
            raise MaintenanceFailedError(f"the Spark job failed before it left a result: {failure}") from failure
        raise ResultMissingError(
            f"Spark reported success but left no readable result at {result_uri} ({error}); check that the driver can "
            "write to the policy's `documents` location"
        ) from error


def judge(section: Section, result: RunResult, failure: BaseException | None) -> StepResult:
    """The section's step if the task may succeed; otherwise raise what became of it.

    The document outranks the exit code: an application that carries out several sections fails as a whole when one of
    them does, and a step that is complete stays complete when the JVM stumbles on its way out.
    """
    step = next((step for step in result.steps if step.section == section), None)
    if step is None:
        why = result.error or failure or "no reason was recorded"
        raise MaintenanceFailedError(f"{section}: the job ended before it: {why}") from failure
    verdict = Certificate.from_laws(step.laws, step.remarks).verdict
    if verdict == "violated":
        broken = "; ".join(
            f"{law.name} in {law.scope} was {law.before!r} and became {law.after!r} ({law.checked.replace('_', ' ')})"
            for law in step.laws
            if law.verdict == "violated"
        )
        raise CertificateError(f"{section}: conservation is violated: {broken}")
    if step.outcome == "conflicted":
        raise MaintenanceConflictError(f"{section}: {step.reason or 'another writer committed first'}")
    if step.outcome == "refused":
        raise MaintenanceRefusedError(f"{section}: {step.reason}")
    if step.outcome not in _DONE or not _is_final(result, step):
        why = step.reason if step.outcome == "failed" else ""
        why = why or result.error or str(failure or "the application was killed before it finished")
        raise MaintenanceFailedError(f"{section}: {why}") from failure
    audited = {law.scope for law in step.laws}
    bare = [b.batch_id for b in step.batches if b.snapshot_id is not None and f"batch {b.batch_id}" not in audited]
    if bare or (section == "rewrite" and step.snapshots and not step.laws):
        raise CertificateError(f"{section}: the job published files but left no certificate {', '.join(bare)}".rstrip())
    return step


def find_finished_step(section: Section, result: RunResult) -> StepResult | None:
    """The step of ``section`` if an application that carried out several sections completed it."""
    try:
        return judge(section, result, None)
    except (MaintenanceFailedError, MaintenanceConflictError, MaintenanceRefusedError):
        return None


def _is_final(result: RunResult, step: StepResult) -> bool:
    """Results are written after every batch: only the last step of an unfinished one may still change."""
    return result.finished_at_ms is not None or result.steps[-1] is not step

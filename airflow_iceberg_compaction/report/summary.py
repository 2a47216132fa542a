"""Plan and results become one report: what was done, why, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import (
    SECTIONS,
    Certificate,
    Outcome,
    Plan,
    Report,
    RunResult,
    Section,
    SectionReport,
    Stats,
    StepResult,
    TableNumbers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The worst thing that happened names the run.
_SEVERITY: tuple[Outcome, ...] = ("failed", "conflicted", "refused", "succeeded", "nothing_to_do")
_EMPTY_SECTION = {
    "rewrite": "no partition needs a rewrite",
    "delete_files": "no dangling or scattered delete files",
    "manifests": "manifests are in order",
    "expire": "no snapshot is old enough",
    "orphans": "no orphan sweep is due",
}


def build_report(
    plan: Plan,
    results: Sequence[RunResult],
    after: TableNumbers | None,
    now_ms: int,
    failures: Mapping[Section, str] | None = None,
) -> Report:
    """The report of one run.

    :param results: result documents of the run's Spark applications, in the order they ran.
    :param after: the table's totals measured after the run; None when they could not be measured.
    :param failures: sections whose application left no readable result, with the reason.
    """
    failures = dict(failures or {})
    # A retried section has several results; the last one tells what became of it, all of them tell what was committed.
    steps = [step for result in results for step in result.steps]
    last = {step.section: step for step in steps}
    sections = tuple(_section(plan, section, last.get(section), failures.get(section)) for section in SECTIONS)
    certificate = _certificate(steps, failures)
    outcome, reason = _outcome(plan, sections, certificate)
    return Report(
        catalog=plan.catalog,
        table=plan.table,
        run_id=plan.run_id,
        outcome=outcome,
        reason=reason,
        dry_run=plan.dry_run,
        created_at_ms=now_ms,
        stats=_stats(plan, steps, after),
        predicted={
            "input_files": plan.rewrite.input_files,
            "input_bytes": plan.rewrite.input_bytes,
            "output_files": plan.rewrite.output_files,
            "snapshots_expired": len(plan.expire.snapshots),
            "cost": plan.cost.total,
        },
        certificate=certificate,
        probe=_probe(steps),
        cost={
            "currency": plan.cost.currency,
            "predicted": plan.cost.total,
            "savings_per_day": plan.cost.savings_per_day,
        },
        snapshots=tuple(dict.fromkeys(snapshot for step in steps for snapshot in step.snapshots)),
        sections=sections,
        spark_starts=len(results) or int(bool(failures)),
    )


def _section(plan: Plan, section: Section, step: StepResult | None, failure: str | None) -> SectionReport:
    if failure is not None:
        return SectionReport(section=section, outcome="failed", reason=failure, spark_started=True)
    if step is not None:
        return SectionReport(
            section=section,
            outcome=step.outcome,
            reason=step.reason or (_done(step) if step.outcome == "succeeded" else ""),
            duration_ms=step.duration_ms,
            spark_started=True,
        )
    if plan.has_work(section):
        why = "dry run: planned, not carried out" if plan.dry_run else "planned, but an earlier step ended the run"
        return SectionReport(section=section, outcome="nothing_to_do" if plan.dry_run else "refused", reason=why)
    reason = _section_reason(plan, section) or _EMPTY_SECTION[section]
    return SectionReport(section=section, outcome="nothing_to_do", reason=reason)


def _done(step: StepResult) -> str:
    """What a successful section did, from its numbers."""

    def number(name: str) -> str:
        return f"{step.numbers.get(name, 0):,}"

    return {
        "rewrite": f"{number('files_compacted')} files became {number('files_added')}",
        "delete_files": f"{number('delete_files_removed')} delete files removed",
        "manifests": f"{number('manifests_rewritten')} manifests became {number('manifests_added')}",
        "expire": f"{number('snapshots_expired')} snapshots expired",
        "orphans": f"{number('orphan_files_found')} found, {number('orphan_files_deleted')} deleted",
    }[step.section]


def _section_reason(plan: Plan, section: Section) -> str:
    if section == "rewrite":
        waiting = [p for p in plan.rewrite.partitions if p.decision in ("defer", "refuse")]
        if not waiting:
            return ""
        reasons = ", ".join(sorted({p.reason for p in waiting}))
        return f"no partition is rewritten now; {len(waiting)} wait ({reasons})"
    return str(getattr(plan, section).reason)


def _certificate(steps: Sequence[StepResult], failures: Mapping[Section, str]) -> Certificate:
    laws = tuple(law for step in steps for law in step.laws)
    remarks = [remark for step in steps for remark in step.remarks]
    remarks += [f"{section}: no result to check ({why})" for section, why in failures.items()]
    return Certificate.from_laws(laws, tuple(dict.fromkeys(remarks)))


def _outcome(plan: Plan, sections: Sequence[SectionReport], certificate: Certificate) -> tuple[Outcome, str]:
    if plan.outcome == "cannot_judge":
        return "refused", plan.reason
    if certificate.verdict == "violated":
        law = next(law for law in certificate.laws if law.verdict == "violated")
        return "failed", f"law {law.name!r} is violated in {law.scope}: {law.before!r} before, {law.after!r} after"
    for outcome in _SEVERITY[:3]:
        for section in sections:
            if section.outcome == outcome:
                return outcome, f"{section.section}: {section.reason}"
    worked = [section.section for section in sections if section.outcome == "succeeded"]
    if worked:
        return "succeeded", ", ".join(worked)
    if plan.dry_run:
        return "nothing_to_do", "dry run"
    return "nothing_to_do", "the table is healthy" if plan.outcome == "healthy" else plan.reason


def _stats(plan: Plan, steps: Sequence[StepResult], after: TableNumbers | None) -> Stats:
    before = plan.before
    added = _sum(steps, "files_added")
    compacted = _sum(steps, "files_compacted")
    if after is None:  # derive from what was committed; small files cannot be derived, so they stay as they were
        after = TableNumbers(
            data_files=before.data_files - compacted + added,
            data_bytes=before.data_bytes - _sum(steps, "bytes_before") + _sum(steps, "bytes_after"),
            small_files=before.small_files,
            delete_files=before.delete_files - _sum(steps, "delete_files_removed"),
        )
    return Stats(
        files_before=before.data_files,
        files_after=after.data_files,
        files_compacted=compacted,
        files_removed=max(0, before.data_files - after.data_files),
        bytes_before=before.data_bytes,
        bytes_after=after.data_bytes,
        bytes_saved=before.data_bytes - after.data_bytes,
        delete_files_before=before.delete_files,
        delete_files_after=after.delete_files,
        snapshots_expired=_sum(steps, "snapshots_expired"),
        orphan_files_found=_sum(steps, "orphan_files_found"),
        orphan_files_deleted=_sum(steps, "orphan_files_deleted"),
        small_files_remaining=after.small_files,
        compaction_time_ms=sum(step.duration_ms for step in steps if step.section == "rewrite"),
    )


def _sum(steps: Sequence[StepResult], name: str) -> int:
    return sum(int(step.numbers.get(name, 0)) for step in steps)


def _probe(steps: Sequence[StepResult]) -> dict[str, Any]:
    return next((dict(step.numbers["probe"]) for step in reversed(steps) if step.numbers.get("probe")), {})

"""Data files: plan, write, audit, publish, batch by batch. See docs/audit.md for the laws."""

from __future__ import annotations

import dataclasses
import itertools
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import BatchResult, StepResult
from spark_jobs import attempts, certify, compare, fallback, probe
from spark_jobs.attempts import Attempt
from spark_jobs.context import ATTEMPT_ID, AUDIT, BATCH_ID, CLOCK_SKEW_MS, PLAN_ID, RUN_ID
from spark_jobs.errors import (
    CatalogError,
    ConflictError,
    InputGoneError,
    JobError,
    LawViolatedError,
    RefusedError,
    UnknownCommitStateError,
)
from spark_jobs.jvm import first_line, translate
from spark_jobs.progress import Progress, note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_iceberg_compaction.documents import Batch, Law, Outcome, Plan
    from spark_jobs.context import Context
    from spark_jobs.jvm import Group, IcebergTable, SnapshotFacts

# Options that the job itself carries out.
_OURS = {"max-concurrent-file-group-rewrites", "use-starting-sequence-number"}
_IGNORED = {"partial-progress.enabled", "remove-dangling-deletes"}
_LOOKS_FOR_STAMP = 4
_GROUPS_AT_ONCE = (5, 16)  # Iceberg's own default at least; more only bloats the driver


def run(context: Context) -> StepResult:
    """Rewrite every batch of the plan that is not committed yet."""
    return _Rewrite(context).run()


@dataclass
class _Rewrite:
    context: Context
    results: list[BatchResult] = field(default_factory=list)
    laws: list[Law] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    def run(self) -> StepResult:
        context, plan = self.context, self.context.plan
        self.started = time.monotonic()
        table = context.load_table()
        if table.is_encrypted:
            raise RefusedError(
                f"{plan.table} is encrypted (encryption.key-id), which this job does not support; "
                "set `rewrite: {enabled: false}` for it"
            )
        self.progress = Progress(
            "rewrite", len(plan.rewrite.batches), plan.rewrite.input_files, plan.rewrite.input_bytes
        )
        for batch in () if context.gateway.missing else plan.rewrite.batches:  # the public action checks them itself
            _check_options(table, plan.rewrite.strategy, batch)
        known = table.snapshot_ids() if plan.rewrite.probe else ()
        before = probe.warm_up_and_run(context.gateway, plan.rewrite.probe)
        if context.gateway.missing:
            self.remarks.append(
                f"audited after publish: Iceberg {context.gateway.iceberg_version} lacks {', '.join(context.gateway.missing)}"
            )
        self.earlier = next((s.laws for s in context.document.result.steps if s.section == "rewrite"), ())
        self.committed = committed_batches(table, plan)
        for number, batch in enumerate(plan.rewrite.batches, start=1):
            self.progress.batch = number
            try:
                self._add(self._batch(batch))
                if any(law.verdict == "violated" for law in self.laws):
                    break  # published and wrong: somebody must look before anything else is
            except LawViolatedError as error:
                self.laws += error.laws
                self._fail(batch, error)
                break  # an engine that harms rows gets no second chance in this run
            except JobError as error:
                self._fail(batch, error)
        context.at_stage("finishing")
        self._clean_up(table)
        if before is not None:
            self._probe(before, known)
        return self._step(finished=True)

    def _clean_up(self, table: IcebergTable) -> None:
        try:
            removed, kept = attempts.clean_leftovers(table, self.context.plan)
        except Exception as error:  # what was published stays published; orphan removal finds the rest
            removed, kept = 0, (f"leftovers of earlier attempts could not be looked for: {first_line(error)}",)
        if removed:
            note(f"removed {removed} files that earlier attempts of this run wrote and never published")
        for reason in kept:
            note(reason)

    # ---------------------------------------------------------------------------------------------------------- a batch

    def _batch(self, batch: Batch) -> BatchResult:
        started = time.monotonic()
        table = self.context.load_table()
        last: JobError | None = None
        for attempt in range(1, self.context.max_attempts + 1):
            if attempt > 1:
                self.context.back_off(attempt)
                table = self.context.load_table()
                # The race may have been lost to another try of this very plan.
                self.committed = committed_batches(table, self.context.plan)
            if batch.batch_id in self.committed:
                return self._take_over(table, batch, self.committed[batch.batch_id])
            carry_out = self._public_attempt if self.context.gateway.missing else self._attempt
            try:
                result = carry_out(table, batch, attempt, started)
            except ConflictError as error:
                if isinstance(error, InputGoneError):
                    self._refuse_damage(table, batch, error)
                last = error
                note(f"batch {batch.batch_id} attempt {attempt} lost a race: {error}")
                continue
            return result
        self.problems.append(f"batch {batch.batch_id} lost {self.context.max_attempts} races, last: {last}")
        return BatchResult(
            batch_id=batch.batch_id,
            outcome="conflicted",
            attempts=self.context.max_attempts,
            duration_ms=_since(started),
        )

    def _refuse_damage(self, table: IcebergTable, batch: Batch, error: InputGoneError) -> None:
        """A file that is missing and still live was not lost to a race, and no retry brings it back."""
        started_from = table.head()
        table = self.context.load_table()
        head = table.head()
        if head is None or self.context.gateway.missing:
            return
        strategy = self.context.plan.rewrite.strategy
        groups = _plan(table, table.expression(batch.filter), head.snapshot_id, strategy, batch)
        files = {
            path for group in groups for path in (*(f.path for f in group.inputs), *(d.path for d in group.deletes))
        }
        for path in sorted(files, key=lambda path: path.rpartition("/")[2] not in str(error)):
            if not table.has_file(path):
                raise JobError(
                    f"the table is damaged: its current snapshot holds {path}, which is not in storage; restore the file "
                    "or roll the table back, this run changed nothing there"
                ) from error
        if head == started_from:  # nobody committed anything: it was no input that is missing
            raise JobError(f"{error}; see the Spark driver's log") from error

    def _take_over(self, table: IcebergTable, batch: Batch, published: SnapshotFacts) -> BatchResult:
        """A batch that another try of this plan has published, with the laws it left, or checked now if it left none."""
        scope = f"batch {batch.batch_id}"
        laws = [law for law in self.earlier if law.scope == scope]
        if not laws and AUDIT in published.summary:
            moved = (published.number("added-records") or 0, published.number("deleted-records") or 0)
            laws = [*certify.from_stamp(batch, published.summary[AUDIT])]
            laws.append(certify.head_rows(table, scope, published, *moved))
        elif not laws:
            laws = [*compare.snapshots(self.context, scope, published)]
        self._hold(batch, published, laws)
        return _from_snapshot(batch, published)

    def _attempt(self, table: IcebergTable, batch: Batch, number: int, started: float) -> BatchResult:
        context, section = self.context, self.context.plan.rewrite
        self.progress.tell("planning")
        head = table.head()
        expression = table.expression(batch.filter)
        groups = [] if head is None else _plan(table, expression, head.snapshot_id, section.strategy, batch)
        if number > 1 and any(group.changes_spec for group in groups):
            # Such groups must be young, and the fewer files are, the fewer deletes can beat them.
            groups = [group for group in groups if group.changes_spec]
        context.at_stage("planned")
        if head is None or not groups:
            return BatchResult(
                batch_id=batch.batch_id,
                outcome="already_done",
                attempts=number,
                duration_ms=_since(started),
                drift=f"nothing left to rewrite, {batch.input_files} files were planned",
            )
        attempt = Attempt.new(table, context.plan.plan_id, batch.batch_id)
        context.document.will_write_under(attempt.destination)
        attempt.begin(table, groups)
        counted = (self.progress.files_done, self.progress.bytes_done)
        try:
            self._write(table.writing_to(attempt.destination), batch, groups, table)
            context.at_stage("written")
            self.progress.tell("auditing")
            laws = certify.before_publish(context, table, batch, head.snapshot_id, expression, groups)
            context.at_stage("audited")
            if any(law.verdict == "violated" for law in laws):
                raise LawViolatedError(laws)
        except BaseException:
            self.progress.files_done, self.progress.bytes_done = counted
            self._abandon(table, attempt, groups)
            raise
        self.progress.tell("committing")
        # Younger files shake off position deletes of the start snapshot, but every equality delete committed meanwhile
        # beats them. A table that gets such deletes all the time is better compacted and tidied up another night.
        # Files that move to another spec must be young: equality deletes of their old spec cannot reach them there.
        asked = batch.options.get("use-starting-sequence-number", "true") == "true"
        as_old = (asked or number > 1) and not any(group.changes_spec for group in groups)
        try:
            published = self._commit(table, attempt, groups, head.snapshot_id, certify.stamp(laws), as_old=as_old)
        except JobError:
            self.progress.files_done, self.progress.bytes_done = counted
            raise
        context.at_stage("committed")
        attempt.published(table, groups)
        after = certify.after_publish(table, batch, published, groups)
        self.laws += laws
        self._hold(batch, published, after)
        return BatchResult(
            batch_id=batch.batch_id,
            outcome="committed",
            snapshot_id=published.snapshot_id,
            input_files=sum(len(g.inputs) for g in groups),
            input_bytes=sum(g.input_bytes for g in groups),
            output_files=sum(len(g.outputs) for g in groups),
            output_bytes=sum(g.output_bytes for g in groups),
            removed_delete_files=published.number("removed-delete-files") or 0,
            attempts=number,
            duration_ms=_since(started),
            drift=_drift(batch, groups),
        )

    def _write(self, destination: IcebergTable, batch: Batch, groups: Sequence[Group], table: IcebergTable) -> None:
        """Let the engine write every group, several at a time; the first failure ends the batch."""
        context = self.context
        engine = context.engine(context.gateway, destination, context.plan.rewrite, batch.options)
        asked = int(batch.options.get("max-concurrent-file-group-rewrites", 0))
        at_once = asked or min(max(context.gateway.parallelism(), _GROUPS_AT_ONCE[0]), _GROUPS_AT_ONCE[1])

        def one(group: Group) -> None:
            table.accept_outputs(group, engine.rewrite(group))
            self.progress.tell("writing", files=len(group.inputs), size=group.input_bytes)

        with ThreadPoolExecutor(max_workers=min(at_once, len(groups)), thread_name_prefix="rewrite") as pool:
            futures = [pool.submit(one, group) for group in groups]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                raise

    def _commit(
        self,
        table: IcebergTable,
        attempt: Attempt,
        groups: Sequence[Group],
        snapshot_id: int,
        audit: str,
        *,
        as_old: bool,
    ) -> SnapshotFacts:
        marks = {BATCH_ID: attempt.batch_id, ATTEMPT_ID: attempt.attempt_id, AUDIT: audit}
        stamps = self.context.stamps("rewrite", **marks)
        self.context.at_stage("committing")
        try:
            table.commit(groups, snapshot_id, stamps, as_old_as_start=as_old)
        except UnknownCommitStateError as error:
            # Whatever was written may be referenced: it stays, and the snapshot log decides.
            found = self._look_for(attempt.attempt_id)
            if found is not None:
                return found
            raise ConflictError(
                f"{error}; no snapshot carries the batch's stamp so far, so it is planned again"
            ) from error
        except JobError:
            # Iceberg promises that nothing was published. A client that repeats a lost request on its own can be wrong
            # about that, so the snapshot log has the last word.
            found = self._find(attempt.attempt_id)
            if found is not None:
                return found
            self._abandon(table, attempt, groups)
            raise
        found = self._look_for(attempt.attempt_id)
        if found is None:
            raise JobError(
                f"the commit of batch {attempt.batch_id} succeeded but no snapshot carries its stamp; "
                "was the table rolled back? Assess it again"
            )
        return found

    def _abandon(self, table: IcebergTable, attempt: Attempt, groups: Sequence[Group]) -> None:
        reason = attempt.abandon(table, groups)
        if reason:
            note(reason)

    def _look_for(self, attempt_id: str) -> SnapshotFacts | None:
        """The snapshot of this attempt, looked for until a catalog that is away has had time to come back."""
        for look in range(1, _LOOKS_FOR_STAMP + 1):
            try:
                found = self._find(attempt_id)
            except CatalogError as away:
                note(str(away))
                if look == _LOOKS_FOR_STAMP:
                    raise
                found = None
            if found is not None:
                return found
            self.context.back_off(look)
        return None

    def _find(self, attempt_id: str) -> SnapshotFacts | None:
        table = self.context.load_table()
        since = self.context.plan.created_at_ms - CLOCK_SKEW_MS
        # It is nearly always the head; after a rollback it may be anywhere.
        seen = itertools.chain(table.lineage_since(since), table.snapshots_since(since))
        return next((s for s in seen if s.summary.get(ATTEMPT_ID) == attempt_id), None)

    def _public_attempt(self, table: IcebergTable, batch: Batch, number: int, started: float) -> BatchResult:
        """One attempt through Iceberg's public action, audited once it is published."""
        attempt_id = uuid.uuid4().hex[:12]
        self.progress.tell("writing")
        try:
            fallback.publish(self.context, table, batch, attempt_id)
        except UnknownCommitStateError as error:
            if self._find(attempt_id) is None:
                raise ConflictError(f"{error}; no snapshot carries the batch's stamp, so it is tried again") from error
        published = self._find(attempt_id)
        if published is None:
            return BatchResult(
                batch_id=batch.batch_id, outcome="already_done", attempts=number, duration_ms=_since(started)
            )
        laws = compare.snapshots(self.context, f"batch {batch.batch_id}", published)
        self._hold(batch, published, laws)
        result = _from_snapshot(batch, published)
        self.progress.files_done += result.input_files
        self.progress.bytes_done += result.input_bytes
        return dataclasses.replace(result, outcome="committed", attempts=number, duration_ms=_since(started))

    def _hold(self, batch: Batch, published: SnapshotFacts, laws: Sequence[Law]) -> None:
        """Keep the laws that were checked after publishing, and say loudly when one is broken."""
        self.laws += laws
        broken = [law.detail for law in laws if law.verdict == "violated"]
        if broken:
            self.problems.append(
                f"snapshot {published.snapshot_id} of batch {batch.batch_id} does not hold what it should: "
                f"{'; '.join(broken)}; compare it with its parent {published.parent_id}, roll back if rows are missing"
            )

    # ------------------------------------------------------------------------------------------------------ the result

    def _add(self, result: BatchResult) -> None:
        if result.outcome in ("already_committed", "already_done"):
            self.progress.tell(result.outcome, files=result.input_files, size=result.input_bytes)
        else:
            self.progress.tell(result.outcome)
        self.results.append(result)
        self.context.document.update(self._step(finished=False))

    def _fail(self, batch: Batch, error: JobError) -> None:
        self.problems.append(f"batch {batch.batch_id}: {error}")
        self._add(BatchResult(batch_id=batch.batch_id, outcome="failed"))

    def _probe(self, before: probe.Measured, known: Collection[int]) -> None:
        after = probe.run(self.context.gateway, self.context.plan.rewrite.probe)
        plan = self.context.plan
        recent = self.context.load_table().snapshots_since(plan.created_at_ms - CLOCK_SKEW_MS)
        others_wrote = any(s.snapshot_id not in known and s.summary.get(RUN_ID) != plan.run_id for s in recent)
        law, numbers = probe.compare(before, after, others_wrote)
        self.laws.append(law)
        self.numbers["probe"] = numbers
        if law.verdict == "violated":
            self.problems.append(f"the probe's answer changed: {law.detail}")

    def _step(self, *, finished: bool) -> StepResult:
        outcomes = {result.outcome for result in self.results}
        violated = any(law.verdict == "violated" for law in self.laws)
        outcome: Outcome = "succeeded"
        if "failed" in outcomes or violated or not finished:
            outcome = "failed"
        elif "conflicted" in outcomes:
            outcome = "conflicted"
        elif outcomes <= {"already_done"}:
            outcome = "nothing_to_do"
        mine = [r for r in self.results if r.outcome in ("committed", "already_committed")]
        return StepResult(
            section="rewrite",
            outcome=outcome,
            reason=" | ".join(self.problems) if finished else "still running, or killed",
            snapshots=tuple(r.snapshot_id for r in mine if r.snapshot_id is not None),
            duration_ms=_since(self.started),
            numbers={
                "files_compacted": sum(r.input_files for r in mine),
                "files_added": sum(r.output_files for r in mine),
                "bytes_before": sum(r.input_bytes for r in mine),
                "bytes_after": sum(r.output_bytes for r in mine),
                "delete_files_removed": sum(r.removed_delete_files for r in mine),
                **self.numbers,
            },
            batches=tuple(self.results),
            laws=tuple(self.laws),
            remarks=tuple(self.remarks),
        )


def committed_batches(table: IcebergTable, plan: Plan) -> dict[str, SnapshotFacts]:
    """The batches of this plan that are published and not rolled back, by the stamps in the head's lineage."""
    return {
        s.summary[BATCH_ID]: s
        for s in table.lineage_since(plan.created_at_ms - CLOCK_SKEW_MS)
        if s.summary.get(PLAN_ID) == plan.plan_id and BATCH_ID in s.summary
    }


def _plan(table: IcebergTable, expression: Any, snapshot_id: int, strategy: str, batch: Batch) -> list[Group]:
    try:
        return table.plan_groups(expression, snapshot_id, strategy, batch.options)
    except Exception as error:
        raise translate(error, "Iceberg could not plan the batch", of_inputs=True) from error


def _check_options(table: IcebergTable, strategy: str, batch: Batch) -> None:
    """An option nobody understands would be a silent change of meaning."""
    runner_only = {"compression-factor", "shuffle-partitions-per-file", "var-length-contribution", "max-output-size"}
    unknown = batch.options.keys() - table.planner_options(strategy) - _OURS - _IGNORED
    unknown -= runner_only if strategy != "binpack" else set()
    if unknown:
        raise RefusedError(
            f"this Iceberg knows no rewrite options {', '.join(sorted(unknown))}; remove them from the plan"
        )


def _from_snapshot(batch: Batch, snapshot: SnapshotFacts) -> BatchResult:
    return BatchResult(
        batch_id=batch.batch_id,
        outcome="already_committed",
        snapshot_id=snapshot.snapshot_id,
        input_files=snapshot.number("deleted-data-files") or 0,
        input_bytes=snapshot.number("removed-files-size") or 0,
        output_files=snapshot.number("added-data-files") or 0,
        output_bytes=snapshot.number("added-files-size") or 0,
        removed_delete_files=snapshot.number("removed-delete-files") or 0,
    )


def _drift(batch: Batch, groups: Sequence[Group]) -> str:
    """How Iceberg's plan at run time differs from ours."""
    now = {
        "input files": (batch.input_files, sum(len(g.inputs) for g in groups)),
        "input bytes": (batch.input_bytes, sum(g.input_bytes for g in groups)),
        "groups": (batch.groups, len(groups)),
    }
    return "; ".join(
        f"{name}: {ours} planned, {theirs} found" for name, (ours, theirs) in now.items() if ours != theirs
    )


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)

"""Which partitions a policy wants rewritten, before any file is looked at, and in which order."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from airflow_iceberg_compaction.documents import Decision, OptimizationType
from airflow_iceberg_compaction.health.model import PartitionHealth, PartitionTuple, Spec, TableHealth
from airflow_iceberg_compaction.health.score import fragment_ratio, score
from airflow_iceberg_compaction.plan import predicate

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import TablePolicy

Key = tuple[int, PartitionTuple]

LONGEST_WAIT_MS = 7 * 24 * 3600 * 1000


class Trigger(NamedTuple):
    """One reason to rewrite a partition: what kind of rewrite would cure it, and the numbers that say so."""

    type: OptimizationType
    reason: str
    detail: str


class Judgement(NamedTuple):
    """The policy's word on one partition. ``triggers`` is empty unless it is a candidate, most urgent first."""

    health: PartitionHealth
    key: Key
    score: float
    priority: float
    triggers: tuple[Trigger, ...] = ()
    decision: Decision = "skip"
    reason: str = "healthy"
    detail: str = ""

    @property
    def is_candidate(self) -> bool:
        return bool(self.triggers)


def judge_partitions(
    health: TableHealth,
    policy: TablePolicy,
    parameters: RunParameters,
    now_ms: int,
    selected: Collection[Key] | None = None,
) -> list[Judgement]:
    """One judgement for every partition, the most urgent first."""
    judge = _Judge(health, policy, parameters, now_ms, selected)
    judgements = [judge(partition) for partition in health.partitions]
    judgements.sort(key=lambda judgement: -judgement.priority)
    return judgements


class _Judge:
    def __init__(
        self,
        health: TableHealth,
        policy: TablePolicy,
        parameters: RunParameters,
        now_ms: int,
        selected: Collection[Key] | None,
    ) -> None:
        self._health = health
        self._policy = policy
        self._force = parameters.force
        self._now_ms = now_ms
        self._selected = selected
        self._specs = {spec.spec_id: spec for spec in health.specs}
        self._unjudged = dict(health.unjudged)
        self._log_start_ms = log_start_ms(health)
        self._quiet_ms = _ms(policy.rewrite.min_quiet)

    def __call__(self, partition: PartitionHealth) -> Judgement:
        value = score(partition, self._policy, self._now_ms)
        triggers = self._triggers(partition)
        key = (partition.spec_id, partition.partition)
        barred = self._barred(partition, key, bool(triggers))
        decision, reason, detail = barred or ("rewrite", triggers[0].reason, triggers[0].detail)
        return Judgement(
            health=partition,
            key=key,
            score=value,
            priority=value + self._ageing(partition),
            triggers=() if barred else triggers,
            decision=decision,
            reason=reason,
            detail=detail,
        )

    def _ageing(self, partition: PartitionHealth) -> float:
        """Time since the last compaction, as a share of a week or of the log: deferred partitions overtake the rest.

        A partition without a known compaction waits since the log began; by then it outweighs any score, which is at
        most one, of a partition that was compacted meanwhile.
        """
        longest = min(LONGEST_WAIT_MS, self._now_ms - self._log_start_ms)
        if longest <= 0:
            return 0.0
        return max(0.0, (self._now_ms - compacted_before_ms(partition, self._log_start_ms)) / longest)

    def _barred(self, partition: PartitionHealth, key: Key, wanted: bool) -> tuple[Decision, str, str] | None:
        """Why the partition is no candidate, None when it is one."""
        policy = self._policy
        if partition.spec_id in self._unjudged:
            return "refuse", "cannot_judge", self._unjudged[partition.spec_id]
        if self._selected is not None and key not in self._selected:
            return "skip", "not_selected", "outside the run's partition_filter"
        if partition.data_files == 0:
            return "skip", "no_data_files", f"no data files, {partition.delete_files} delete files"
        if not policy.rewrite.enabled and not self._force:
            return "skip", "disabled", "rewrite.enabled is false"
        if not wanted:
            return "skip", "healthy", _healthy(partition, policy)
        if partition.spec_id != self._health.current_spec_id and not policy.rewrite.old_specs:
            return "skip", "old_spec", f"files of former spec {partition.spec_id}; rewrite.old_specs is false"
        if not self._in_window(partition):
            return "skip", "outside_window", f"older than rewrite.partitions {_days(policy.rewrite.partitions)}"
        return None if self._force else self._too_hot(partition)

    def _too_hot(self, partition: PartitionHealth) -> tuple[Decision, str, str] | None:
        quiet_ms = self._quiet_ms
        if partition.newest_file_ms is None or self._now_ms - partition.newest_file_ms >= quiet_ms:
            return None
        age_s = max(0, self._now_ms - partition.newest_file_ms) // 1000
        return "skip", "too_hot", f"newest file is {age_s} s old, rewrite.min_quiet is {quiet_ms // 1000} s"

    def _triggers(self, partition: PartitionHealth) -> tuple[Trigger, ...]:
        thresholds = self._policy.thresholds
        if self._force and partition.spec_id == self._health.current_spec_id:
            return (Trigger(type="full", reason="forced", detail=f"forced, all {partition.data_files} files"),)
        if partition.spec_id != self._health.current_spec_id and self._policy.rewrite.old_specs:
            detail = f"files of former spec {partition.spec_id} are brought to spec {self._health.current_spec_id}"
            return (Trigger(type="full", reason="old_spec", detail=detail),)
        found = []
        ratio = fragment_ratio(partition)
        applied = partition.applied_delete_files
        if applied >= max(1, thresholds.delete_files):
            detail = f"{applied} delete files apply, thresholds.delete_files is {thresholds.delete_files}"
            found.append(Trigger(type="major", reason="delete_files", detail=detail))
        elif applied and ratio > thresholds.delete_ratio:
            detail = f"{ratio:.2f} delete files per data file, thresholds.delete_ratio is {thresholds.delete_ratio:g}"
            found.append(Trigger(type="major", reason="delete_ratio", detail=detail))
        if partition.small_files >= max(1, thresholds.min_small_files):
            detail = (
                f"{partition.small_files} of {partition.data_files} files are small, "
                f"thresholds.min_small_files is {thresholds.min_small_files}"
            )
            found.append(Trigger(type="minor", reason="small_files", detail=detail))
        if self._is_full_due(partition):
            every = _days(self._policy.rewrite.full_every)
            found.append(
                Trigger(type="full", reason="full_every", detail=f"no compaction within rewrite.full_every {every}")
            )
        return tuple(found)

    def _is_full_due(self, partition: PartitionHealth) -> bool:
        """Due only when the log proves it: our stamps go with expired snapshots, and no stamp is no proof."""
        every = self._policy.rewrite.full_every
        if every is None:
            return False
        return self._now_ms - compacted_before_ms(partition, self._log_start_ms) >= _ms(every)

    def _in_window(self, partition: PartitionHealth) -> bool:
        window = self._policy.rewrite.partitions
        if window is None:
            return True
        end = partition_end_ms(self._specs[partition.spec_id], partition.partition)
        return end is None or end > self._now_ms - _ms(window)


def log_start_ms(health: TableHealth) -> int:
    """When the snapshot log begins, which is how far back the absence of a compaction is known."""
    return min((snapshot.timestamp_ms for snapshot in health.snapshots), default=health.judged_at_ms)


def compacted_before_ms(partition: PartitionHealth, log_start: int) -> int:
    """The partition was certainly not compacted after this."""
    return log_start if partition.last_compaction_ms is None else partition.last_compaction_ms


def partition_end_ms(spec: Spec, values: PartitionTuple) -> int | None:
    """When the time that a partition covers ends, None when no field tells a time."""
    ends = []
    for field, value in zip(spec.fields, values, strict=True):
        is_time = field.transform in predicate.TIME_TRANSFORMS
        if value is None or not (is_time or (field.transform == "identity" and field.source_type == "date")):
            continue
        _, end = predicate.source_range(field.transform, "timestamp", value, value)
        ends.append(end // 1000)
    return min(ends, default=None)


def _healthy(partition: PartitionHealth, policy: TablePolicy) -> str:
    thresholds = policy.thresholds
    return (
        f"{partition.small_files} small files (rewritten from {thresholds.min_small_files}), "
        f"{partition.applied_delete_files} applied delete files (from {thresholds.delete_files})"
    )


def _ms(duration: timedelta) -> int:
    return int(duration.total_seconds() * 1000)


def _days(duration: timedelta | None) -> str:
    return "" if duration is None else f"{duration.total_seconds() / 86400:g} d"

"""Partitions to rewrite, packed into commits, each with a filter that is proven to select them and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from airflow_iceberg_compaction.documents import Batch
from airflow_iceberg_compaction.health.model import PartitionTuple, Spec
from airflow_iceberg_compaction.plan import predicate
from airflow_iceberg_compaction.plan.cost import Work
from airflow_iceberg_compaction.plan.errors import PlanError, PredicateError
from airflow_iceberg_compaction.plan.projection import PartitionIndex
from airflow_iceberg_compaction.plan.rules import FileGroup, PlannerOptions
from airflow_iceberg_compaction.plan.selection import Judgement, Key, Trigger

# One commit holds a few partitions and a bounded amount of work, so that a conflict costs little.
MAX_PARTITIONS = 64
MAX_BYTES = 16 * 1024**3

_CHUNK = 512  # partitions proven at a time


@dataclass(frozen=True, kw_only=True)
class Prospect:
    """One partition that Iceberg would rewrite, with the exact files."""

    judgement: Judgement
    trigger: Trigger
    options: PlannerOptions
    groups: tuple[FileGroup, ...]

    @property
    def key(self) -> Key:
        return self.judgement.key

    @cached_property
    def work(self) -> Work:
        files = [file for group in self.groups for file in group.files]
        return Work(
            input_files=len(files),
            input_bytes=sum(group.input_bytes for group in self.groups),
            input_delete_files=self._applied_deletes(sum(file.attached_delete_files for file in files)),
            output_files=sum(group.output_files for group in self.groups),
        )

    def _applied_deletes(self, attached: int) -> int:
        """Delete files that the rewrite applies: an equality delete attached to many files is one file."""
        return min(attached, self.judgement.health.delete_files)


class FilterProof:
    """Knows every live partition tuple, and so which partitions a filter can single out."""

    def __init__(self, specs: Iterable[Spec], keys: Iterable[Key]) -> None:
        self._specs = {spec.spec_id: spec for spec in specs}
        self._index = PartitionIndex(self._specs.values(), keys)

    def refusals(self, keys: Sequence[Key]) -> dict[Key, tuple[str, str]]:
        """The partitions that no filter singles out, with a reason word and a sentence."""
        refused: dict[Key, tuple[str, str]] = {}
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            if not self._is_exact(chunk):
                refused.update((key, why) for key in chunk if (why := self._refusal(key)) is not None)
        return refused

    def filter(self, keys: Sequence[Key]) -> predicate.Expression:
        """A filter that selects exactly ``keys``; PlanError when it would not."""
        by_spec: dict[int, list[PartitionTuple]] = defaultdict(list)
        for spec_id, values in keys:
            by_spec[spec_id].append(values)
        expression = predicate.any_of(
            [predicate.partitions_filter(self._specs[spec_id], tuples) for spec_id, tuples in by_spec.items()]
        )
        stray = self._index.selected(expression) ^ set(keys)
        if stray:
            raise PlanError(f"the filter of a batch would not select exactly its partitions but differ in {len(stray)}")
        return expression

    def _is_exact(self, keys: Sequence[Key]) -> bool:
        try:
            self.filter(keys)
        except PlanError:
            return False
        return True

    def _refusal(self, key: Key) -> tuple[str, str] | None:
        spec_id, values = key
        try:
            expression = predicate.partitions_filter(self._specs[spec_id], [values])
        except PredicateError as error:
            return "cannot_filter", str(error)
        selected = self._index.selected(expression)
        if key not in selected:
            return "filter_not_exact", "its filter does not select it; please report this"
        others = selected - {key}
        if not others:
            return None
        other_spec = next(iter(others))[0]
        return "filter_not_exact", (
            f"its filter may also select files of {len(others)} partitions of spec {other_spec}; "
            "set rewrite.old_specs: true to bring those to the current spec"
        )


def make_batches(prospects: Sequence[Prospect], proof: FilterProof) -> tuple[list[Batch], dict[Key, str]]:
    """Batches in order of urgency, and the batch of every partition."""
    batches: list[Batch] = []
    batch_ids: dict[Key, str] = {}
    for members in _packed(prospects):
        batch_id = f"b-{len(batches) + 1:04}"
        work = sum((member.work for member in members), start=Work())
        batches.append(
            Batch(
                batch_id=batch_id,
                filter=proof.filter([member.key for member in members]),
                options=members[0].options.to_mapping(),
                partitions=len(members),
                input_files=work.input_files,
                input_bytes=work.input_bytes,
                output_files=work.output_files,
                groups=sum(len(member.groups) for member in members),
            )
        )
        batch_ids.update((member.key, batch_id) for member in members)
    return batches, batch_ids


def _packed(prospects: Sequence[Prospect]) -> list[list[Prospect]]:
    """First fit in order of urgency; other options are another batch, because Iceberg takes one set for a plan."""
    packed: list[list[Prospect]] = []
    open_batches: dict[PlannerOptions, tuple[list[Prospect], int]] = {}
    for prospect in prospects:
        size = prospect.work.input_bytes
        members, total = open_batches.get(prospect.options, ([], 0))
        full = len(members) >= MAX_PARTITIONS or total + size > MAX_BYTES
        if not members or full or prospect.options.max_files_to_rewrite is not None:
            members, total = [], 0
            packed.append(members)
        members.append(prospect)
        open_batches[prospect.options] = (members, total + size)
    return packed

"""Partitions to rewrite, packed into commits, each with a filter that is proven to select them and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_iceberg_compaction.documents import Batch
from airflow_iceberg_compaction.health.model import PartitionTuple, Spec, TableHealth
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
    """What Iceberg would rewrite together with one partition, with the exact files; mostly that partition alone."""

    judgement: Judgement
    trigger: Trigger
    options: PlannerOptions
    groups: tuple[FileGroup, ...]
    shares: Mapping[Key, Work]  # every partition that is rewritten, with its part of the work
    work: Work  # all shares together
    filter_keys: tuple[Key, ...]  # the partitions whose filter selects all of ``shares``

    @classmethod
    def of_one(
        cls, judgement: Judgement, trigger: Trigger, options: PlannerOptions, groups: tuple[FileGroup, ...]
    ) -> Prospect:
        deletes = judgement.health.delete_files
        if deletes:  # an equality delete that is attached to many files is one file
            deletes = min(deletes, sum(file.attached_delete_files for group in groups for file in group.files))
        work = Work(
            input_files=sum([len(group.files) for group in groups]),
            input_bytes=sum([group.input_bytes for group in groups]),
            input_delete_files=deletes,
            output_files=sum([group.output_files for group in groups]),
        )
        key = judgement.key
        return cls(
            judgement=judgement,
            trigger=trigger,
            options=options,
            groups=groups,
            shares={key: work},
            work=work,
            filter_keys=(key,),
        )

    @property
    def key(self) -> Key:
        return self.judgement.key

    @property
    def is_alone(self) -> bool:
        """Whether it needs a batch of its own: Iceberg would pool or cut its files together with those of others."""
        return (
            len(self.shares) > 1 or self.options.max_files_to_rewrite is not None or self.trigger.reason == "old_spec"
        )


class FilterProof:
    """Knows every live partition tuple, and so what a filter selects."""

    def __init__(self, specs: Iterable[Spec], keys: Iterable[Key]) -> None:
        self._specs = {spec.spec_id: spec for spec in specs}
        self._index = PartitionIndex(self._specs.values(), keys)

    @classmethod
    def of(cls, health: TableHealth) -> FilterProof:
        return cls(health.specs, ((p.spec_id, p.partition) for p in health.partitions if p.data_files))

    def selected(self, keys: Iterable[Key]) -> set[Key]:
        """Every partition whose files the filter of ``keys`` may select. PredicateError when there is no filter."""
        return self._index.selected(self._expression(keys))

    def filter(self, keys: Sequence[Key], selects: Collection[Key] | None = None) -> predicate.Expression:
        """The filter of ``keys``, proven to select exactly ``selects`` (``keys`` when None); PlanError else."""
        expression = self._expression(keys)
        stray = self._index.selected(expression) ^ set(keys if selects is None else selects)
        if stray:
            raise PlanError(f"a filter of {len(keys)} partitions is not exact, it is wrong about {len(stray)}")
        return expression

    def refusals(self, keys: Sequence[Key]) -> dict[Key, tuple[str, str]]:
        """The partitions that no filter singles out, with a reason word and a sentence."""
        if self._index.live_specs == 1:
            # Whether a field can be filtered depends on the field, and batches are proven once more when they are made.
            why = self._refusal(keys[0]) if keys else None
            return {} if why is None else dict.fromkeys(keys, why)
        refused: dict[Key, tuple[str, str]] = {}
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            try:
                self.filter(chunk)
            except PlanError:
                refused.update((key, why) for key in chunk if (why := self._refusal(key)) is not None)
        return refused

    def _expression(self, keys: Iterable[Key]) -> predicate.Expression:
        by_spec: dict[int, list[PartitionTuple]] = defaultdict(list)
        for spec_id, values in keys:
            by_spec[spec_id].append(values)
        return predicate.any_of(
            [predicate.partitions_filter(self._specs[spec_id], tuples) for spec_id, tuples in by_spec.items()]
        )

    def _refusal(self, key: Key) -> tuple[str, str] | None:
        try:
            selected = self.selected([key])
        except PredicateError as error:
            return "cannot_filter", str(error)
        if key not in selected:
            return "filter_not_exact", "its filter does not select it; please report this"
        others = selected - {key}
        if not others:
            return None
        other_specs = ", ".join(str(spec_id) for spec_id in sorted({spec_id for spec_id, _ in others}))
        return "filter_not_exact", (
            f"its filter may also select {len(others)} partitions of spec {other_specs}; "
            "set rewrite.old_specs: true to bring those to the current spec"
        )


def make_batches(prospects: Sequence[Prospect], proof: FilterProof) -> tuple[list[Batch], dict[Key, str]]:
    """Batches in order of urgency, and the batch of every partition."""
    batches: list[Batch] = []
    batch_ids: dict[Key, str] = {}
    for members in _packed(prospects):
        batch_id = f"b-{len(batches) + 1:04}"
        work = Work.total(member.work for member in members)
        batches.append(
            Batch(
                batch_id=batch_id,
                filter=_filter(members, proof),
                options=members[0].options.to_mapping(),
                partitions=sum(len(member.shares) for member in members),
                input_files=work.input_files,
                input_bytes=work.input_bytes,
                output_files=work.output_files,
                groups=sum(len(member.groups) for member in members),
            )
        )
        batch_ids.update((key, batch_id) for member in members for key in member.shares)
    return batches, batch_ids


def _filter(members: Sequence[Prospect], proof: FilterProof) -> predicate.Expression:
    named = [key for member in members for key in member.filter_keys]
    return proof.filter(named, {key for member in members for key in member.shares})


def _packed(prospects: Sequence[Prospect]) -> list[list[Prospect]]:
    """First fit in order of urgency; other options are another batch, because Iceberg takes one set for a plan."""
    packed: list[list[Prospect]] = []
    open_batches: dict[PlannerOptions, tuple[list[Prospect], int]] = {}
    for prospect in prospects:
        size = prospect.work.input_bytes
        if prospect.is_alone:
            packed.append([prospect])
            continue
        members, total = open_batches.get(prospect.options, ([], 0))
        if not members or len(members) >= MAX_PARTITIONS or total + size > MAX_BYTES:
            members, total = [], 0
            packed.append(members)
        members.append(prospect)
        open_batches[prospect.options] = (members, total + size)
    return packed

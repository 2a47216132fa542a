"""Files of former partition specs: an explicit step of its own, because Iceberg cannot be asked for them alone.

Iceberg puts all files of former specs that a filter selects into one group with the partition of nulls of the current
spec, and the same filter may select partitions of the current spec as well. So former partitions are taken together
with everything their filter reaches, and all of it is rewritten into the current spec. Afterwards nothing of the former
spec is left there, which is what makes the step end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_iceberg_compaction.health.model import DataFileDetail, PartitionDetail, TableHealth
from airflow_iceberg_compaction.plan.batches import FilterProof, Prospect
from airflow_iceberg_compaction.plan.cost import Work
from airflow_iceberg_compaction.plan.errors import PredicateError
from airflow_iceberg_compaction.plan.options import OptionSets
from airflow_iceberg_compaction.plan.rules import FileGroup, plan_groups
from airflow_iceberg_compaction.plan.selection import Judgement, Key


@dataclass(frozen=True, kw_only=True)
class Component:
    """Former partitions that can only be rewritten together, and everything else that goes with them."""

    former: tuple[Judgement, ...]  # most urgent first
    reached: frozenset[Key]  # all partitions that the filter of ``former`` selects, they included
    problem: str | None = None  # why it cannot be rewritten


def find_components(
    judgements: Iterable[Judgement], current_spec_id: int, proof: FilterProof
) -> tuple[list[Component], dict[Key, str]]:
    """The components of all former partitions that are candidates, and the partitions no filter can name."""
    by_key = {judgement.key: judgement for judgement in judgements}
    components: list[tuple[list[Judgement], set[Key]]] = []
    unnamed: dict[Key, str] = {}
    for judgement in by_key.values():
        if not judgement.is_candidate or judgement.health.spec_id == current_spec_id:
            continue
        try:
            reached = proof.selected([judgement.key])
        except PredicateError as error:
            unnamed[judgement.key] = str(error)
            continue
        former = [judgement]
        apart = []
        for other_former, other_reached in components:
            if reached.isdisjoint(other_reached):
                apart.append((other_former, other_reached))
            else:
                former = other_former + former
                reached |= other_reached
        components = [*apart, (former, reached)]
    return [_component(former, reached, by_key, current_spec_id) for former, reached in components], unnamed


def _component(
    former: list[Judgement], reached: set[Key], by_key: Mapping[Key, Judgement], current_spec_id: int
) -> Component:
    problem = None
    keys = {judgement.key for judgement in former}
    for key in reached - keys:
        judgement = by_key[key]
        # A current partition needs no reason of its own to go along, but it must be free to go.
        if key[0] != current_spec_id or (not judgement.is_candidate and judgement.reason != "healthy"):
            problem = f"its filter also selects a partition of spec {key[0]} that is left alone ({judgement.reason})"
    return Component(former=tuple(former), reached=frozenset(reached), problem=problem)


def component_prospect(
    component: Component, health: TableHealth, details: Mapping[Key, PartitionDetail], option_sets: OptionSets
) -> Prospect:
    """What Iceberg makes of the component: every file of it is rewritten."""
    lead = component.former[0]
    former = {judgement.key for judgement in component.former}
    nulls = (health.current_spec_id, (None,) * len(health.spec(health.current_spec_id).fields))
    pooled: list[DataFileDetail] = []
    groups: list[FileGroup] = []
    shares: dict[Key, Work] = {}
    options = option_sets.of_all([judgement.health for judgement in component.former])
    for key in sorted(component.reached, key=lambda key: (key not in former, key[0], repr(key[1]))):
        files = details[key].files
        shares[key] = _work(files, ())
        if key in former or key == nulls:
            pooled += files
        else:
            own = plan_groups(files, options)
            shares[key] = _work(files, own)
            groups += own
    pooled_groups = plan_groups(pooled, options)
    shares[lead.key] = _work(details[lead.key].files, pooled_groups)
    return Prospect(
        judgement=lead,
        trigger=lead.triggers[0],
        options=options,
        groups=(*pooled_groups, *groups),
        shares=shares,
        work=Work.total(shares.values()),
        filter_keys=tuple(judgement.key for judgement in component.former),
    )


def _work(files: Iterable[DataFileDetail], groups: Iterable[FileGroup]) -> Work:
    inputs = list(files)
    return Work(
        input_files=len(inputs),
        input_bytes=sum(file.size_bytes for file in inputs),
        input_delete_files=max((file.attached_delete_files for file in inputs), default=0),
        output_files=sum(group.output_files for group in groups),
    )

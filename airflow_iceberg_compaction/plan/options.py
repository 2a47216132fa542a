"""The options of Iceberg's planner that follow from policy, table and run, one set for each kind of rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import OptimizationType
from airflow_iceberg_compaction.health.model import PartitionHealth, TableHealth
from airflow_iceberg_compaction.plan import rules

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters, Strategy
    from airflow_iceberg_compaction.policy.model import TablePolicy

TARGET_PROPERTY = "write.target-file-size-bytes"


def strategy(policy: TablePolicy, parameters: RunParameters) -> Strategy:
    return parameters.strategy or policy.rewrite.strategy


def strategy_problem(health: TableHealth, policy: TablePolicy, parameters: RunParameters) -> str | None:
    """Why the strategy cannot be carried out on this table, None when it can."""
    chosen = strategy(policy, parameters)
    if chosen == "zorder" and not policy.rewrite.sort_order:
        return "zorder needs columns; set rewrite.sort_order"
    if chosen == "sort" and not policy.rewrite.sort_order and not health.has_sort_order:
        return "sort needs an order; set rewrite.sort_order, or a sort order on the table"
    return None


def target_file_size(health: TableHealth, policy: TablePolicy, parameters: RunParameters) -> int:
    """The run's target, else the policy's, else the table's own, which is Iceberg's default when it has none."""
    return (
        parameters.target_file_size_bytes
        or policy.rewrite.target_file_size
        or int(health.properties.get(TARGET_PROPERTY, rules.DEFAULT_TARGET_FILE_SIZE))
    )


def small_file_limit(target: int, policy: TablePolicy) -> int:
    """Files below this are small. A policy's limit at or above the target would make every new file small."""
    limit = policy.thresholds.small_file_size
    return limit if limit < target else int(target * rules.MIN_FILE_SIZE_RATIO)


class OptionSets:
    """The planner options of one run, by kind of rewrite."""

    def __init__(self, health: TableHealth, policy: TablePolicy, parameters: RunParameters) -> None:
        self.target = target_file_size(health, policy, parameters)
        self.small_file_limit = small_file_limit(self.target, policy)
        self._min_input_files = policy.rewrite.min_input_files
        self._shuffles = strategy(policy, parameters) != "binpack"
        self._sets: dict[tuple[OptimizationType, bool], rules.PlannerOptions] = {}

    def of(self, kind: OptimizationType, partition: PartitionHealth) -> rules.PlannerOptions:
        """Options for ``kind`` of rewrite of ``partition``; partitions with equal options are the same object."""
        # A position delete that names no single file still attaches to files of its own sequence number, so the new
        # files must be younger than it: else they would qualify again.
        partition_scoped = partition.position_delete_files > partition.file_scoped_position_delete_files
        youngest = kind != "minor" and partition_scoped
        if (kind, youngest) not in self._sets:
            self._sets[kind, youngest] = self._make(kind, youngest)
        return self._sets[kind, youngest]

    def of_all(self, partitions: Iterable[PartitionHealth]) -> rules.PlannerOptions:
        """Options for a full rewrite of several partitions at once."""
        chosen = [self.of("full", partition) for partition in partitions]
        return next((options for options in chosen if not options.use_starting_sequence_number), chosen[0])

    def _make(self, kind: OptimizationType, youngest: bool) -> rules.PlannerOptions:
        return rules.PlannerOptions(
            target_file_size_bytes=self.target,
            min_file_size_bytes=self.small_file_limit,
            max_file_size_bytes=int(self.target * rules.MAX_FILE_SIZE_RATIO),
            min_input_files=self._min_input_files,
            # Iceberg's default never looks at equality deletes or at position deletes of a whole partition.
            delete_file_threshold=1 if kind == "major" else rules.NEVER_BY_DELETE_COUNT,
            rewrite_all=kind == "full",
            compression_factor=1.0 if self._shuffles else None,
            use_starting_sequence_number=not youngest,
        )

"""Iceberg's own rules for choosing, grouping and splitting files, so that a plan says what its planner will say.

They follow ``SizeBasedFileRewritePlanner`` and ``BinPackRewriteFilePlanner`` of Iceberg 1.12 step by step, integer
arithmetic included; ``SparkShufflingDataRewritePlanner`` (sort, z-order) differs only by the compression factor. Tests
compare every rule with Iceberg's planner object on randomised tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from airflow_iceberg_compaction.health.model import DataFileDetail

MIN_FILE_SIZE_RATIO = 0.75
MAX_FILE_SIZE_RATIO = 1.80
NEVER_BY_DELETE_COUNT = 2**31 - 1  # Iceberg's default: Integer.MAX_VALUE, the rule is off
DELETE_RATIO = 0.3
MAX_GROUP_BYTES = 100 * 1024**3
DEFAULT_TARGET_FILE_SIZE = 512 * 1024**2


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """Every option that decides what Iceberg's planner picks, so that nothing depends on a default."""

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    min_input_files: int
    delete_file_threshold: int = NEVER_BY_DELETE_COUNT
    delete_ratio_threshold: float = DELETE_RATIO
    max_file_group_size_bytes: int = MAX_GROUP_BYTES
    rewrite_all: bool = False
    max_files_to_rewrite: int | None = None
    compression_factor: float | None = None  # sort and z-order only
    use_starting_sequence_number: bool = True

    def to_mapping(self) -> dict[str, str]:
        """The options under Iceberg's names. ``use-starting-sequence-number`` belongs to the commit, not the planner."""
        options = {
            "target-file-size-bytes": str(self.target_file_size_bytes),
            "min-file-size-bytes": str(self.min_file_size_bytes),
            "max-file-size-bytes": str(self.max_file_size_bytes),
            "min-input-files": str(self.min_input_files),
            "delete-file-threshold": str(self.delete_file_threshold),
            "delete-ratio-threshold": repr(self.delete_ratio_threshold),
            "max-file-group-size-bytes": str(self.max_file_group_size_bytes),
            "rewrite-all": str(self.rewrite_all).lower(),
            "use-starting-sequence-number": str(self.use_starting_sequence_number).lower(),
        }
        if self.max_files_to_rewrite is not None:
            options["max-files-to-rewrite"] = str(self.max_files_to_rewrite)
        if self.compression_factor is not None:
            options["compression-factor"] = repr(self.compression_factor)
        return options


class FileGroup(NamedTuple):
    """Files of one partition that Iceberg reads together and replaces."""

    files: tuple[DataFileDetail, ...]
    input_bytes: int
    output_files: int


def plan_groups(files: Iterable[DataFileDetail], options: PlannerOptions) -> tuple[FileGroup, ...]:
    """The groups that Iceberg makes of one partition's files, in the order in which its scan meets them."""
    kept = list(files) if options.rewrite_all else [file for file in files if is_eligible(file, options)]
    packed = _pack(kept, options.max_file_group_size_bytes)
    if not options.rewrite_all:
        packed = [(group, size) for group, size in packed if is_worth_rewriting(group, size, options)]
    return tuple(
        FileGroup(files=tuple(group), input_bytes=size, output_files=expected_output_files(size, options))
        for group, size in _cut(packed, options.max_files_to_rewrite)
    )


def is_eligible(file: DataFileDetail, options: PlannerOptions) -> bool:
    """Whether Iceberg considers the file at all."""
    return (
        file.size_bytes < options.min_file_size_bytes
        or file.size_bytes > options.max_file_size_bytes
        or _has_too_many_deletes(file, options)
    )


def is_worth_rewriting(group: Sequence[DataFileDetail], input_bytes: int, options: PlannerOptions) -> bool:
    """Whether Iceberg rewrites a group of eligible files, ``input_bytes`` large together."""
    if len(group) > 1 and (len(group) >= options.min_input_files or input_bytes > options.target_file_size_bytes):
        return True
    if input_bytes > options.max_file_size_bytes:
        return True
    return any(_has_too_many_deletes(file, options) for file in group)


def expected_output_files(input_bytes: int, options: PlannerOptions) -> int:
    """How many files Iceberg aims at: a small remainder is spread over the others, a large one is a file of its own."""
    if options.compression_factor is not None:
        input_bytes = int(input_bytes * options.compression_factor)
    target = options.target_file_size_bytes
    if input_bytes < target:
        return 1
    whole, remainder = divmod(input_bytes, target)
    if remainder > options.min_file_size_bytes:
        return whole + 1
    if input_bytes // whole < min(1.1 * target, float(write_max_file_size(options))):
        return whole
    return whole + (remainder > 0)


def write_max_file_size(options: PlannerOptions) -> int:
    """The size at which a writer starts a new file: halfway between target and maximum."""
    target = options.target_file_size_bytes
    return int(target + (options.max_file_size_bytes - target) * 0.5)


def _has_too_many_deletes(file: DataFileDetail, options: PlannerOptions) -> bool:
    if file.attached_delete_files >= options.delete_file_threshold:
        return True
    if file.attached_delete_files == 0:
        return False
    if file.rows == 0:
        return False  # Java compares NaN, which is never above the threshold
    deleted = min(file.file_scoped_delete_rows, file.rows)
    return deleted / file.rows >= options.delete_ratio_threshold


def _pack(files: list[DataFileDetail], capacity: int) -> list[tuple[list[DataFileDetail], int]]:
    """Iceberg's bin packing with a lookback of one: a file that does not fit closes the bin for good."""
    packed: list[tuple[list[DataFileDetail], int]] = []
    group: list[DataFileDetail] = []
    total = 0
    for file in files:
        size = file.size_bytes
        if group and total + size > capacity:
            packed.append((group, total))
            group, total = [], 0
        group.append(file)
        total += size
    return [*packed, (group, total)] if group else packed


def _cut(packed: list[tuple[list[DataFileDetail], int]], limit: int | None) -> list[tuple[list[DataFileDetail], int]]:
    if limit is None:
        return packed
    cut = []
    for group, _ in packed:
        if limit <= 0:
            break
        part = group[:limit]
        cut.append((part, sum(file.size_bytes for file in part)))
        limit -= len(part)
    return cut

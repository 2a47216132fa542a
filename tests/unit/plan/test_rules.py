from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.health.model import DataFileDetail
from airflow_iceberg_compaction.plan.rules import (
    FileGroup,
    PlannerOptions,
    expected_output_files,
    plan_groups,
)

OPTIONS = PlannerOptions(
    target_file_size_bytes=1000, min_file_size_bytes=750, max_file_size_bytes=1800, min_input_files=5
)


def data_file(
    size: int, *, deletes: int = 0, deleted_rows: int = 0, rows: int = 100, path: str = "f"
) -> DataFileDetail:
    return DataFileDetail(
        path=path,
        size_bytes=size,
        rows=rows,
        sequence_number=1,
        attached_delete_files=deletes,
        file_scoped_delete_rows=deleted_rows,
    )


def sizes(groups: tuple[FileGroup, ...]) -> list[list[int]]:
    return [[file.size_bytes for file in group.files] for group in groups]


def with_options(**changes: object) -> PlannerOptions:
    return dataclasses.replace(OPTIONS, **changes)  # type: ignore[arg-type]


def test_four_small_files_are_left_alone_when_five_are_asked_for() -> None:
    assert plan_groups([data_file(10)] * 4, OPTIONS) == ()


def test_five_small_files_become_one() -> None:
    (group,) = plan_groups([data_file(10)] * 5, OPTIONS)
    assert (len(group.files), group.input_bytes, group.output_files) == (5, 50, 1)


def test_two_files_with_more_than_a_target_of_bytes_are_enough() -> None:
    assert sizes(plan_groups([data_file(501), data_file(500)], OPTIONS)) == [[501, 500]]
    assert plan_groups([data_file(500), data_file(500)], OPTIONS) == ()


def test_sizes_at_the_limits_are_right_sizes() -> None:
    assert plan_groups([data_file(750), data_file(1800)] * 5, OPTIONS) == ()


def test_one_oversized_file_is_split() -> None:
    (group,) = plan_groups([data_file(5000)], OPTIONS)
    assert group.output_files == 5


def test_a_single_file_is_rewritten_for_its_deletes_only_when_the_threshold_says_so() -> None:
    file = data_file(1000, deletes=1)
    assert plan_groups([file], OPTIONS) == ()
    assert sizes(plan_groups([file], with_options(delete_file_threshold=1))) == [[1000]]


def test_deleted_rows_count_only_from_file_scoped_deletes() -> None:
    assert plan_groups([data_file(1000, deletes=1, deleted_rows=29)], OPTIONS) == ()
    assert sizes(plan_groups([data_file(1000, deletes=1, deleted_rows=30)], OPTIONS)) == [[1000]]


def test_a_file_without_rows_has_no_delete_ratio() -> None:
    assert plan_groups([data_file(1000, deletes=1, deleted_rows=5, rows=0)], OPTIONS) == ()


def test_rewrite_all_takes_every_file_even_a_single_healthy_one() -> None:
    assert sizes(plan_groups([data_file(1000)], with_options(rewrite_all=True))) == [[1000]]


def test_a_file_that_does_not_fit_closes_its_group_for_good() -> None:
    options = with_options(max_file_group_size_bytes=100, min_input_files=1)
    files = [data_file(size) for size in (60, 50, 40, 30)]
    assert sizes(plan_groups(files, options)) == [[50, 40]]  # the groups [60] and [30] are single small files


def test_a_file_larger_than_a_group_is_a_group_of_its_own() -> None:
    options = with_options(max_file_group_size_bytes=100)
    assert sizes(plan_groups([data_file(2000), data_file(10)], options)) == [[2000]]


def test_max_files_cuts_the_plan_in_its_order() -> None:
    options = with_options(max_files_to_rewrite=3, max_file_group_size_bytes=20, min_input_files=2)
    assert sizes(plan_groups([data_file(10)] * 6, options)) == [[10, 10], [10]]


@pytest.mark.parametrize(
    ("input_bytes", "files"),
    [
        (1, 1),
        (999, 1),
        (1000, 1),
        (1099, 1),
        (1100, 2),
        (1750, 2),
        (1751, 2),
        (10_100, 10),
        (10_750, 10),
        (10_751, 11),
        (12_000, 12),
    ],
)
def test_a_small_remainder_is_spread_over_the_other_files(input_bytes: int, files: int) -> None:
    assert expected_output_files(input_bytes, OPTIONS) == files


def test_a_shuffle_scales_its_input_by_the_compression_factor() -> None:
    assert expected_output_files(2000, with_options(compression_factor=0.5)) == 1
    assert expected_output_files(2000, with_options(compression_factor=2.0)) == 4


def test_every_option_is_written_out() -> None:
    mapping = with_options(max_files_to_rewrite=7, compression_factor=1.0).to_mapping()
    assert mapping == {
        "target-file-size-bytes": "1000",
        "min-file-size-bytes": "750",
        "max-file-size-bytes": "1800",
        "min-input-files": "5",
        "delete-file-threshold": "2147483647",
        "delete-ratio-threshold": "0.3",
        "max-file-group-size-bytes": "107374182400",
        "rewrite-all": "false",
        "use-starting-sequence-number": "true",
        "max-files-to-rewrite": "7",
        "compression-factor": "1.0",
    }


@given(st.lists(st.integers(1, 3000), max_size=40), st.integers(1, 5000))
def test_groups_hold_each_eligible_file_at_most_once_and_in_order(file_sizes: list[int], capacity: int) -> None:
    files = [data_file(size, path=str(i)) for i, size in enumerate(file_sizes)]
    groups = plan_groups(files, with_options(max_file_group_size_bytes=capacity))
    paths = [int(file.path) for group in groups for file in group.files]
    assert paths == sorted(set(paths))
    assert all(group.input_bytes <= capacity or len(group.files) == 1 for group in groups)

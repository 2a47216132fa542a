from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_examples import (
    BY_DAY,
    BY_HOUR,
    BY_NAME,
    DAY_MS,
    HOUR_MS,
    MB,
    NOW_MS,
    Example,
    decisions,
    files,
    partition,
    policy,
)

from airflow_iceberg_compaction.documents import Plan
from airflow_iceberg_compaction.health.model import PartitionField, Spec
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.planner import candidates
from airflow_iceberg_compaction.policy.model import Prices


def sick(day: int, count: int = 6, **facts: object):  # type: ignore[no-untyped-def]
    return partition((day,), files(*[10] * count), **facts)


def only_reason(example: Example, **arguments: object) -> tuple[str, str]:
    ((decision, reason),) = decisions(example.plan(**arguments)).values()  # type: ignore[arg-type]
    return decision, reason


def test_small_files_are_rewritten_into_one() -> None:
    plan = Example([sick(1)]).plan()
    row = plan.rewrite.partitions[0]
    assert (row.decision, row.reason, row.type) == ("rewrite", "small_files", "minor")
    assert (row.input_files, row.input_bytes, row.output_files, row.batch_id) == (6, 60 * MB, 1, "b-0001")
    assert plan.outcome == "work"
    assert plan.has_work("rewrite")


def test_a_healthy_table_has_no_work_and_says_so() -> None:
    plan = Example([partition((1,), files(100, 100))]).plan()
    assert plan.outcome == "healthy"
    assert decisions(plan) == {"1970-01-02": ("skip", "healthy")}
    assert not any(plan.has_work(section) for section in ("rewrite", "delete_files", "manifests", "expire", "orphans"))


def test_a_plan_survives_json() -> None:
    plan = Example([sick(1), sick(2)]).plan()
    assert Plan.from_json(plan.to_json()) == plan


def test_an_empty_table_and_one_that_cannot_be_judged_have_outcomes_of_their_own() -> None:
    assert Example(snapshot_id=None).plan().outcome == "empty"
    plan = Example([sick(1)], cannot_judge="format version 9").plan()
    assert (plan.outcome, plan.reason) == ("cannot_judge", "format version 9")
    assert candidates(Example([sick(1)], cannot_judge="no").health, policy(), RunParameters(), NOW_MS) == ()


def test_partitions_of_a_spec_that_cannot_be_judged_are_refused_and_never_healthy() -> None:
    example = Example([partition((1,), files(100))], unjudged=((0, "unknown transform"),))
    assert only_reason(example) == ("refuse", "cannot_judge")
    assert example.plan().outcome == "cannot_judge"


def test_a_partition_written_a_minute_ago_is_left_alone_unless_forced() -> None:
    example = Example([sick(1, newest_file_ms=NOW_MS - 60_000)])
    assert only_reason(example) == ("skip", "too_hot")
    assert only_reason(example, parameters=RunParameters(force=True)) == ("rewrite", "forced")
    assert only_reason(Example([sick(1, newest_file_ms=NOW_MS - HOUR_MS)])) == ("rewrite", "small_files")


def test_a_partition_outside_the_run_filter_is_skipped() -> None:
    plan = Example([sick(1), sick(2)]).plan(selected=frozenset({(0, (2,))}))
    assert decisions(plan) == {"1970-01-03": ("rewrite", "small_files"), "1970-01-02": ("skip", "not_selected")}


def test_only_partitions_within_the_window_are_rewritten() -> None:
    today = NOW_MS // DAY_MS
    plan = Example([sick(today), sick(today - 10)]).plan(policy(rewrite={"partitions": timedelta(days=7)}))
    assert [row.reason for row in plan.rewrite.partitions] == ["small_files", "outside_window"]


def test_a_switched_off_rewrite_is_named() -> None:
    assert only_reason(Example([sick(1)]), table_policy=policy(rewrite={"enabled": False})) == ("skip", "disabled")


def test_fewer_eligible_files_than_iceberg_takes_are_no_work() -> None:
    lenient = policy(thresholds={"min_small_files": 3}, rewrite={"min_input_files": 8})
    assert only_reason(Example([sick(1)]), table_policy=lenient) == ("skip", "below_min_input")


def test_small_by_the_policy_but_not_by_the_target_is_no_work() -> None:
    assert only_reason(Example([sick(1)]), table_policy=policy(rewrite={"target_file_size": 10 * MB})) == (
        "skip",
        "nothing_eligible",
    )


def test_files_that_would_only_be_shuffled_are_no_work() -> None:
    """65 + 65 MB become two files of 65 MB again, for ever."""
    two = policy(thresholds={"min_small_files": 2})
    assert only_reason(Example([partition((1,), files(65, 65))]), table_policy=two) == ("skip", "no_gain")


def test_delete_heavy_partitions_get_a_threshold_that_iceberg_acts_on() -> None:
    example = Example([partition((1,), files(100, 100, deletes=12), equality_delete_files=12, applied_delete_files=12)])
    plan = example.plan()
    row = plan.rewrite.partitions[0]
    assert (row.reason, row.type, row.input_files, row.input_delete_files) == ("delete_files", "major", 2, 12)
    assert plan.rewrite.batches[0].options["delete-file-threshold"] == "1"
    assert plan.rewrite.batches[0].options["use-starting-sequence-number"] == "true"


def test_a_few_deletes_for_each_file_count_by_their_ratio() -> None:
    example = Example([partition((1,), files(100, 100, deletes=1), deletion_vectors=2, applied_delete_files=2)])
    assert only_reason(example) == ("rewrite", "delete_ratio")


def test_new_files_are_younger_than_position_deletes_that_name_no_file() -> None:
    example = Example([partition((1,), files(100, deletes=12), position_delete_files=12, applied_delete_files=12)])
    assert example.plan().rewrite.batches[0].options["use-starting-sequence-number"] == "false"


def test_deletes_that_apply_to_nothing_are_no_reason_to_rewrite_data() -> None:
    example = Example([partition((1,), files(100), equality_delete_files=50, dangling_delete_files=50)])
    assert only_reason(example) == ("skip", "healthy")


def test_a_full_rewrite_is_due_only_when_the_log_proves_it() -> None:
    monthly = policy(rewrite={"full_every": timedelta(days=7)})
    healthy = files(100, 100, deletes=1)
    assert only_reason(
        Example([partition((1,), healthy, last_compaction_ms=NOW_MS - 8 * DAY_MS)]), table_policy=monthly
    ) == ("rewrite", "full_every")
    assert only_reason(
        Example([partition((1,), healthy, last_compaction_ms=NOW_MS - 6 * DAY_MS)]), table_policy=monthly
    ) == ("skip", "healthy")
    assert only_reason(Example([partition((1,), healthy)]), table_policy=monthly) == ("rewrite", "full_every")
    assert only_reason(Example([partition((1,), healthy)], snapshots=()), table_policy=monthly) == ("skip", "healthy")


def test_the_run_wins_over_the_policy_and_the_policy_over_the_table() -> None:
    example = Example([sick(1)], properties={"write.target-file-size-bytes": str(300 * MB)})

    def target(**arguments: object) -> str:
        return example.plan(**arguments).rewrite.batches[0].options["target-file-size-bytes"]  # type: ignore[arg-type]

    assert target(table_policy=policy(rewrite={"target_file_size": None})) == str(300 * MB)
    assert target() == str(100 * MB)
    assert target(parameters=RunParameters(target_file_size_mb=200)) == str(200 * MB)
    plan = example.plan(parameters=RunParameters(target_file_size_mb=200, dry_run=True))
    assert (plan.parameters, plan.dry_run) == ({"target_file_size_mb": 200, "dry_run": True}, True)


def test_a_sort_needs_an_order() -> None:
    sort = RunParameters(strategy="sort")
    assert only_reason(Example([sick(1)]), parameters=sort) == ("refuse", "no_sort_order")
    plan = Example([sick(1)], has_sort_order=True).plan(parameters=sort)
    assert plan.rewrite.strategy == "sort"
    assert plan.rewrite.batches[0].options["compression-factor"] == "1.0"


def test_a_forced_rewrite_leaves_a_single_good_file_alone_but_sorts_it_when_asked() -> None:
    example = Example([partition((1,), files(100))], has_sort_order=True)
    assert only_reason(example, parameters=RunParameters(force=True)) == ("skip", "no_gain")
    assert only_reason(example, parameters=RunParameters(force=True, strategy="sort")) == ("rewrite", "forced")


@pytest.mark.parametrize(
    ("rewrite", "reason"),
    [
        ({"max_files": 20}, "budget_files"),
        ({"max_bytes": 200 * MB}, "budget_bytes"),
        ({"max_partitions": 1}, "max_partitions"),
        ({"max_cost": 0.0015}, "budget_cost"),
    ],
)
def test_what_does_not_fit_the_budget_is_deferred_by_name(rewrite: dict[str, object], reason: str) -> None:
    plan = Example([sick(1, 14), sick(2, 12)]).plan(policy(rewrite=rewrite))
    assert decisions(plan) == {"1970-01-02": ("rewrite", "small_files"), "1970-01-03": ("defer", reason)}
    deferred = plan.rewrite.partitions[1]
    assert deferred.batch_id is None
    assert deferred.input_files == 12
    assert plan.rewrite.input_files == 14


def test_a_smaller_partition_may_still_fit_where_a_larger_one_did_not() -> None:
    plan = Example([sick(1, 14), sick(2, 12), sick(3, 6)]).plan(policy(rewrite={"max_files": 20}))
    assert {day: decision for day, (decision, _) in decisions(plan).items()} == {
        "1970-01-02": "rewrite",
        "1970-01-03": "defer",
        "1970-01-04": "rewrite",
    }


def test_the_files_of_the_run_parameter_win_over_the_policy() -> None:
    plan = Example([sick(1, 14), sick(2, 12)]).plan(parameters=RunParameters(max_files=14))
    assert [row.decision for row in plan.rewrite.partitions] == ["rewrite", "defer"]


def test_a_partition_larger_than_any_run_is_taken_in_parts() -> None:
    plan = Example([sick(1, 50)]).plan(policy(rewrite={"max_files": 20}))
    row = plan.rewrite.partitions[0]
    assert (row.decision, row.input_files) == ("rewrite", 20)
    assert plan.rewrite.batches[0].options["max-files-to-rewrite"] == "20"
    assert "only 20 of 50 files" in row.detail


def test_a_plan_with_everything_deferred_is_not_healthy() -> None:
    plan = Example([sick(1)]).plan(policy(rewrite={"max_cost": 0.0}))
    assert (plan.outcome, plan.has_work("rewrite")) == ("work", False)
    assert "put off" in plan.reason


def test_the_worst_partition_comes_first() -> None:
    plan = Example([sick(1, 6), sick(2, 90), sick(3, 30)]).plan()
    assert [row.data_files for row in plan.rewrite.partitions] == [90, 30, 6]
    scores = [row.score for row in plan.rewrite.partitions]
    assert scores == sorted(scores, reverse=True)


def test_a_partition_that_waited_overtakes_a_worse_one_that_was_compacted_yesterday() -> None:
    plan = Example([sick(1, 95, last_compaction_ms=NOW_MS - DAY_MS), sick(2, 6)]).plan()
    assert [row.data_files for row in plan.rewrite.partitions] == [6, 95]


def test_batches_are_small_and_hold_one_set_of_options() -> None:
    deletes = partition((999,), files(100, deletes=12), equality_delete_files=12, applied_delete_files=12)
    plan = Example([*(sick(day) for day in range(100)), deletes]).plan()
    assert sorted(batch.partitions for batch in plan.rewrite.batches) == [1, 36, 64]
    assert len({batch.options["delete-file-threshold"] for batch in plan.rewrite.batches}) == 2
    assert sum(batch.input_files for batch in plan.rewrite.batches) == plan.rewrite.input_files == 601


def test_a_batch_is_bounded_in_bytes() -> None:
    huge = [partition((day,), files(*[74] * 150)) for day in range(3)]
    assert [batch.partitions for batch in Example(huge).plan().rewrite.batches] == [1, 1, 1]


def test_files_of_a_former_spec_are_left_unless_asked_for() -> None:
    example = Example([partition((1,), files(*[10] * 6))], specs=(BY_DAY, BY_HOUR))
    assert only_reason(example) == ("skip", "old_spec")


def test_files_of_a_former_spec_are_rewritten_with_the_partitions_their_filter_reaches() -> None:
    old = partition((1,), files(100))
    reached = partition((25,), files(100), spec_id=1)
    untouched = partition((50,), files(100), spec_id=1)
    plan = Example([old, reached, untouched], specs=(BY_DAY, BY_HOUR)).plan(policy(rewrite={"old_specs": True}))
    assert {row.spec_id: row.decision for row in plan.rewrite.partitions if row.batch_id} == {
        0: "rewrite",
        1: "rewrite",
    }
    (batch,) = plan.rewrite.batches
    assert (batch.partitions, batch.input_files, batch.options["rewrite-all"]) == (2, 2, "true")
    assert sum(row.output_files for row in plan.rewrite.partitions) == batch.output_files == 2


def test_former_files_are_grouped_with_the_partition_of_nulls_as_iceberg_does() -> None:
    unpartitioned = Spec(spec_id=0, fields=())
    parts = [
        partition((), files(60)),
        partition((None,), files(60), spec_id=1),
        partition((7,), files(60), spec_id=1),
    ]
    plan = Example(parts, specs=(unpartitioned, BY_HOUR)).plan(policy(rewrite={"old_specs": True}))
    (batch,) = plan.rewrite.batches
    assert (batch.partitions, batch.groups, batch.output_files) == (3, 2, 3)


def test_former_partitions_that_reach_the_same_current_ones_share_a_commit() -> None:
    apart = [partition((day,), files(100)) for day in (1, 2)]
    by_hour = Example([*apart, partition((25,), files(100), spec_id=1)], specs=(BY_DAY, BY_HOUR))
    assert len(by_hour.plan(policy(rewrite={"old_specs": True})).rewrite.batches) == 2
    by_name = Example([*apart, partition(("x",), files(100), spec_id=2)], specs=(BY_DAY, BY_NAME))
    (batch,) = by_name.plan(policy(rewrite={"old_specs": True})).rewrite.batches
    assert batch.partitions == 3


def test_a_small_file_limit_at_the_target_falls_back_to_icebergs_ratio() -> None:
    plan = Example([sick(1)]).plan(policy(thresholds={"small_file_size": 100 * MB}))
    assert plan.rewrite.batches[0].options["min-file-size-bytes"] == str(75 * MB)


def test_a_former_spec_waits_when_its_filter_reaches_a_hot_partition() -> None:
    old = partition((1,), files(100))
    hot = partition((25,), files(*[10] * 6), spec_id=1, newest_file_ms=NOW_MS)
    plan = Example([old, hot], specs=(BY_DAY, BY_HOUR)).plan(policy(rewrite={"old_specs": True}))
    assert {row.spec_id: row.decision for row in plan.rewrite.partitions} == {0: "refuse", 1: "skip"}


def test_a_partition_whose_filter_may_select_files_of_another_spec_is_refused() -> None:
    old = partition((1,), files(100))
    new = partition(("x",), files(*[10] * 6), spec_id=2)
    plan = Example([old, new], specs=(BY_DAY, BY_NAME)).plan()
    assert decisions(plan)["x"] == ("refuse", "filter_not_exact")
    assert not plan.has_work("rewrite")


def test_a_partition_without_a_filter_is_refused_and_the_others_go_on() -> None:
    dropped = Spec(
        spec_id=3,
        fields=(
            PartitionField(name="gone", transform="identity", source_name=None, source_type="", result_type="int"),
        ),
    )
    plan = Example([partition((1,), files(*[10] * 6), spec_id=3)], specs=(dropped,)).plan()
    assert decisions(plan) == {1: ("refuse", "cannot_filter")}
    assert plan.outcome == "cannot_judge"


def test_cost_counts_requests_compute_and_storage_and_what_readers_save() -> None:
    prices = Prices(per_1000_requests=1.0, per_compute_hour=36.0, per_gb_month=30.0, reads_per_day=10, throughput=MB)
    cost = Example([sick(1)]).plan(prices=prices).cost
    assert cost.requests == 2 * 6 + 1
    assert cost.requests_cost == pytest.approx(0.013)
    assert cost.compute_seconds == pytest.approx(60)
    assert cost.compute_cost == pytest.approx(0.6)
    assert cost.storage_cost == pytest.approx(0.06 * 30 * 7 / 30)
    assert cost.total == pytest.approx(cost.requests_cost + cost.compute_cost + cost.storage_cost)
    assert cost.savings_per_day == pytest.approx(5 * 10 / 1000)
    assert cost.throughput_source == "default"
    assert any("prices.reads_per_day" in text for text in cost.assumptions)


def test_learned_throughput_wins_and_the_plan_says_so() -> None:
    cost = Example([sick(1)]).plan(throughput=20.0 * MB).cost
    assert (cost.throughput_source, cost.compute_seconds) == ("history", pytest.approx(3))


def test_the_cost_of_the_parts_is_the_cost_of_the_whole() -> None:
    plan = Example([sick(1), sick(2, 9)]).plan()
    assert sum(row.cost for row in plan.rewrite.partitions) == pytest.approx(plan.cost.total)


sizes = st.lists(st.integers(1, 250), min_size=1, max_size=40)


@settings(max_examples=300)
@given(sizes, st.integers(1, 30), st.integers(1, 10), st.integers(1, 99), st.booleans(), st.sampled_from((0, 3, 12)))
def test_after_a_rewrite_the_partition_no_longer_qualifies(
    sizes_mb: list[int], min_small: int, min_input: int, small_mb: int, has_deletes: bool, deletes: int
) -> None:
    """The fixed point, on the model that output files are of equal size: for every trigger of the policy."""
    settings_ = policy(
        thresholds={"min_small_files": min_small, "small_file_size": small_mb * MB, "delete_files": 1},
        rewrite={"min_input_files": min_input},
    )
    attached = deletes if has_deletes else 0
    found = files(*sizes_mb, deletes=attached)

    def example(parts: tuple[object, ...], applied: int) -> Plan:
        small = sum(file.size_bytes < small_mb * MB for file in parts)  # type: ignore[attr-defined]
        health, detail = partition((1,), parts, equality_delete_files=applied, applied_delete_files=applied)  # type: ignore[arg-type]
        from dataclasses import replace

        return Example([(replace(health, small_files=small), detail)]).plan(settings_)

    plan = example(found, attached)
    if not plan.has_work("rewrite"):
        return
    (batch,) = plan.rewrite.batches
    kept = _untouched(found, batch.options)
    written = files(*[batch.input_bytes / batch.output_files / MB] * batch.output_files)
    assert len(found) - len(kept) == batch.input_files
    assert not example((*kept, *written), 0).has_work("rewrite")


def _untouched(found, options):  # type: ignore[no-untyped-def]
    low, high = int(options["min-file-size-bytes"]), int(options["max-file-size-bytes"])
    threshold = int(options["delete-file-threshold"])
    return tuple(file for file in found if low <= file.size_bytes <= high and file.attached_delete_files < threshold)

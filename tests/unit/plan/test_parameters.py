from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.plan.parameters import STRATEGIES, RunParameters


def test_nothing_given_leaves_everything_to_the_policy() -> None:
    assert RunParameters.from_mapping({}) == RunParameters()
    assert RunParameters().to_mapping() == {}


def test_empty_form_fields_count_as_not_given() -> None:
    assert RunParameters.from_mapping({"partition_filter": "", "max_files": None}) == RunParameters()


def test_numbers_and_flags_may_be_text() -> None:
    given_values = {"force": "true", "max_files": "12", "snapshot_retention_hours": "1.5", "target_file_size_mb": 128.0}
    parameters = RunParameters.from_mapping(given_values)
    assert parameters == RunParameters(force=True, max_files=12, snapshot_retention_hours=1.5, target_file_size_mb=128)
    assert parameters.target_file_size_bytes == 128_000_000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("force", "yes"),
        ("force", 1),
        ("dry_run", "maybe"),
        ("partition_filter", 5),
        ("partition_filter", "  "),
        ("strategy", "z-order"),
        ("target_file_size_mb", 0),
        ("target_file_size_mb", 1.5),
        ("max_files", -1),
        ("max_files", True),
        ("max_files", "many"),
        ("expire_snapshots", 0),
        ("snapshot_retention_hours", 0),
        ("snapshot_retention_hours", "nan"),
        ("snapshot_retention_hours", float("inf")),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        RunParameters.from_mapping({field: value})


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"forse: no such parameter.*max_files: .*strategy: |strategy: .*max_files: "):
        RunParameters.from_mapping({"forse": True, "max_files": 0, "strategy": "none"})


@given(
    st.builds(
        RunParameters,
        force=st.booleans(),
        dry_run=st.booleans(),
        partition_filter=st.none() | st.text(min_size=1).map(str.strip).filter(bool),
        strategy=st.none() | st.sampled_from(STRATEGIES),
        target_file_size_mb=st.none() | st.integers(1, 10**6),
        max_files=st.none() | st.integers(1, 10**9),
        expire_snapshots=st.none() | st.booleans(),
        snapshot_retention_hours=st.none() | st.floats(0.01, 1e6),
    )
)
def test_parameters_survive_the_way_through_json(parameters: RunParameters) -> None:
    assert RunParameters.from_mapping(json.loads(json.dumps(parameters.to_mapping()))) == parameters

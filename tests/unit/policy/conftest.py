from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_iceberg_compaction.policy.errors import PolicyError, Problem
from airflow_iceberg_compaction.policy.loader import load_policy
from airflow_iceberg_compaction.policy.model import Policy

HEAD = "version: 1\ncatalog: {name: lake}\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a policy file and return its path."""

    def write_text(text: str) -> Path:
        path = tmp_path / "policy.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8", newline="")
        return path

    return write_text


@pytest.fixture
def load(write: Callable[[str], Path]) -> Callable[[str], Policy]:
    """Load a policy from the part of a file that follows version and catalog."""
    return lambda text: load_policy(write(HEAD + textwrap.dedent(text)), environment={})


@pytest.fixture
def problems(write: Callable[[str], Path]) -> Callable[..., tuple[Problem, ...]]:
    """The problems of a whole file; the test fails if it has none."""

    def find(text: str, **environment: str) -> tuple[Problem, ...]:
        with pytest.raises(PolicyError) as caught:
            load_policy(write(text), environment=environment)
        return caught.value.problems

    return find

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_patterns, load_policy, load_policy_isolated
from airflow_iceberg_compaction.policy.names import companion_path, companion_text, matches, matching
from airflow_iceberg_compaction.policy.origins import effective_values

TEXT = """\
version: 1
catalog: {name: lake}
tables:
  - name: shop.*
    exclude: [shop.tmp_*]
    retries: 5
  - name: shop.events
    retries: 1
  - name: "*.e?"
"""


def _list(policy: Path, **patterns: list[str]) -> None:
    listed = {"shop.*": patterns.get("shop", []), "*.e?": patterns.get("e", [])}
    companion_path(policy).write_text(companion_text(policy, listed), encoding="utf-8")


def test_a_pattern_stands_for_the_tables_its_companion_lists(write: Callable[[str], Path]) -> None:
    path = write(TEXT)
    _list(path, shop=["shop.events", "shop.users", "shop.tmp_1", "other.x"], e=["shop.users", "a.e1"])
    policy = load_policy(path)
    assert {table.name: table.retries for table in policy.tables} == {"shop.events": 1, "shop.users": 5, "a.e1": 2}
    (retries,) = [value for value in effective_values(policy, "shop.users") if value.path == "retries"]
    assert str(retries.origin) == "policy.yaml:6"


def test_one_table_of_a_pattern_can_be_loaded_alone(write: Callable[[str], Path]) -> None:
    path = write(TEXT)
    _list(path, shop=["shop.users", "shop.more"])
    assert [table.name for table in load_policy(path, only="shop.users").tables] == ["shop.users"]


def test_a_pattern_that_is_not_listed_yet_is_an_error_and_not_an_empty_set_of_tables(
    write: Callable[[str], Path],
) -> None:
    path = write(TEXT)
    with pytest.raises(PolicyError, match="iceberg-compaction tables --write") as caught:
        load_policy(path)
    assert [problem.line for problem in caught.value.problems] == [4, 9]
    policy, errors = load_policy_isolated(path)
    assert [table.name for table in policy.tables] == ["shop.events"]
    assert set(errors) == {"shop.*", "*.e?"}


def test_an_empty_pattern_is_fine_once_the_catalog_was_asked(write: Callable[[str], Path]) -> None:
    path = write(TEXT)
    _list(path)
    assert [table.name for table in load_policy(path).tables] == ["shop.events"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("tables: []", "lists no patterns"),
        ("patterns: {shop.*: shop.a}", "not a list"),
        ("patterns: {shop.*: [shop]}", "not a table name"),
        ("patterns: {shop.*: [shop.a", "YAML"),
    ],
)
def test_a_damaged_companion_is_an_error_in_the_companion(
    write: Callable[[str], Path], content: str, complaint: str
) -> None:
    path = write(TEXT)
    companion_path(path).write_text(content)
    with pytest.raises(PolicyError, match=complaint) as caught:
        load_policy(path)
    assert caught.value.problems[0].file == str(companion_path(path))


def test_patterns_can_be_read_before_they_are_listed(write: Callable[[str], Path]) -> None:
    catalog, patterns = load_patterns(write(TEXT))
    assert catalog.name == "lake"
    assert patterns == {"shop.*": ("shop.tmp_*",), "*.e?": ()}


def test_a_mistake_in_the_settings_of_a_pattern_is_found_before_it_is_listed(write: Callable[[str], Path]) -> None:
    with pytest.raises(PolicyError, match=r"policy\.yaml:5:5: tables\[shop\.\*\]\.retrys"):
        load_patterns(write("version: 1\ncatalog: {name: lake}\ntables:\n  - name: shop.*\n    retrys: 1\n"))


@pytest.mark.parametrize("pattern", ["*", "shop.*;drop", "a b.*", "shop.*.", "?" * 300])
def test_what_cannot_match_a_table_name_is_no_pattern(write: Callable[[str], Path], pattern: str) -> None:
    with pytest.raises(PolicyError, match="not a name pattern"):
        load_policy(write(f'version: 1\ncatalog: {{name: lake}}\ntables: [{{name: "{pattern}"}}]\n'))


def test_a_star_stays_within_one_part_of_a_name() -> None:
    assert matches("shop.events", "shop.*")
    assert matches("shop.events", "s*.*s")
    assert not matches("shop.eu.events", "shop.*")
    assert not matches("shopping.events", "shop.*")
    assert not matches("shop.events", "SHOP.*")


@given(st.text("ab", max_size=8), st.text("ab*?", min_size=1, max_size=8))
def test_patterns_match_as_a_shell_would(word: str, pattern: str) -> None:
    assert matches(f"s.{word}", f"s.{pattern}") == fnmatch.fnmatchcase(word, pattern)


def test_many_stars_do_not_make_matching_slow() -> None:
    assert not matches("a." + "a" * 190, "a." + "*a" * 20 + "b")


def test_matching_names_come_sorted_and_once() -> None:
    assert matching(["s.b", "s.a", "s.b", "s.x"], "s.*", ["s.x*"]) == ["s.a", "s.b"]

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

from airflow_iceberg_compaction.policy.loader import load_policy
from airflow_iceberg_compaction.policy.model import Catalog, Policy, TablePolicy, TableSettings
from airflow_iceberg_compaction.policy.origins import effective_header, effective_values

TEXT = """\
version: 1
catalog:
  name: lake
  properties: {type: rest, token: "${TOKEN}"}
profile: nightly
profiles:
  nightly:
    extends: development
    retries: 4
defaults:
  rewrite: {max_files: 500}
tables:
  - name: shop.events
    rewrite:
      max_bytes: 1GB
    write_properties: {write.target-file-size-bytes: 256MiB}
  - name: shop.users
"""


def _origins(policy: Policy, table: str) -> dict[str, tuple[object, str]]:
    return {value.path: (value.value, str(value.origin)) for value in effective_values(policy, table)}


def test_every_effective_value_says_where_it_was_set(write: Callable[[str], Path]) -> None:
    found = _origins(load_policy(write(TEXT), environment={"TOKEN": "t"}), "shop.events")
    assert found["rewrite.max_bytes"] == ("1GB", "policy.yaml:15")
    assert found["rewrite.max_files"] == (500, "policy.yaml:11")
    assert found["retries"] == (4, "policy.yaml:9")
    assert found["thresholds.min_small_files"] == (3, "profile development")
    assert found["rewrite.min_quiet"] == ("0s", "profile development")
    assert found["rewrite.min_input_files"] == (5, "built in")
    assert found["write_properties.write.target-file-size-bytes"] == ("256MiB", "policy.yaml:16")


def test_every_setting_of_the_schema_is_listed(write: Callable[[str], Path]) -> None:
    found = _origins(load_policy(write(TEXT), environment={"TOKEN": "t"}), "shop.users")
    assert {path.partition(".")[0] for path in found} == set(TableSettings.model_fields)


def test_one_table_alone_has_the_same_lines_as_in_the_whole_file(write: Callable[[str], Path]) -> None:
    path = write(TEXT)
    whole = load_policy(path, environment={"TOKEN": "t"})
    alone = load_policy(path, only="shop.users", environment={"TOKEN": "t"})
    assert effective_values(alone, "shop.users") == effective_values(whole, "shop.users")


def test_origins_name_no_folder_so_that_they_are_the_same_on_every_host(write: Callable[[str], Path]) -> None:
    path = write(TEXT)
    policy = load_policy(path, environment={"TOKEN": "t"})
    assert str(path.parent) not in repr(effective_values(policy, "shop.events") + effective_header(policy))


def test_catalog_properties_are_shown_as_written_and_never_expanded(write: Callable[[str], Path]) -> None:
    header = effective_header(load_policy(write(TEXT), environment={"TOKEN": "hunter2"}))
    assert {value.path: value.value for value in header}["catalog.properties.token"] == "${TOKEN}"
    assert "hunter2" not in repr(header)


def test_a_policy_made_in_python_shows_no_catalog_property_at_all() -> None:
    policy = Policy(
        path="", catalog=Catalog(name="x", properties={"token": "hunter2"}), tables=(TablePolicy(name="a.b"),)
    )
    assert "hunter2" not in repr(effective_header(policy))
    assert str(effective_values(policy, "a.b")[0].origin) == "built in"


def test_copying_a_policy_does_not_copy_the_file_it_came_from(write: Callable[[str], Path]) -> None:
    policy = load_policy(write(TEXT), environment={"TOKEN": "t"})
    copied = copy.deepcopy(policy)
    assert copied == policy
    assert copied._origins is policy._origins

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_policy
from airflow_iceberg_compaction.policy.model import Policy, Schedule, TablePolicy
from airflow_iceberg_compaction.policy.nodes import Mapping, from_plain, merge, to_plain
from airflow_iceberg_compaction.policy.starter import STARTER

Load = Callable[[str], Policy]

DESIGN_EXAMPLE = """\
version: 1
catalog: {name: lake, conn_id: iceberg_default}
spark:   {conn_id: spark_default, conf: {spark.executor.memory: 4g}}
profile: ${ICEBERG_MAINTENANCE_PROFILE:-production}      # development | staging | production, or one of `profiles:`
defaults:
  schedule: "0 2 * * *"
  thresholds: {small_file_size: 96MB, min_small_files: 20, delete_files: 10, delete_ratio: 0.1}
  rewrite:    {strategy: binpack, target_file_size: 128MB, max_files: 10000, max_bytes: 500GB, max_cost: 10.0}
  expire_snapshots: {older_than: 7d, retain_last: 5}
  orphan_files:     {mode: report, older_than: 7d, every: 7d, max_deletes: 100000}
  report: {slack: {conn_id: slack_default, channel: "#data-ops", when: worked}}   # always | worked | failed
tables:
  - name: shop.events
    rewrite: {strategy: sort, sort_order: [event_ts, user_id desc nulls last]}
  - name: shop.cdc_users
    thresholds: {delete_files: 1}
    write_properties: {write.target-file-size-bytes: 256MB, write.parquet.compression-codec: zstd}
"""


def test_the_example_of_the_design_loads_as_written(write: Callable[[str], Path]) -> None:
    policy = load_policy(write(DESIGN_EXAMPLE), environment={})
    events, users = policy.tables
    assert events.rewrite.sort_order == ("event_ts", "user_id desc nulls last")
    assert events.rewrite.max_bytes == 500_000_000_000
    assert users.thresholds.delete_files == 1
    assert users.thresholds.small_file_size == 96_000_000
    assert users.write_properties["write.target-file-size-bytes"] == "256000000"
    assert users.report.slack is not None
    assert users.report.slack.channel == "#data-ops"


def test_the_starter_file_is_a_valid_policy(write: Callable[[str], Path]) -> None:
    assert [table.name for table in load_policy(write(STARTER), environment={}).tables] == ["shop.events"]


def test_every_commented_line_of_the_starter_file_is_valid_too(write: Callable[[str], Path]) -> None:
    head, _, body = STARTER.partition("version: 1\n")
    assert "yaml-language-server" in head
    lines = [
        line.replace("# ", "", 1) if line.lstrip().startswith("# ") and ":" in line else line
        for line in body.split("\n")
    ]
    prose = (
        "Without Airflow",
        "development looks",
        "Every table starts",
        "All tables of a namespace",
        "conn_id: iceberg_default",
    )
    text = "\n".join(line for line in lines if not any(words in line for words in prose))
    companion = write("version: 1").with_name("policy.tables.yaml")
    companion.write_text("version: 1\npatterns: {shop.*: [shop.events, shop.users, shop.tmp_1]}\n")
    policy = load_policy(write("version: 1\n" + text), environment={"ICEBERG_CREDENTIAL": "id:secret"})
    assert [table.name for table in policy.tables] == ["shop.events", "shop.users"]
    assert policy.tables[0].rewrite.strategy == "sort"
    assert policy.documents == "s3://warehouse/maintenance"


@pytest.mark.parametrize(
    ("profile", "small_files", "interval", "max_files", "quiet"),
    [
        ("development", 3, 5, 100, timedelta(0)),
        ("staging", 15, 75, 10_000, timedelta(hours=1)),
        ("production", 20, 100, 10_000, timedelta(hours=1)),
    ],
)
def test_built_in_profiles_carry_the_thresholds_of_their_environment(
    load: Load, profile: str, small_files: int, interval: int, max_files: int, quiet: timedelta
) -> None:
    (table,) = load(f"profile: {profile}\ntables: [{{name: a.b}}]").tables
    assert table.thresholds.min_small_files == small_files
    assert table.check_interval == interval
    assert table.rewrite.max_files == max_files
    assert table.rewrite.min_quiet == quiet
    assert (table.thresholds.small_file_size, table.rewrite.target_file_size) == (64_000_000, 128_000_000)


def test_without_a_profile_production_holds(load: Load) -> None:
    assert load("tables: [{name: a.b}]").tables == load("profile: production\ntables: [{name: a.b}]").tables


def test_a_profile_of_ones_own_changes_a_built_in_one(load: Load) -> None:
    policy = load(
        """\
        profile: nightly
        profiles:
          nightly: {extends: staging, retries: 7, thresholds: {delete_files: 4}}
        tables: [{name: a.b}]
        """
    )
    (table,) = policy.tables
    assert (table.thresholds.min_small_files, table.thresholds.delete_files, table.retries) == (15, 4, 7)


def test_a_table_wins_over_defaults_and_defaults_over_the_profile(load: Load) -> None:
    policy = load(
        """\
        profile: development
        defaults: {thresholds: {min_small_files: 4, delete_files: 7}, tags: [x, y]}
        tables:
          - {name: a.b, thresholds: {min_small_files: 5}, tags: [z]}
          - {name: a.c}
        """
    )
    assert policy.table("a.b").thresholds.min_small_files == 5
    assert policy.table("a.b").thresholds.delete_files == 7
    assert policy.table("a.b").tags == ("z",), "lists replace"
    assert policy.table("a.c").thresholds.min_small_files == 4
    assert policy.table("a.c").tags == ("x", "y")


def test_null_takes_a_limit_away_that_a_lower_layer_set(load: Load) -> None:
    (table,) = load(
        "defaults: {rewrite: {max_cost: 5}}\ntables: [{name: a.b, rewrite: {max_cost: null, max_files: ~}}]"
    ).tables
    assert table.rewrite.max_cost is None
    assert table.rewrite.max_files is None


_TREES = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda children: st.dictionaries(st.sampled_from("abcd"), children, max_size=4),
    max_leaves=12,
)
_MAPPINGS = st.dictionaries(st.sampled_from("abcd"), _TREES, max_size=4)


def _tree(value: dict[str, object]) -> Mapping:
    tree = from_plain(value, "")
    assert isinstance(tree, Mapping)
    return tree


def _merged(below: object, above: object) -> object:
    if isinstance(below, dict) and isinstance(above, dict):
        keys = [*below, *(key for key in above if key not in below)]
        return {
            k: _merged(below[k], above[k]) if k in below and k in above else above.get(k, below.get(k)) for k in keys
        }
    return above


@given(_MAPPINGS, _MAPPINGS)
def test_mappings_merge_by_key_and_everything_else_is_replaced(
    below: dict[str, object], above: dict[str, object]
) -> None:
    assert to_plain(merge(_tree(below), _tree(above))) == _merged(below, above)


@given(_MAPPINGS, _MAPPINGS, _MAPPINGS)
def test_merging_layers_in_any_grouping_gives_the_same(
    a: dict[str, object], b: dict[str, object], c: dict[str, object]
) -> None:
    left = merge(merge(_tree(a), _tree(b)), _tree(c))
    keys_lost_by_a_scalar_in_between = merge(_tree(a), merge(_tree(b), _tree(c)))
    if not _has_mixed_kinds(a, b, c):
        assert to_plain(left) == to_plain(keys_lost_by_a_scalar_in_between)


def _has_mixed_kinds(*layers: object) -> bool:
    mappings = [layer for layer in layers if isinstance(layer, dict)]
    if mappings and len(mappings) < len(layers):
        return True
    keys = {key for mapping in mappings for key in mapping}
    return any(_has_mixed_kinds(*(mapping[key] for mapping in mappings if key in mapping)) for key in keys)


@given(_MAPPINGS, _MAPPINGS)
def test_merging_changes_neither_layer(below: dict[str, object], above: dict[str, object]) -> None:
    lower, upper = _tree(below), _tree(above)
    merge(lower, upper)
    assert (to_plain(lower), to_plain(upper)) == (below, above)


def test_off_no_and_other_words_are_text_and_only_true_and_false_are_booleans(load: Load) -> None:
    policy = load(
        "history: off\ntables: [{name: a.b, owner: no, orphan_files: {mode: off}, enabled: false, tags: [on, 010, 1:30]}]"
    )
    (table,) = policy.tables
    assert policy.history is None
    assert table.owner == "no"
    assert table.orphan_files.mode == "off"
    assert table.tags == ("on", "010", "1:30")
    assert not table.enabled


def test_values_of_property_maps_are_text_without_quotes_exactly_as_written(load: Load) -> None:
    policy = load(
        """\
        spark: {conf: {spark.executor.cores: 4, spark.speculation: true, spark.memory.fraction: 0.60}}
        tables: [{name: a.b, write_properties: {write.parquet.compression-level: 3, write.wap.enabled: true}}]
        """
    )
    assert policy.spark.conf == {
        "spark.executor.cores": "4",
        "spark.speculation": "true",
        "spark.memory.fraction": "0.60",
    }
    assert policy.tables[0].write_properties == {"write.parquet.compression-level": "3", "write.wap.enabled": "true"}


@pytest.mark.parametrize(
    ("schedule", "loaded"),
    [
        ('"30 4 * * 1"', "30 4 * * 1"),
        ('"@daily"', "@daily"),
        ("null", None),
        ("none", None),
        ("{cron: 0 2 * * *, timezone: Europe/Oslo}", Schedule(cron="0 2 * * *", timezone="Europe/Oslo")),
        ("{timetable: company.timetables.AfterWork}", Schedule(timetable="company.timetables.AfterWork")),
        ('{assets: ["s3://a/b"], cron: 0 2 * * *}', Schedule(assets=("s3://a/b",), cron="0 2 * * *")),
        ("{on_commit: true}", Schedule(on_commit=True)),
    ],
)
def test_a_schedule_is_cron_text_a_mapping_or_nothing(load: Load, schedule: str, loaded: object) -> None:
    assert load(f"tables: [{{name: a.b, schedule: {schedule}}}]").tables[0].schedule == loaded


def test_environment_variables_expand_where_the_schema_says_so(write: Callable[[str], Path]) -> None:
    path = write(
        """\
        version: 1
        catalog: {name: lake, properties: {uri: "postgresql://me:${PASSWORD}@db/${DB:-lake}", s3.region: "${REGION:-}"}}
        documents: ${ROOT}/maintenance
        profile: ${PROFILE:-staging}
        tables: [{name: a.b}]
        """
    )
    policy = load_policy(path, environment={"PASSWORD": "x${ROOT}", "ROOT": "s3://bucket", "PROFILE": ""})
    assert policy.catalog.properties == {"uri": "postgresql://me:x${ROOT}@db/lake", "s3.region": ""}, "expanded once"
    assert policy.documents == "s3://bucket/maintenance"
    assert policy.profile == "staging", "empty counts as unset where there is a default, as in a shell"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + DESIGN_EXAMPLE.replace("\n", "\r\n").encode())
    assert len(load_policy(path, environment={}).tables) == 2


def test_python_code_may_give_numbers_where_a_file_needs_units() -> None:
    table = TablePolicy.model_validate(
        {"name": "a.b", "thresholds": {"small_file_size": 5}, "rewrite": {"min_quiet": timedelta(minutes=5)}}
    )
    assert table.thresholds.small_file_size == 5


def test_loading_twice_gives_equal_policies(write: Callable[[str], Path]) -> None:
    path = write(DESIGN_EXAMPLE)
    assert load_policy(path, environment={}) == load_policy(path, environment={})


def test_one_table_alone_is_the_same_as_that_table_of_the_whole(write: Callable[[str], Path]) -> None:
    path = write(DESIGN_EXAMPLE)
    whole = load_policy(path, environment={})
    for table in whole.tables:
        assert load_policy(path, only=table.name, environment={}).tables == (table,)


def test_one_table_alone_does_not_care_about_the_mistakes_of_another(write: Callable[[str], Path]) -> None:
    path = write("version: 1\ncatalog: {name: lake}\ntables:\n  - name: a.b\n    retrys: 1\n  - name: a.c\n")
    assert [table.name for table in load_policy(path, only="a.c").tables] == ["a.c"]
    with pytest.raises(PolicyError, match=r"policy\.yaml:5:5"):
        load_policy(path, only="a.b")


def test_asking_for_a_table_that_is_not_there_names_the_nearest(write: Callable[[str], Path]) -> None:
    with pytest.raises(PolicyError, match=r"there is no table 'shop\.event'"):
        load_policy(write(DESIGN_EXAMPLE), only="shop.event", environment={})

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest
from airflow.sdk import DAG, TriggerRule
from airflow_environment import serialised

from airflow_iceberg_compaction._compat import retry_arguments
from airflow_iceberg_compaction.factory import build_dag, build_dags, iceberg_maintenance
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.policy.errors import PolicyError
from airflow_iceberg_compaction.policy.loader import load_policy

HEADER = "version: 1\ncatalog: {name: lake, conn_id: iceberg_default}\n"
TASKS = ["assess", "rewrite_data_files", "rewrite_deletes", "rewrite_manifests", "expire_snapshots",
         "remove_orphan_files", "report"]  # fmt: skip


@pytest.fixture
def write_policy(tmp_path):
    def write(text: str):
        path = tmp_path / "iceberg_maintenance.yaml"
        path.write_text(HEADER + textwrap.dedent(text))
        return path

    return write


def test_every_enabled_table_gets_a_dag_with_a_stable_id(write_policy):
    dags = build_dags(write_policy("tables: [{name: shop.b}, {name: shop.a}, {name: shop.c, enabled: false}]"))
    assert list(dags) == ["iceberg_maintenance.lake.shop.a", "iceberg_maintenance.lake.shop.b"]


def test_the_tasks_are_one_chain_behind_the_gate_with_the_report_as_teardown(policy):
    dag = build_dag(policy, "shop.events")
    assert sorted(dag.task_ids) == sorted(TASKS)
    for before, after in itertools.pairwise(TASKS[1:-1]):
        assert after in dag.get_task(before).downstream_task_ids
    for task_id in TASKS[1:-1]:
        task = dag.get_task(task_id)
        assert "assess" in task.upstream_task_ids
        assert task.trigger_rule == TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    assert dag.get_task("report").is_teardown
    assert dag.get_task("report").upstream_task_ids == {"remove_orphan_files"}


def test_what_the_policy_says_about_running_reaches_the_tasks(write_policy):
    path = write_policy("""
        tables:
          - name: shop.events
            schedule: "0 3 * * *"
            owner: data-platform
            tags: [gold]
            pool: spark
            retries: 4
            execution_timeout: 2h
        """)
    dag = build_dags(path)["iceberg_maintenance.lake.shop.events"]
    assert dag.max_active_runs == 1
    assert not dag.catchup
    assert dag.tags == {"gold", "iceberg-maintenance"}
    assert dag.owner == "data-platform"
    rewrite = dag.get_task("rewrite_data_files")
    assert (rewrite.pool, rewrite.retries, rewrite.execution_timeout) == ("spark", 4, timedelta(hours=2))
    if retry_arguments():  # Airflow 3.3 or newer
        assert rewrite.retry_policy is not None
    assert dag.get_task("assess").pool == "default_pool"


def test_two_parses_serialise_to_the_same_bytes(write_policy):
    path = write_policy("tables: [{name: shop.events, schedule: {cron: '@daily', on_commit: true}}]")

    def parse():
        (dag,) = build_dags(path).values()
        return json.dumps(serialised(dag), sort_keys=True, default=str)

    assert parse() == parse()


def test_another_folder_changes_nothing_of_a_dag(tmp_path):
    texts = []
    for folder in ("one", "other"):
        path = tmp_path / folder / "iceberg_maintenance.yaml"
        path.parent.mkdir()
        path.write_text(HEADER + "tables: [{name: shop.events}]")
        (dag,) = build_dags(path).values()
        texts.append(json.dumps(serialised(dag), sort_keys=True, default=str))
    assert texts[0] == texts[1]


def test_the_dag_tells_every_effective_value_and_its_origin(write_policy):
    path = write_policy("""
        defaults: {thresholds: {min_small_files: 7}}
        tables: [{name: shop.events}]
        """)
    doc = build_dags(path)["iceberg_maintenance.lake.shop.events"].doc_md
    assert "| thresholds.min_small_files | `7` | iceberg_maintenance.yaml:4 |" in doc
    assert "| retries | `2` | built in |" in doc


def test_at_task_start_only_the_wanted_dag_is_built(write_policy, monkeypatch):
    path = write_policy("tables: [{name: shop.a}, {name: shop.b}]")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "iceberg_maintenance.lake.shop.b")
    assert list(build_dags(path)) == ["iceberg_maintenance.lake.shop.b"]


@pytest.mark.parametrize("wanted", ["someone_elses_dag", "iceberg_maintenance.warehouse.shop.a"])
def test_a_task_of_another_dag_in_the_same_file_builds_none_of_ours(write_policy, monkeypatch, wanted):
    path = write_policy("tables: [{name: shop.a}]")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", wanted)
    assert build_dags(path) == {}


BROKEN = """
    tables:
      - {name: shop.good}
      - {name: shop.bad, retries: many}
      - {name: shop.worse, rewrites: {}}
    """


def test_an_invalid_file_is_one_error_with_every_message(write_policy):
    with pytest.raises(PolicyError, match=r"(?s)retries.*rewrites"):
        build_dags(write_policy(BROKEN))


def test_isolation_keeps_valid_tables_and_shows_each_broken_one(write_policy):
    dags = build_dags(write_policy(BROKEN), on_error="isolate")
    assert list(dags) == [f"iceberg_maintenance.lake.shop.{name}" for name in ("bad", "good", "worse")]
    assert dags["iceberg_maintenance.lake.shop.good"].get_task("assess")
    bad = dags["iceberg_maintenance.lake.shop.bad"]
    assert bad.tags == {"iceberg-maintenance", "config-error"}
    assert "retries" in bad.doc_md
    with pytest.raises(Exception, match="retries"):
        bad.get_task("policy_error").execute({})


def test_isolation_covers_what_only_building_the_dag_shows(write_policy, monkeypatch):
    path = write_policy("tables: [{name: shop.good}, {name: shop.bad, schedule: {timetable: no.such.Timetable}}]")
    with pytest.raises(Exception, match=r"no\.such\.Timetable"):
        build_dags(path)
    dags = build_dags(path, on_error="isolate")
    assert list(dags) == ["iceberg_maintenance.lake.shop.bad", "iceberg_maintenance.lake.shop.good"]
    assert "no.such.Timetable" in dags["iceberg_maintenance.lake.shop.bad"].doc_md
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "iceberg_maintenance.lake.shop.bad")
    assert build_dags(path, on_error="isolate")["iceberg_maintenance.lake.shop.bad"].get_task("policy_error")


def test_a_broken_name_does_not_take_the_place_of_a_good_one(write_policy):
    dags = build_dags(write_policy("tables: [{name: shop.a_b}, {name: 'shop.a b'}]"), on_error="isolate")
    assert list(dags) == ["iceberg_maintenance.lake.shop.a_b", "iceberg_maintenance.lake.shop.a_b_"]
    assert dags["iceberg_maintenance.lake.shop.a_b"].get_task("assess")


def test_isolation_does_not_hide_a_mistake_that_all_tables_share(write_policy):
    with pytest.raises(PolicyError):
        build_dags(write_policy("sparks: {}\ntables: [{name: shop.good}]"), on_error="isolate")


def test_the_form_offers_exactly_the_parameters_a_run_understands(policy):
    params = build_dag(policy, "shop.events").params
    defaults = params.validate()
    assert RunParameters.from_mapping(defaults) == RunParameters(expire_snapshots=True)  # as the policy says
    assert set(defaults) == set(RunParameters.__dataclass_fields__)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("force", "perhaps"),
        ("strategy", "hilbert"),
        ("target_file_size_mb", 0),
        ("max_files", -1),
        ("snapshot_retention_hours", 0),
        ("partition_filter", 7),
    ],
)
def test_the_form_refuses_a_wrong_value_by_the_name_of_its_field(policy, name, value):
    params = build_dag(policy, "shop.events").params
    with pytest.raises(Exception, match=name):
        params[name] = value


def test_one_dags_parameters_are_not_another_dags(policy):
    one, other = build_dag(policy, "shop.events"), build_dag(policy, "shop.users")
    one.params["force"] = True
    assert not other.params["force"]


def test_a_task_group_puts_the_same_tasks_into_somebody_elses_dag(policy):
    with DAG(dag_id="mine", schedule=None) as dag:
        iceberg_maintenance(policy, "shop.events", group_id="events", parameters={"force": True})
        iceberg_maintenance(policy, "shop.users", group_id="users")
    assert set(dag.task_ids) == {f"{group}.{task}" for group in ("events", "users") for task in TASKS}
    assert "events.assess" in dag.get_task("events.expire_snapshots").plan_uri
    assert not dag.params


@pytest.mark.parametrize(
    ("schedule", "timetable"),
    [
        ("{cron: '0 2 * * *', timezone: Europe/Berlin}", "CronTriggerTimetable"),
        ("{timetable: airflow.timetables.simple.OnceTimetable}", "OnceTimetable"),
        ("{assets: ['s3://bucket/raw']}", "AssetTriggeredTimetable"),
        ("{on_commit: true}", "AssetTriggeredTimetable"),
        ("{cron: '@daily', on_commit: true}", "AssetOrTimeSchedule"),
        ("'@daily'", "CronTriggerTimetable"),
        ("null", "NullTimetable"),
    ],
)
def test_every_kind_of_schedule_becomes_a_timetable(write_policy, schedule, timetable):
    path = write_policy(f"tables: [{{name: shop.events, schedule: {schedule}}}]")
    (dag,) = build_dags(path).values()
    assert type(dag.timetable).__name__ == timetable


def test_a_commit_schedule_watches_the_table_and_not_its_maintenance(write_policy):
    path = write_policy("tables: [{name: shop.events, schedule: {on_commit: true}}]")
    (dag,) = build_dags(path).values()
    (asset,) = dag.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    assert asset.uri == "iceberg://lake/shop/events"
    assert dag.get_task("report").outlets[0].uri == "iceberg://lake/shop/events/maintenance"
    kind, arguments = watcher.trigger.serialize()
    assert kind == "airflow_iceberg_compaction.triggers.iceberg_snapshot.IcebergCommitTrigger"
    assert arguments["probe"]["iceberg_conn_id"] == "iceberg_default"


def test_parsing_touches_no_catalog_connection_or_variable(write_policy, monkeypatch):
    from airflow.sdk import BaseHook, Variable

    def refuse(*args, **kwargs):
        raise AssertionError("looked up while parsing")

    monkeypatch.setattr(BaseHook, "get_connection", refuse)
    monkeypatch.setattr(Variable, "get", refuse)
    build_dags(write_policy("tables: [{name: shop.events, schedule: {on_commit: true}}]"))


def test_importing_the_package_and_parsing_a_dag_file_import_nothing_heavy(write_policy):
    path = write_policy("tables: [{name: shop.events}]")
    heavy = ("pyiceberg", "pyarrow", "pyspark", "slack_sdk")
    code = f"""
import sys
import airflow_iceberg_compaction
assert "airflow" not in sys.modules
from airflow_iceberg_compaction import build_dags
assert build_dags({str(path)!r})
print([name for name in {heavy!r} if name in sys.modules])
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_a_policy_may_be_loaded_once_and_used_for_python_dags(write_policy):
    policy = load_policy(write_policy("tables: [{name: shop.events}]"))
    dag = build_dag(policy, "shop.events", dag_id="my_own", schedule="@weekly")
    assert dag.dag_id == "my_own"

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction import runs


def a_context(run_id="manual__2026-01-01T00:00:00+00:00", task_id="assess"):
    return {"ti": SimpleNamespace(dag_id="d", run_id=run_id, task_id=task_id)}


def test_documents_of_a_run_lie_below_its_dag_and_run(policy):
    folder = runs.run_folder(policy, a_context("nightly"))
    assert folder == f"{policy.documents}/d/nightly"


def test_tasks_of_a_group_have_a_folder_of_their_own(policy):
    assert runs.run_folder(policy, a_context("r", "events.assess")).endswith("/d/r/events")


def test_a_colon_never_reaches_hadoop(policy):
    assert ":" not in runs.run_folder(policy, a_context())


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_run_ids_never_share_a_folder(one, other):
    assert (runs.path_segment(one) == runs.path_segment(other)) == (one == other)


@given(st.text(min_size=1))
def test_a_run_id_cannot_leave_the_documents_folder(run_id):
    assert "/" not in runs.path_segment(run_id)
    assert runs.path_segment(run_id) not in (".", "..")


def test_without_a_setting_documents_lie_under_airflow_home(policy, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", "/somewhere")
    assert runs.documents_uri(policy.model_copy(update={"documents": None})) == "/somewhere/iceberg-compaction"


def test_the_deployment_may_set_the_location_for_all_policies(policy, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ICEBERG_COMPACTION__DOCUMENTS", "s3://bucket/maintenance")
    assert runs.documents_uri(policy.model_copy(update={"documents": None})) == "s3://bucket/maintenance"


def test_siblings_are_found_inside_a_task_group():
    assert runs.sibling("events.report", "assess") == "events.assess"
    assert runs.sibling("report", "assess") == "assess"

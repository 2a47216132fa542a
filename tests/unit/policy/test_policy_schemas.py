from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import report_examples as examples
import yaml

from airflow_iceberg_compaction.policy.profiles import BUILT_IN
from airflow_iceberg_compaction.policy.reference import reference
from airflow_iceberg_compaction.policy.starter import STARTER
from airflow_iceberg_compaction.report.summary import build_report
from airflow_iceberg_compaction.schemas import plan_schema, policy_schema, report_schema

ROOT = Path(__file__).parents[3]


def _validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_an_editor_accepts_the_starter_file() -> None:
    _validator(policy_schema()).validate(yaml.safe_load(STARTER))


@pytest.mark.parametrize(
    "settings",
    [
        {"retrys": 1},
        {"retries": "2"},
        {"thresholds": {"small_file_size": "96M"}},
        {"thresholds": {"small_file_size": 96}},
        {"rewrite": {"strategy": "sorted"}},
        {"expire_snapshots": {"older_than": "7 days"}},
        {"schedule": {"croon": "0 2 * * *"}},
    ],
)
def test_an_editor_marks_a_mistake(settings: dict[str, Any]) -> None:
    document = {"version": 1, "catalog": {"name": "lake"}, "tables": [{"name": "a.b", **settings}]}
    assert not _validator(policy_schema()).is_valid(document)


@pytest.mark.parametrize(
    "settings",
    [
        {"thresholds": {"small_file_size": "1.5GiB", "delete_ratio": "10%"}},
        {"rewrite": {"max_files": None, "min_quiet": "1h30m"}},
        {"report": {"slack": {"when": "failed"}}},
        {"write_properties": {"write.parquet.compression-level": 3}},
        {"schedule": {"cron": "0 2 * * *", "timezone": "Europe/Oslo"}},
        {"orphan_files": {"mode": "off"}},
    ],
)
def test_an_editor_accepts_what_the_loader_accepts(settings: dict[str, Any]) -> None:
    document = {"version": 1, "catalog": {"name": "lake"}, "history": "off", "tables": [{"name": "a.b", **settings}]}
    _validator(policy_schema()).validate(document)


@pytest.mark.parametrize("profile", BUILT_IN)
def test_the_built_in_profiles_fit_the_schema(profile: str) -> None:
    schema = policy_schema()
    _validator({**schema, **schema["$defs"]["Profile"], "required": []}).validate(BUILT_IN[profile])


def test_defaults_in_the_schema_are_spelt_as_in_a_file() -> None:
    rewrite = policy_schema()["$defs"]["Rewrite"]["properties"]
    assert (rewrite["max_bytes"]["default"], rewrite["min_quiet"]["default"]) == ("500GB", "1h")


def test_every_key_has_a_description_for_the_editor() -> None:
    schema = policy_schema()
    missing = [
        f"{name}.{key}"
        for name, definition in {"": schema, **schema["$defs"]}.items()
        for key, field in definition.get("properties", {}).items()
        if "description" not in field and "$ref" not in field
    ]
    assert missing == []


def test_plan_and_report_documents_fit_their_schemas() -> None:
    plan = examples.a_plan()
    _validator(plan_schema()).validate(json.loads(plan.to_json()))
    report = build_report(plan, [examples.result(examples.rewrite_step(), examples.expire_step())], None, 1000)
    _validator(report_schema()).validate(json.loads(report.to_json()))


def test_a_document_with_an_unknown_or_missing_field_does_not_fit() -> None:
    document = json.loads(examples.a_plan().to_json())
    validator = _validator(plan_schema())
    assert not validator.is_valid({**document, "surprise": 1})
    assert not validator.is_valid({key: value for key, value in document.items() if key != "rewrite"})
    assert not validator.is_valid({**document, "version": 2})


def test_the_documentation_lists_every_key_with_its_default() -> None:
    text = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
    begin, end = "<!-- begin: iceberg-compaction schema --markdown -->\n", "<!-- end -->"
    assert text.partition(begin)[2].partition(end)[0].strip() == reference().strip(), (
        "copy it with the command in the marker"
    )

"""JSON Schemas of the policy file, for editors, and of the plan and the report, for programs that read them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter

from airflow_iceberg_compaction.documents import VERSION, Plan, Report
from airflow_iceberg_compaction.policy import model as policy_model

DIALECT = "https://json-schema.org/draft/2020-12/schema"

# Values that YAML writes without quotes and the loader takes as text.
_TEXT = {"type": ["string", "number", "boolean"]}
_TEXT_MAPS = (("Catalog", "properties"), ("Spark", "conf"))


def policy_schema() -> dict[str, Any]:
    """What an editor may tell while a policy is written. It is laxer than the loader, never stricter."""
    schema = policy_model.PolicyFile.model_json_schema()
    definitions = schema["$defs"]
    for name, definition in definitions.items():
        _tidy(definition, getattr(policy_model, name))
    _tidy(schema, policy_model.PolicyFile)
    # A table may set `when` of a channel that `defaults` names: only the merged settings must be complete.
    definitions["SlackReport"].pop("required", None)
    for name, field in _TEXT_MAPS:
        definitions[name]["properties"][field]["additionalProperties"] = _TEXT
    for name in ("TableSettings", "TableEntry", "Profile"):
        definitions[name]["properties"]["write_properties"]["additionalProperties"] = _TEXT
    schema["properties"]["history"]["type"] = ["string", "boolean", "null"]
    return {"$schema": DIALECT, **schema, "title": "Iceberg maintenance policy"}


def plan_schema() -> dict[str, Any]:
    """Of what ``iceberg-compaction plan --json`` prints."""
    return _document_schema(Plan, "Iceberg maintenance plan")


def report_schema() -> dict[str, Any]:
    """Of what ``iceberg-compaction run --json`` prints."""
    return _document_schema(Report, "Iceberg maintenance report")


def _tidy(definition: dict[str, Any], model: type[BaseModel]) -> None:
    """Defaults in the spelling of the file; no titles that repeat the key."""
    definition.pop("title", None)
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    for key, field in definition.get("properties", {}).items():
        field.pop("title", None)
        if "$ref" in field:
            field.pop("default", None)
        elif "default" in field:
            field["default"] = defaults[key]


def _document_schema(document: type[Plan] | type[Report], title: str) -> dict[str, Any]:
    schema = TypeAdapter(document).json_schema(mode="serialization")
    for definition in (schema, *schema.get("$defs", {}).values()):
        # Documents are written whole, and a reader refuses what it does not know.
        definition["required"] = list(definition["properties"])
        definition["additionalProperties"] = False
        for field in definition["properties"].values():
            field.pop("title", None)
            field.pop("default", None)
    schema["properties"]["version"] = {"const": VERSION}
    return {"$schema": DIALECT, **schema, "title": title}

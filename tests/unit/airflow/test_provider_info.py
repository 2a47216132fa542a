from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseHook, BaseNotifier, BaseOperator, BaseOperatorLink
from airflow.triggers.base import BaseTrigger

import airflow_iceberg_compaction
from airflow_iceberg_compaction.get_provider_info import get_provider_info

INFO = get_provider_info()


def listed_modules() -> set[str]:
    kinds = ("hooks", "sensors", "operators", "triggers")
    return {module for kind in kinds for entry in INFO[kind] for module in entry["python-modules"]}


def listed_classes() -> set[str]:
    return {*INFO["notifications"], *INFO["extra-links"]}


def test_the_metadata_fits_airflows_schema():
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


@pytest.mark.parametrize("name", sorted(listed_modules()))
def test_every_listed_module_can_be_imported(name):
    importlib.import_module(name)


@pytest.mark.parametrize("name", sorted(listed_classes()))
def test_every_listed_class_exists(name):
    module, _, attribute = name.rpartition(".")
    assert inspect.isclass(getattr(importlib.import_module(module), attribute))


def test_every_public_airflow_class_is_listed():
    unlisted = set()
    for found in pkgutil.walk_packages(airflow_iceberg_compaction.__path__, "airflow_iceberg_compaction."):
        room = found.name.split(".")[1]
        if room not in ("hooks", "operators", "sensors", "triggers", "notifications", "links"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            if not inspect.isclass(value) or value.__module__ != found.name or name.startswith("_"):
                continue
            if issubclass(value, BaseHook | BaseOperator | BaseTrigger | BaseNotifier | BaseOperatorLink):
                path = f"{found.name}.{name}"
                if found.name not in listed_modules() and path not in listed_classes():
                    unlisted.add(path)
    assert not unlisted


def test_airflow_knows_the_provider_and_the_defaults_of_its_settings():
    from airflow.providers_manager import ProvidersManager

    assert "airflow-iceberg-compaction" in ProvidersManager().providers
    assert conf.get("iceberg_compaction", "documents", fallback=None) in ("", None)

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from airflow.sdk import DAG
from airflow_environment import serialised

import airflow_iceberg_compaction

FOLDER = Path(airflow_iceberg_compaction.__file__).parent / "example_dags"
REPOSITORY_DAGS = Path(airflow_iceberg_compaction.__file__).parents[1] / "dags"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("example_*.py")), ids=lambda path: path.stem)
def test_an_example_parses_and_serialises_without_any_connection(path, monkeypatch):
    for name in ("AIRFLOW_CONN_ICEBERG_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    dags = [value for value in vars(module).values() if isinstance(value, DAG)]
    assert dags
    for dag in dags:
        serialised(dag)


def test_the_repositorys_dag_file_is_a_handful_of_lines():
    lines = (REPOSITORY_DAGS / "iceberg_maintenance.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 6

"""An Airflow of its own for the test process. Import this before anything of Airflow: it reads its settings once."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

HOME = Path(os.environ.get("ICEBERG_COMPACTION_TEST_HOME") or tempfile.mkdtemp(prefix="airflow-home-"))
DAGS = HOME / "dags"

if "ICEBERG_COMPACTION_TEST_HOME" not in os.environ:
    if "airflow" in sys.modules:
        raise RuntimeError("Airflow was imported before airflow_environment; import that first")
    DAGS.mkdir()
    os.environ |= {
        "ICEBERG_COMPACTION_TEST_HOME": str(HOME),
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    atexit.register(shutil.rmtree, HOME, ignore_errors=True)


def serialised(dag: object) -> dict[str, object]:
    """A Dag as the Dag processor stores it; Airflow 3.1 has another name for the class."""
    from airflow.serialization import serialized_objects

    kind = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
    found: dict[str, object] = kind.to_dict(dag)
    return found

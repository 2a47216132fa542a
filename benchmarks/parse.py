"""What a policy of many tables costs Airflow: a full parse, the start of one task, and serialisation.

    python benchmarks/parse.py [--tables 1000]

Times are of our own code after Airflow's imports; the ratio to Airflow's import time is what carries over to other machines.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    count = parser.parse_args().tables
    airflow_seconds, _ = measured(import_airflow)
    ours_seconds, build_dags = measured(import_ours)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "iceberg_maintenance.yaml"
        path.write_text(policy_text(count), encoding="utf-8")
        full_seconds, dags = measured(lambda: build_dags(path))
        serialise_seconds, _ = measured(lambda: serialise(dags))
        wanted = f"iceberg_maintenance.lake.shop.table_{count // 2:05d}"
        os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = wanted
        one_seconds, one = measured(lambda: build_dags(path))
    if len(dags) != count or list(one) != [wanted]:
        raise SystemExit("the factory did not build the Dags it was asked for")
    print(
        json.dumps(
            {
                "tables": count,
                "import_airflow_s": round(airflow_seconds, 3),
                "import_ours_s": round(ours_seconds, 3),
                "full_parse_s": round(full_seconds, 3),
                "full_parse_per_table_ms": round(full_seconds / count * 1000, 3),
                "serialise_s": round(serialise_seconds, 3),
                "task_start_ms": round(one_seconds * 1000, 1),
                "full_parse_to_airflow_import": round(full_seconds / airflow_seconds, 2),
            },
            indent=2,
        )
    )


def policy_text(tables: int) -> str:
    header = "version: 1\ncatalog: {name: lake, conn_id: iceberg_default}\ndefaults: {schedule: '0 2 * * *'}\ntables:\n"
    entry = "  - name: shop.table_{:05d}\n    rewrite: {{target_file_size: 256MB}}\n    tags: [gold]\n"
    return header + "".join(entry.format(number) for number in range(tables))


def measured(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


def import_airflow() -> None:
    import airflow.providers.apache.spark.operators.spark_submit
    import airflow.sdk

    _ = airflow.sdk.DAG


def import_ours() -> Any:
    from airflow_iceberg_compaction.factory import build_dags

    return build_dags


def serialise(dags: dict[str, Any]) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in dags.values():
        DagSerialization.to_dict(dag)


if __name__ == "__main__":
    main()

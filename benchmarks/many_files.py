"""A table of very many tiny files, compacted by spark-submit with the default driver memory (1 GB).

    python benchmarks/many_files.py [--files 100000] [--save benchmarks/results/many_files.json]

The files are hard links to one small file, so that making them takes seconds; to Iceberg they are as many files. Prints the
time, the peak memory of driver and Python process, and fails when a row is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.documents import RunResult
from airflow_iceberg_compaction.environment import find_spark_submit
from airflow_iceberg_compaction.maintenance import assess_and_plan
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.policy.model import Catalog, Policy, Rewrite, TablePolicy, Thresholds
from airflow_iceberg_compaction.submit import job_files, properties_file

ROWS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--driver-memory", default="1g")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="many-files-") as folder:
        outcome = measure(Path(folder), options)
    print(json.dumps(outcome, indent=2))
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(json.dumps(outcome, indent=2) + "\n")


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    lake = CatalogConfig("lake", properties)
    make_table(lake, options.files)
    settings = TablePolicy(
        name="many.files",
        thresholds=Thresholds(small_file_size=10_000_000, min_small_files=20),
        rewrite=Rewrite(min_quiet=timedelta(0), max_files=None, target_file_size=128_000_000),
    )
    policy = Policy(path="", catalog=Catalog(name="lake"), history=None, tables=(settings,))
    started = time.monotonic()
    _, plan = assess_and_plan(
        lake, policy, settings, RunParameters(), run_id=uuid.uuid4().hex[:8], now_ms=int(time.time() * 1000)
    )
    planned = time.monotonic() - started
    (folder / "plan.json").write_text(plan.to_json())
    conf = {
        **lake.spark_properties(),
        "spark.jars.packages": ",".join(lake.packages()),
        "spark.master": "local[2]",
        "spark.driver.memory": options.driver_memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    files = job_files(folder)
    started = time.monotonic()
    with properties_file(conf) as path:
        command = [find_spark_submit(), "--properties-file", path, "--py-files", files.py_files, files.application]
        command += [
            "--plan",
            str(folder / "plan.json"),
            "--result",
            str(folder / "result.json"),
            "--section",
            "rewrite",
        ]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    job_seconds = time.monotonic() - started
    if done.returncode:
        raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
    (step,) = RunResult.from_json((folder / "result.json").read_text()).steps
    rows = lake.load().load_table("many.files").scan(selected_fields=("id",)).to_arrow().num_rows
    if rows != options.files * ROWS:
        raise RuntimeError(f"{options.files * ROWS} rows went in, {rows} came out")
    return {
        "files": options.files,
        "driver_memory": options.driver_memory,
        "assess_and_plan_seconds": round(planned, 1),
        "job_seconds": round(job_seconds, 1),
        "batches": len(step.batches),
        "outcome": step.outcome,
        "numbers": step.numbers,
        "peak_memory_mb_of_largest_process": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
    }


def make_table(lake: CatalogConfig, files: int) -> None:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

    catalog = lake.load()
    catalog.create_namespace("many")
    rows = pa.table(
        {"id": list(range(ROWS)), "name": [f"name {i}" for i in range(ROWS)], "price": [i * 0.5 for i in range(ROWS)]}
    )
    table = catalog.create_table("many.files", schema=rows.schema)
    table.append(rows)
    first: DataFile = next(iter(table.scan().plan_files())).file
    source = Path(first.file_path.removeprefix("file://"))
    for start in range(1, files, 20_000):
        # A file system allows some ten thousand links to one file.
        source = Path(shutil.copy(source, source.with_name(f"source-{start:07}.parquet")))
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in range(start, min(start + 20_000, files)):
                copy = source.with_name(f"copy-{number:07}.parquet")
                copy.hardlink_to(source)
                append.append_data_file(_renamed(first, f"file://{copy}"))


def _renamed(file: Any, path: str) -> Any:
    from pyiceberg.manifest import DataFile

    values = list(file._data)
    values[1] = path  # content, file_path, ...
    copy = DataFile(*values)
    copy.spec_id = file.spec_id
    return copy


if __name__ == "__main__":
    main()

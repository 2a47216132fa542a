"""A run whose executors are killed as soon as the first output appears: ``killed_executor.py SETTINGS.json``."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_iceberg_compaction.documents import Plan
from spark_jobs.maintain import carry_out


def main(settings_file: str) -> None:
    settings = json.loads(Path(settings_file).read_text())
    builder = SparkSession.builder.master("local-cluster[1,2,1024]")
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    jvm = spark.sparkContext._gateway.proc.pid
    folder = Path(settings["data"])

    def kill_the_writers() -> None:
        while not any(folder.rglob("*.parquet")):
            time.sleep(0.005)
        for executor in children_of(jvm):
            os.kill(executor, signal.SIGKILL)
        print("killed while these were written:", *(path.name for path in folder.rglob("*.parquet")), flush=True)

    killer = threading.Thread(target=kill_the_writers, daemon=True)

    def at_stage(stage: str) -> None:
        if stage == "planned":
            killer.start()

    plan = Plan.from_json(Path(settings["plan"]).read_text())
    code = carry_out(spark, plan, settings["result"], None, lambda c: dataclasses.replace(c, at_stage=at_stage))
    spark.stop()
    sys.exit(code)


def children_of(parent: int) -> list[int]:
    """Processes started by ``parent``, by the fourth field of their status line."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


if __name__ == "__main__":
    main(sys.argv[1])

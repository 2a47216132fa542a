"""A driver that kills itself and its JVM at one moment of the rewrite: ``killed_driver.py SETTINGS.json``."""

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
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    jvm = spark.sparkContext._gateway.proc.pid

    def die() -> None:
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def die_soon() -> None:
        time.sleep(settings["delay"])
        die()

    def at_stage(stage: str) -> None:
        if stage != settings["stage"]:
            return
        if settings["delay"]:
            threading.Thread(target=die_soon).start()
        else:
            die()

    class DyingEngine:
        def __init__(self, real) -> None:
            self.real = real

        def rewrite(self, group):
            written = self.real.rewrite(group)
            at_stage("writing")
            return written

    def configure(context):
        real = context.engine
        return dataclasses.replace(context, at_stage=at_stage, engine=lambda *given: DyingEngine(real(*given)))

    plan = Plan.from_json(Path(settings["plan"]).read_text())
    sys.exit(carry_out(spark, plan, settings["result"], None, configure))


if __name__ == "__main__":
    main(sys.argv[1])

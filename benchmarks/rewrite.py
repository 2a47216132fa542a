"""Our rewrite against `CALL rewrite_data_files`, on one machine, in one JVM, round by round.

    python benchmarks/rewrite.py [--scale 3.0] [--rounds 3] [--save benchmarks/results/rewrite.json]

(a) skewed: 2 of 20 partitions are sick, the others hold a few files that are small but not worth a rewrite. The whole-table
    CALL touches them all; ours assesses, plans and rewrites the sick ones. Assessment and plan count into our time.
(b) all sick: every partition has many small files, so both rewrite the same bytes; ours plans, audits and commits by batch.
(c) as (b) with `audit: checksum`: what comparing every value costs.

Before each run the table is rolled back to its first snapshot, so every run sees the same files. The ratios are of the
fastest rounds: whatever else runs on the machine can only slow one down. Every round is in the output.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.documents import RunResult
from airflow_iceberg_compaction.maintenance import assess_and_plan
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.policy.model import Catalog, Policy, Rewrite, TablePolicy, Thresholds
from spark_jobs.maintain import carry_out

MIB = 1024 * 1024
CALL_OPTIONS = {"target-file-size-bytes": 128 * MIB, "min-file-size-bytes": 10 * MIB, "min-input-files": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=3.0, help="rows per file, as a factor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--driver-memory", default="3g")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rewrite-benchmark-") as folder:
        outcome = Benchmark(Path(folder), options).run()
    print(json.dumps(outcome, indent=2))
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(json.dumps(outcome, indent=2) + "\n")


class Benchmark:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        from pyspark.sql import SparkSession

        self.folder, self.options = folder, options
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.lake = CatalogConfig("lake", properties)
        self.lake.load()
        builder = SparkSession.builder.master("local[2]")
        conf = {
            **self.lake.spark_properties(),
            "spark.jars.packages": ",".join(self.lake.packages()),
            "spark.driver.memory": options.driver_memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")

    def run(self) -> dict[str, Any]:
        self.spark.sql("CREATE NAMESPACE lake.bench")
        skewed = self._table("skewed", {p: (60, 4_000) if p < 2 else (3, 90_000) for p in range(20)})
        sick = self._table("sick", {p: (30, 12_000) for p in range(12)})
        for table in (skewed, sick):  # one warm round each: class loading and compilation are not what is measured
            self._ours(table, "metadata")
            self._call(table)
        rounds: dict[str, list[dict[str, float]]] = {}
        for _ in range(self.options.rounds):
            rounds.setdefault("skewed_call", []).append(self._call(skewed))
            rounds.setdefault("skewed_ours", []).append(self._ours(skewed, "metadata"))
            rounds.setdefault("sick_call", []).append(self._call(sick))
            rounds.setdefault("sick_ours", []).append(self._ours(sick, "metadata"))
            rounds.setdefault("sick_ours_checksum", []).append(self._ours(sick, "checksum"))
        self.spark.stop()
        fastest = {name: min(runs, key=lambda run: run["seconds"]) for name, runs in rounds.items()}

        def ratio(one: str, other: str, of: str) -> float:
            return round(fastest[one][of] / fastest[other][of], 3)

        return {
            "machine": f"{platform.machine()}, Python {platform.python_version()}, local[2]",
            "rounds": rounds,
            "skewed_time_ratio": ratio("skewed_ours", "skewed_call", "seconds"),
            "skewed_bytes_ratio": ratio("skewed_ours", "skewed_call", "bytes"),
            "sick_time_ratio": ratio("sick_ours", "sick_call", "seconds"),
            "sick_bytes_ratio": ratio("sick_ours", "sick_call", "bytes"),
            "checksum_time_ratio": ratio("sick_ours_checksum", "sick_ours", "seconds"),
        }

    def _table(self, name: str, partitions: dict[int, tuple[int, int]]) -> str:
        """``partition -> (files, rows per file)``, one append per partition."""
        table = f"bench.{name}"
        self.spark.sql(
            f"CREATE TABLE lake.{table} (id bigint, part int, ts timestamp, user string, amount double, note string) "
            "USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('write.distribution-mode'='none', 'format-version'='2')"
        )
        for part, (files, rows) in partitions.items():
            count = int(files * rows * self.options.scale)
            self.spark.range(0, count, numPartitions=files).selectExpr(
                "id", f"{part} as part", "timestamp_millis(1700000000000 + id * 37) as ts",
                "sha2(cast(id % 5000 as string), 256) as user", "rand(7) * 1000 as amount",
                "concat('note ', md5(cast(id as string))) as note",
            ).writeTo(f"lake.{table}").append()  # fmt: skip
        size, files = self.spark.sql(
            f"SELECT sum(file_size_in_bytes), count(*) FROM lake.{table}.data_files"
        ).collect()[0]
        print(f"{table}: {files} files, {size / MIB:.0f} MiB, {len(partitions)} partitions", flush=True)
        return table

    def _call(self, table: str) -> dict[str, float]:
        self._reset(table)
        settings = ", ".join(f"'{key}', '{value}'" for key, value in CALL_OPTIONS.items())
        started = time.monotonic()
        row = self.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{table}', options => map({settings}))"
        ).collect()[0]
        return {
            "seconds": time.monotonic() - started,
            "bytes": float(row["rewritten_bytes_count"]),
            "files": float(row["rewritten_data_files_count"]),
        }

    def _ours(self, table: str, audit: str) -> dict[str, float]:
        self._reset(table)
        settings = TablePolicy(
            name=table,
            thresholds=Thresholds(small_file_size=10 * MIB, min_small_files=20),
            rewrite=Rewrite(target_file_size=128 * MIB, min_quiet=timedelta(0)),
            audit=audit,
        )
        policy = Policy(path="", catalog=Catalog(name="lake"), history=None, tables=(settings,))
        started = time.monotonic()
        now_ms = int(time.time() * 1000)
        _, plan = assess_and_plan(
            self.lake, policy, settings, RunParameters(), run_id=uuid.uuid4().hex[:8], now_ms=now_ms
        )
        result_file = self.folder / "result.json"
        result_file.unlink(missing_ok=True)
        with contextlib.redirect_stdout(io.StringIO()):
            code = carry_out(self.spark, plan, str(result_file), ["rewrite"])
        seconds = time.monotonic() - started
        (step,) = RunResult.from_json(result_file.read_text()).steps
        if code or step.outcome != "succeeded":
            raise RuntimeError(f"the rewrite of {table} ended as {step.outcome}: {step.reason}")
        return {
            "seconds": seconds,
            "bytes": float(step.numbers["bytes_before"]),
            "files": float(step.numbers["files_compacted"]),
            "batches": float(len(step.batches)),
        }

    def _reset(self, table: str) -> None:
        """Back to the files as they were written."""
        log = self.spark.sql(
            f"SELECT snapshot_id, operation FROM lake.{table}.snapshots ORDER BY committed_at"
        ).collect()
        last_append = [row["snapshot_id"] for row in log if row["operation"] == "append"][-1]
        self.spark.sql(f"CALL lake.system.set_current_snapshot('{table}', {last_append})")


if __name__ == "__main__":
    main()

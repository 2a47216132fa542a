"""Rewrites against a writer that never stops: after each round every row must be what the writer's own log says.

    python tests/stress/concurrent_writers.py --rounds 100 [--minutes 30] [--seed 1]

Two real Spark drivers share one catalog. In each round the writer appends, deletes, updates, merges, overwrites and
expires at random while the job compacts the same partitions over and over. Ends with 1 at the first lost, revived,
duplicated or changed row.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.documents import Batch, Plan, RewriteSection, RunResult, TableNumbers
from spark_jobs.jvm import Gateway
from spark_jobs.maintain import carry_out

ROUNDS_PER_TABLE = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=30, help="stop after this time even if rounds are left")
    parser.add_argument("--operations", type=int, default=6, help="writer's operations per round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        return run(Path(folder), options)


def run(folder: Path, options: argparse.Namespace) -> int:
    from pyspark.sql import SparkSession

    lake = CatalogConfig(
        "lake", {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    )
    lake.load()
    conf = {
        **lake.spark_properties(),
        "spark.jars.packages": ",".join(lake.packages()),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1500m",
    }
    (folder / "conf.json").write_text(json.dumps(conf))
    writer = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("writer.py")), str(folder / "conf.json")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(folder / "writer.log").open("w"), text=True,
    )  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    try:
        if not writer.stdout or not json.loads(writer.stdout.readline())["ready"]:
            raise RuntimeError("the writer did not start")
        spark.sql("CREATE NAMESPACE lake.stress")
        return _rounds(spark, writer, folder, options)
    finally:
        writer.kill()
        writer.wait()
        spark.stop()


def _rounds(spark, writer, folder, options) -> int:  # type: ignore[no-untyped-def]
    started = time.monotonic()
    outcomes: collections.Counter[str] = collections.Counter()
    verdicts: collections.Counter[str] = collections.Counter()
    table, done, answer = "", 0, {}
    for number in range(options.rounds):
        if time.monotonic() - started > options.minutes * 60:
            break
        if number % ROUNDS_PER_TABLE == 0:
            table = _create(spark, number // ROUNDS_PER_TABLE)
        answer = _round(
            spark, writer, folder, table, options.seed * 100_000 + number, options.operations, outcomes, verdicts
        )
        found = sorted((row["id"], row["value"]) for row in spark.table(f"lake.{table}").collect())
        expected = [tuple(row) for row in answer["rows"]]
        if found != expected:
            print(f"round {number} of {table}: {_difference(expected, found)}", file=sys.stderr)
            return 1
        done += 1
        print(f"round {number + 1}: {len(found)} rows as logged, rewrites so far {dict(outcomes)}", flush=True)
    summary = {
        "rounds": done,
        "batches": outcomes,
        "laws": verdicts,
        "writer": {key: value for key, value in answer.items() if key != "rows"},
        "seconds": round(time.monotonic() - started),
    }
    print(json.dumps(summary))
    wrong = outcomes["failed"] or verdicts["violated"]
    return 1 if wrong or done == 0 else 0


def _create(spark, number: int) -> str:  # type: ignore[no-untyped-def]
    """Tables take turns: format 2 and 3, merge-on-read and copy-on-write."""
    table = f"stress.t{number}"
    mode = "copy-on-write" if number % 3 == 2 else "merge-on-read"
    properties = {"format-version": str(2 + number % 2)}
    properties |= {"commit.retry.num-retries": "20", "commit.retry.max-wait-ms": "500"}
    properties |= {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    spark.sql(
        f"CREATE TABLE lake.{table} (id bigint, part int, value string) USING iceberg PARTITIONED BY (part) "
        f"TBLPROPERTIES ({listed})"
    )
    return table


def _round(spark, writer, folder, table, seed, operations, outcomes, verdicts) -> dict:  # type: ignore[no-untyped-def]
    command = {"table": table, "operations": operations, "seed": seed, "pause": 0.2}
    writer.stdin.write(json.dumps(command) + "\n")
    writer.stdin.flush()
    answers: list[str] = []
    reader = threading.Thread(target=lambda: answers.append(writer.stdout.readline()))
    reader.start()
    while True:
        last = not reader.is_alive()
        _compact(spark, folder, table, outcomes, verdicts)
        if last:
            break
    reader.join()
    if not answers[0]:
        raise RuntimeError(f"the writer died:\n{(folder / 'writer.log').read_text()[-3000:]}")
    return json.loads(answers[0])


def _compact(spark, folder, table, outcomes, verdicts) -> None:  # type: ignore[no-untyped-def]
    loaded = Gateway(spark).table(f"lake.{table}")
    head = loaded.head()
    if head is None:
        time.sleep(0.1)
        return
    options = {"min-input-files": "2", "delete-file-threshold": "1"}
    options["use-starting-sequence-number"] = "false" if uuid.uuid4().int % 4 == 0 else "true"
    batches = tuple(
        Batch(batch_id=f"part-{part}", filter={"type": "eq", "term": "part", "value": part},
              options=options, partitions=1, input_files=0, input_bytes=0,
              output_files=0, groups=0)
        for part in (0, 1)
    )  # fmt: skip
    plan = Plan(
        run_id=f"stress-{uuid.uuid4().hex[:8]}", catalog="lake", table=table, table_uuid=loaded.uuid,
        snapshot_id=head.snapshot_id, created_at_ms=int(time.time() * 1000), outcome="work", before=TableNumbers(),
        rewrite=RewriteSection(batches=batches, audit="checksum" if uuid.uuid4().int % 4 == 0 else "metadata"),
    )  # fmt: skip
    result_file = folder / "result.json"
    result_file.unlink(missing_ok=True)
    with (folder / "job.log").open("a") as log:
        real, sys.stdout = sys.stdout, log
        try:
            carry_out(
                spark, plan, str(result_file), None, lambda c: dataclasses.replace(c, back_off=lambda attempt: None)
            )
        finally:
            sys.stdout = real
    (step,) = RunResult.from_json(result_file.read_text()).steps
    outcomes.update(b.outcome for b in step.batches)
    outcomes["races lost"] += sum(b.attempts - 1 for b in step.batches)
    verdicts.update(law.verdict for law in step.laws)
    if step.outcome == "failed":
        print(f"the job failed: {step.reason}", file=sys.stderr)


def _difference(expected: list, found: list) -> str:  # type: ignore[type-arg]
    should, has = collections.Counter(expected), collections.Counter(found)
    return f"lost {list((should - has).items())[:5]}, revived, duplicated or changed {list((has - should).items())[:5]}"


if __name__ == "__main__":
    sys.exit(main())

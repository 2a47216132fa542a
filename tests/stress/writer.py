"""The other writer: a Spark driver of its own that changes a table at random and keeps its own account of every row.

It reads one JSON command per line (``{"table", "start", "operations", "seed"}``) and answers each with one line: the rows
that must be in the table, by its own log. An operation that Iceberg refuses, because the compaction won the race, changed
nothing and is not in the log.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession


class Writer:
    """One table and what should be in it."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self.spark = spark
        self.table = f"lake.{table}"
        self.rows: dict[int, str] = {}
        self.next_id = 0
        self.refused = 0
        self.done: dict[str, int] = {}

    def append(self, random_: random.Random) -> None:
        count = random_.randint(1, 40)
        new = {self.next_id + i: f"v{random_.randint(0, 10**6)}" for i in range(count)}
        self._write(new).writeTo(self.table).append()
        self.next_id += count
        self.rows |= new

    def delete(self, random_: random.Random) -> None:
        modulus = random_.randint(3, 40)
        rest = random_.randrange(modulus)
        self.spark.sql(f"DELETE FROM {self.table} WHERE id % {modulus} = {rest}")
        self.rows = {k: v for k, v in self.rows.items() if k % modulus != rest}

    def update(self, random_: random.Random) -> None:
        if not self.rows:
            return
        chosen = random_.choice(list(self.rows))
        value = f"u{random_.randint(0, 10**6)}"
        self.spark.sql(f"UPDATE {self.table} SET value = '{value}' WHERE id = {chosen}")
        self.rows[chosen] = value

    def merge(self, random_: random.Random) -> None:
        known = random_.sample(sorted(self.rows), min(len(self.rows), 5))
        new = {i: f"m{random_.randint(0, 10**6)}" for i in [*known, self.next_id, self.next_id + 1]}
        self._write(new).createOrReplaceTempView("source")
        self.spark.sql(
            f"MERGE INTO {self.table} t USING source s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET value = s.value WHEN NOT MATCHED THEN INSERT *"
        )
        self.next_id += 2
        self.rows |= new

    def overwrite(self, random_: random.Random) -> None:
        part = random_.randrange(2)
        kept = {k: v for k, v in self.rows.items() if k % 2 == part and random_.random() < 0.7}
        if not kept:
            return
        self._write(kept).createOrReplaceTempView("source")
        self.spark.sql(f"INSERT OVERWRITE {self.table} SELECT * FROM source")  # dynamic: this partition only
        self.rows = {k: v for k, v in self.rows.items() if k % 2 != part} | kept

    def expire(self, random_: random.Random) -> None:
        name = self.table.removeprefix("lake.")
        keep = random_.randint(1, 3)
        self.spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', "
            f"retain_last => {keep})"
        )

    def step(self, random_: random.Random) -> None:
        names, weights = ["append", "delete", "update", "merge", "overwrite", "expire"], [4, 2, 3, 2, 1, 1]
        name = random_.choices(names, weights)[0]
        try:
            getattr(self, name)(random_)
        except Exception as error:
            text = str(error)
            known = (
                "ValidationException",
                "CommitFailedException",
                "Cannot commit",
                "Missing required files",
                "conflict",
            )
            if not any(word in text for word in known):
                raise
            self.refused += 1
            return
        self.done[name] = self.done.get(name, 0) + 1

    def _write(self, rows: dict[int, str]):  # type: ignore[no-untyped-def]
        listed = [(key, key % 2, value) for key, value in rows.items()]
        return self.spark.createDataFrame(listed, "id bigint, part int, value string").coalesce(1)


def main(settings_file: str) -> None:
    builder = SparkSession.builder.master("local[1]")
    for key, value in json.loads(Path(settings_file).read_text()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    writers: dict[str, Writer] = {}
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        writer = writers.setdefault(command["table"], Writer(spark, command["table"]))
        random_ = random.Random(command["seed"])
        for _ in range(command["operations"]):
            writer.step(random_)
            time.sleep(random_.random() * command["pause"])
        rows = sorted(writer.rows.items())
        print(json.dumps({"rows": rows, "refused": writer.refused, "done": writer.done}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Tables of every shape for comparing our planner with Iceberg's: files written by Spark, dealt out to many tables.

Spark writes a few pools of real data and delete files, one for each partitioning. A random table is a hand of those
files, committed through Iceberg's own API in several snapshots, with deletes of every kind and changes of spec in
between. So a table costs milliseconds, and thousands of different ones can be compared.
"""

from __future__ import annotations

import random
import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PARTITIONINGS = (
    "",
    "region",
    "x",
    "d",
    "amount",
    "flag",
    "bucket(3, id)",
    "truncate(1, region)",
    "truncate(4, n)",
    "years(ts)",
    "months(d)",
    "days(ts)",
    "days(d)",
    "hours(tsn)",
    "region, days(ts)",
    "bucket(2, id), years(tsn)",
    "n, bucket(4, n)",
)

# Spec changes: partition fields as (column, Iceberg transform, width).
EVOLUTIONS: tuple[tuple[tuple[str, str, int], ...], ...] = (
    (("region", "identity", 0),),
    (("ts", "hour", 0),),
    (("id", "bucket", 5),),
    (("n", "truncate", 8),),
    (),
)

_ROWS = """
    SELECT CAST(rand({seed}) * 40 AS BIGINT) AS id,
           element_at(array('eu', 'us', 'it''s', CAST(NULL AS STRING)), CAST(1 + rand({seed} + 1) * 4 AS INT)) AS region,
           date_add(DATE '1969-12-30', CAST(rand({seed} + 2) * 5 AS INT)) AS d,
           timestamp_micros(CAST((rand({seed} + 3) - 0.5) * 2.5e11 AS BIGINT)) AS ts,
           CAST(timestamp_micros(CAST((rand({seed} + 4) - 0.5) * 1.8e10 AS BIGINT)) AS TIMESTAMP_NTZ) AS tsn,
           element_at(array(1.5D, -2.0D, double('NaN'), double('Infinity'), CAST(NULL AS DOUBLE)),
                      CAST(1 + rand({seed} + 5) * 5 AS INT)) AS x,
           CAST(CAST(rand({seed} + 6) * 4 AS INT) / 4 AS DECIMAL(9, 2)) AS amount,
           CAST(rand({seed} + 7) * 12 AS INT) - 6 AS n,
           rand({seed} + 8) < 0.5 AS flag,
           repeat(hex(xxhash64(id, {seed})), CAST(rand({seed} + 9) * {width} AS INT)) AS payload
    FROM range({rows})
"""
_COLUMNS = (
    "id BIGINT, region STRING, d DATE, ts TIMESTAMP, tsn TIMESTAMP_NTZ, x DOUBLE, amount DECIMAL(9, 2), n INT, "
    "flag BOOLEAN, payload STRING"
)


@dataclass
class Pool:
    """Files of one partitioning that Spark wrote, each with the delete files Spark wrote for it."""

    table: Any  # Java
    files: list[tuple[Any, list[Any]]] = field(default_factory=list)


class Iceberg:
    """Iceberg's Java API over py4j, as far as these tests need it."""

    def __init__(self, spark: Any, catalog: str = "lake") -> None:
        self.spark = spark
        self.jvm = spark._jvm
        self.catalog_name = catalog
        self.catalog = self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)

    def identifier(self, name: str) -> Any:
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(name)

    def load(self, name: str) -> Any:
        return self.catalog.loadTable(self.identifier(name))

    def create(self, name: str, schema: Any, spec: Any, properties: Mapping[str, str]) -> Any:
        return self.catalog.createTable(self.identifier(name), schema, spec, self.map(properties))

    def map(self, values: Mapping[str, str]) -> Any:
        result = self.jvm.java.util.HashMap()
        for key, value in values.items():
            result.put(key, value)
        return result

    def expression(self, text: str, table: Any) -> Any:
        return self.jvm.org.apache.iceberg.expressions.ExpressionParser.fromJson(text, table.schema())

    def always_true(self) -> Any:
        return self.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()

    def plan(
        self, table: Any, expression: Any, options: Mapping[str, str], *, shuffles: bool = False
    ) -> list[tuple[list[str], int]]:
        """What Iceberg's planner picks: for each group the paths in order and the expected number of files."""
        snapshot_id = table.currentSnapshot().snapshotId()
        if shuffles:
            planner = self._shuffling_planner(table, expression, snapshot_id)
        else:
            planner = self.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(
                table, expression, snapshot_id, False
            )
        planner.init(self.map(options))
        return [
            ([str(task.file().location()) for task in group.fileScanTasks()], int(group.expectedOutputFiles()))
            for group in iterate(planner.plan().groups())
        ]

    def _shuffling_planner(self, table: Any, expression: Any, snapshot_id: int) -> Any:
        loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        name = "org.apache.iceberg.spark.actions.SparkShufflingDataRewritePlanner"
        constructor = self.jvm.java.lang.Class.forName(name, True, loader).getDeclaredConstructors()[0]
        constructor.setAccessible(True)
        arguments = self.spark.sparkContext._gateway.new_array(self.jvm.java.lang.Object, 4)
        arguments[0], arguments[1], arguments[2], arguments[3] = table, expression, snapshot_id, False
        return constructor.newInstance(arguments)


def iterate(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def write_pool(iceberg: Iceberg, name: str, partitioning: str, *, version: int, granularity: str, seed: int) -> Pool:
    """One insert of files of very different sizes and one merge-on-read delete, both by Spark."""
    spark = iceberg.spark
    full_name = f"{iceberg.catalog_name}.{name}"
    clause = f"PARTITIONED BY ({partitioning})" if partitioning else ""
    spark.sql(
        f"CREATE TABLE {full_name} ({_COLUMNS}) USING iceberg {clause} TBLPROPERTIES ("
        f"'format-version' = '{version}', 'write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true', "
        f"'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = '{granularity}')"
    )
    frame = spark.sql(_ROWS.format(seed=seed, rows=1200, width=9))
    skewed = spark.sql(f"SELECT *, CAST(pow(rand({seed}), 3) * 5 AS INT) AS task FROM {{rows}}", rows=frame)
    skewed.repartition(5, "task").drop("task").writeTo(full_name).append()
    spark.sql(f"DELETE FROM {full_name} WHERE id % 3 = 0 OR n > 3")
    table = iceberg.load(name)
    tasks = iterate(table.newScan().includeColumnStats().planFiles())
    return Pool(table, [(task.file(), list(iterate(task.deletes()))) for task in tasks])


class RandomTables:
    """Deals random tables from pools; the same seed deals the same tables."""

    def __init__(self, iceberg: Iceberg, namespace: str, pools: list[Pool]) -> None:
        self._iceberg = iceberg
        self._namespace = namespace
        self._pools = pools
        self._jvm = iceberg.jvm
        self._int_array = iceberg.spark.sparkContext._gateway.new_array

    def deal(self, seed: int) -> str:
        """Create one table and return its name."""
        choose = random.Random(seed)
        pool = choose.choice(self._pools)
        version = choose.choice((2, 2, 3))
        name = f"{self._namespace}.t{seed}"
        table = self._iceberg.create(
            name, pool.table.schema(), pool.table.spec(), {"format-version": str(version), **_merging(choose)}
        )
        hand = choose.sample(pool.files, choose.randint(0, min(40, len(pool.files))))
        commits = choose.randint(1, 4)
        for number in range(commits):
            part = self._append(table, hand[number::commits])
            if part and choose.random() < 0.7:
                self._delete(table, part, choose, version)
            if number == 0 and choose.random() < 0.3:
                self._evolve(table, choose)
        if version == 2 and choose.random() < 0.1:
            table.updateProperties().set("format-version", "3").commit()
        return name

    def _append(self, table: Any, part: list[tuple[Any, list[Any]]]) -> list[tuple[Any, list[Any]]]:
        if not part:
            return []
        fitted = [(self._fitted(table, file), deletes) for file, deletes in part]
        append = table.newAppend()
        for file, _ in fitted:
            append.appendFile(file)
        append.commit()
        return fitted

    def _fitted(self, table: Any, file: Any) -> Any:
        """The file under the table's present spec."""
        if table.spec().specId() == 0:
            return file
        builder = self._jvm.org.apache.iceberg.DataFiles.builder(table.spec())
        builder = builder.withPath(file.location()).withFormat("PARQUET").withFileSizeInBytes(file.fileSizeInBytes())
        return self._partitioned(table, builder, file).withRecordCount(file.recordCount()).build()

    def _partitioned(self, table: Any, builder: Any, file: Any) -> Any:
        """A partition value that suits the new spec; which one does not matter to a planner."""
        if table.spec().isUnpartitioned():
            return builder
        value = zlib.crc32(file.location().encode()) % 4
        return builder.withPartitionPath(f"{table.spec().fields().get(0).name()}={value}")

    def _evolve(self, table: Any, choose: random.Random) -> None:
        expressions = self._jvm.org.apache.iceberg.expressions.Expressions
        update = table.updateSpec()
        for part in iterate(table.spec().fields()):
            update.removeField(part.name())
        for column, transform, width in choose.choice(EVOLUTIONS):
            if transform == "identity":
                update.addField("ev_region", expressions.ref(column))
            elif transform == "hour":
                update.addField("ts_ev", expressions.hour(column))
            else:
                update.addField(f"ev_{column}", getattr(expressions, transform)(column, width))
        update.commit()
        table.refresh()

    def _delete(self, table: Any, part: list[tuple[Any, list[Any]]], choose: random.Random, version: int) -> None:
        delta = table.newRowDelta()
        vectors: set[str] = set()
        added = False
        for file, real in choose.sample(part, choose.randint(1, len(part))):
            kind = choose.choice(("real", "equality", "position", "file_scoped"))
            if kind == "real" and table.spec().specId() != 0:
                continue
            if kind == "real":
                for delete in real:
                    is_vector = str(delete.format()) == "PUFFIN"
                    if is_vector == (version == 3) and file.location() not in vectors:
                        delta.addDeletes(delete)
                        vectors.add(file.location())
                        added = True
            elif kind == "equality" or version == 2:
                delta.addDeletes(self._made(table, file, kind, choose))
                added = True
            elif file.location() not in vectors:
                delta.addDeletes(self._made(table, file, "vector", choose))
                vectors.add(file.location())
                added = True
        if added:
            delta.commit()

    def _made(self, table: Any, file: Any, kind: str, choose: random.Random) -> Any:
        builder = self._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        if kind == "equality":
            ids = self._int_array(self._jvm.int, 1)
            ids[0] = 1
            builder = builder.ofEqualityDeletes(ids)
        else:
            builder = builder.ofPositionDeletes()
        suffix = "puffin" if kind == "vector" else "parquet"
        builder = builder.withPath(f"{table.location()}/data/{uuid.uuid4()}.{suffix}").withFormat(suffix.upper())
        rows = choose.randint(1, max(1, int(file.recordCount())))
        builder = builder.withFileSizeInBytes(choose.randint(100, 5000)).withRecordCount(rows)
        if not table.spec().isUnpartitioned():
            builder = builder.withPartition(file.partition())
        if kind in ("file_scoped", "vector"):
            builder = builder.withReferencedDataFile(file.location())
        if kind == "vector":
            builder = builder.withContentOffset(4).withContentSizeInBytes(40)
        return builder.build()


def _merging(choose: random.Random) -> dict[str, str]:
    """Many manifests, or one: the order of a scan is only certain with one."""
    return {"commit.manifest.min-count-to-merge": choose.choice(("2", "100"))}

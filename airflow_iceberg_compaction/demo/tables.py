"""Make the demo's tables: ``python -m airflow_iceberg_compaction.demo.tables FOLDER``.

A process of its own, because it needs Spark (only Spark writes position deletes) and the rest of the demo must be able
to show that it does not.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.catalog import CatalogConfig

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

CATALOG = "lake"
NAMESPACE = "maintenance_demo"
EVENT_STREAM = f"{NAMESPACE}.event_stream"
CDC_USERS = f"{NAMESPACE}.cdc_users"
PRODUCTS = f"{NAMESPACE}.products"
TABLES = (EVENT_STREAM, CDC_USERS, PRODUCTS)

MICRO_BATCHES = 50
EVENT_TYPES = ("click", "purchase", "search", "view")
DAY = 86_400
FIRST_DAY = 20_102 * DAY  # 2025-01-14 in seconds since 1970
DAYS = 3
ROWS_PER_BATCH = 6_000
USERS = 20_000
CHANGES = 12

LOCAL_SPARK_CONF = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def catalog_config(folder: Path) -> CatalogConfig:
    """The embedded default: one SQLite file for both PyIceberg and Spark, data in a folder."""
    return CatalogConfig(CATALOG, catalog_properties(folder))


def catalog_properties(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def make_tables(folder: Path) -> None:
    config = catalog_config(folder)
    catalog = config.load()
    catalog.create_namespace_if_not_exists(NAMESPACE)
    _make_products(catalog)
    _progress(0, "starting Spark to write as a stream and a CDC feed would")
    spark = _start_spark(config)
    try:
        _make_event_stream(spark)
        _make_cdc_users(spark)
    finally:
        spark.stop()
    _make_orphan(folder)


def _make_products(catalog: Catalog) -> None:
    """A healthy table: one load, one file."""
    import pyarrow as pa

    rows = range(5_000)
    products = pa.table({"product_id": pa.array(rows, pa.int64()), "name": [f"product {i}" for i in rows]})
    catalog.create_table(PRODUCTS, products.schema).append(products)


def _make_event_stream(spark: SparkSession) -> None:
    name = f"{CATALOG}.{EVENT_STREAM}"
    spark.sql(
        f"CREATE TABLE {name} (event_id BIGINT, event_ts TIMESTAMP, event_type STRING, user_id BIGINT, payload STRING) "
        "USING iceberg PARTITIONED BY (days(event_ts), event_type) TBLPROPERTIES ('format-version'='2')"
    )
    # One day and type arrives well sized, in one go: no run may ever touch it.
    whole_day = _events(0, 60_000, FIRST_DAY - DAY, days=1, event_type="'purchase'")
    spark.sql(f"INSERT INTO {name} {whole_day}")
    a_type = (
        f"element_at(array({', '.join(map(repr, EVENT_TYPES))}), CAST(id DIV {DAYS} % {len(EVENT_TYPES)} + 1 AS INT))"
    )
    for batch in range(MICRO_BATCHES):
        first = 100_000 + batch * ROWS_PER_BATCH
        spark.sql(f"INSERT INTO {name} {_events(first, ROWS_PER_BATCH, FIRST_DAY, DAYS, a_type)}")
        _progress(batch + 1, f"{EVENT_STREAM}: micro-batch {batch + 1} of {MICRO_BATCHES}")


def _events(first_id: int, rows: int, first_day: int, days: int, event_type: str) -> str:
    return (
        f"SELECT id, timestamp_seconds({first_day} + id % {days} * {DAY} + id * 7919 % {DAY}), {event_type}, "
        f"id * 104729 % {USERS}, concat('session-', sha1(CAST(id AS STRING))) FROM range({first_id}, {first_id + rows})"
    )


def _make_cdc_users(spark: SparkSession) -> None:
    name = f"{CATALOG}.{CDC_USERS}"
    modes = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, region STRING, email STRING, version INT) USING iceberg "
        f"PARTITIONED BY (region) TBLPROPERTIES ('format-version'='2', {modes})"
    )
    region = "element_at(array('ap', 'eu', 'us'), CAST(id % 3 + 1 AS INT))"
    insert = f"INSERT INTO {name} SELECT id, {region}, concat('user', id, '@example.com'), 1 FROM range({{}}, {{}})"
    spark.sql(insert.format(0, USERS))
    for change in range(CHANGES):
        verb = ("insert", "update", "delete")[change % 3]
        if verb == "insert":
            spark.sql(insert.format(USERS + change * 200, USERS + change * 200 + 200))
        elif verb == "update":
            spark.sql(f"UPDATE {name} SET version = version + 1 WHERE id % 97 = {change}")
        else:
            spark.sql(f"DELETE FROM {name} WHERE id % 101 = {change}")
        _progress(MICRO_BATCHES + change + 1, f"{CDC_USERS}: {verb} {change + 1} of {CHANGES}")


def _start_spark(config: CatalogConfig) -> SparkSession:
    from pyspark.sql import SparkSession

    conf = {
        **config.spark_properties(),
        **LOCAL_SPARK_CONF,
        "spark.jars.packages": ",".join(config.packages()),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("iceberg-compaction-demo")
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _make_orphan(folder: Path) -> None:
    """A file that a writer left behind ten days ago when it was killed."""
    orphan = folder / "warehouse" / NAMESPACE / "event_stream" / "data" / "killed-writer-00000.parquet"
    orphan.write_bytes(b"PAR1")
    ten_days_ago = time.time() - 10 * DAY
    os.utime(orphan, (ten_days_ago, ten_days_ago))


def _progress(done: int, text: str) -> None:
    print(f"progress {done}/{MICRO_BATCHES + CHANGES} {text}", flush=True)


if __name__ == "__main__":
    make_tables(Path(sys.argv[1]))

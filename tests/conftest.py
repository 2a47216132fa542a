from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

import pytest

from airflow_iceberg_compaction.catalog import CatalogConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> CatalogConfig:
    """The embedded default: one SQLite file that PyIceberg and Spark share, warehouse in a folder."""
    return embedded_catalog(tmp_path_factory.mktemp("lake"))


def embedded_catalog(folder: Path, name: str = "lake") -> CatalogConfig:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    config = CatalogConfig(name, properties)
    config.load()  # creates the catalog's tables
    return config


@pytest.fixture(scope="session")
def catalog(lake: CatalogConfig) -> Catalog:
    return lake.load()


@pytest.fixture
def namespace(catalog: Catalog) -> str:
    """A namespace no other test uses."""
    name = f"ns{next(_numbers)}"
    catalog.create_namespace(name)
    return name


@pytest.fixture(scope="session")
def spark(lake: CatalogConfig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session per test run, with the catalog `lake`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    conf = {
        **lake.spark_properties(),
        "spark.jars.packages": ",".join(lake.packages()),
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
        "spark.sql.session.timeZone": "UTC",
        # The job's tests also run on other versions of Spark and Iceberg, see `make test-spark35`.
        **json.loads(os.environ.get("TEST_SPARK_CONF", "{}")),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from random_tables import PARTITIONINGS, Iceberg, Pool, write_pool

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def iceberg(spark: SparkSession) -> Iceberg:
    return Iceberg(spark)


@pytest.fixture(scope="session")
def pools(iceberg: Iceberg, catalog: Catalog) -> list[Pool]:
    """Files that Spark wrote, for every partitioning."""
    catalog.create_namespace("pools")
    return [
        write_pool(
            iceberg,
            f"pools.p{number}",
            partitioning,
            version=3 if number % 3 == 0 else 2,
            granularity="file" if number % 2 else "partition",
            seed=number,
        )
        for number, partitioning in enumerate(PARTITIONINGS)
    ]

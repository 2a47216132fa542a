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
    catalog.create_namespace("health_pools")
    return [
        write_pool(
            iceberg,
            f"health_pools.p{number}",
            partitioning,
            version=2 if number % 3 == 0 else 3,
            granularity="partition" if number % 2 else "file",
            seed=100 + number,
        )
        for number, partitioning in enumerate(PARTITIONINGS)
    ]

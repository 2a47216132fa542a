from __future__ import annotations

import airflow_environment  # noqa: F401
import pytest

from airflow_iceberg_compaction.policy.model import Catalog, Policy, Spark, TablePolicy


@pytest.fixture
def policy(tmp_path) -> Policy:
    return Policy(
        path=str(tmp_path / "iceberg_maintenance.yaml"),
        catalog=Catalog(name="lake", conn_id="iceberg_default"),
        spark=Spark(),
        documents=str(tmp_path / "documents"),
        tables=(TablePolicy(name="shop.events"), TablePolicy(name="shop.users", schedule="@daily")),
    )

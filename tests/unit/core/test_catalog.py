from __future__ import annotations

import socket

import pytest

from airflow_iceberg_compaction.catalog import CatalogConfig, CatalogError, CatalogUnreachableError, TableNotFoundError
from airflow_iceberg_compaction.policy.model import Catalog


def spark_catalog(config: CatalogConfig) -> dict[str, str]:
    prefix = f"spark.sql.catalog.{config.name}."
    return {k.removeprefix(prefix): v for k, v in config.spark_properties().items() if k.startswith(prefix)}


def test_one_sqlite_file_serves_both_clients() -> None:
    config = CatalogConfig("lake", {"type": "sql", "uri": "sqlite:////data/c.db", "warehouse": "file:///data/wh"})
    assert spark_catalog(config) == {
        "type": "jdbc",
        "cache-enabled": "false",
        "uri": "jdbc:sqlite:/data/c.db?journal_mode=WAL&busy_timeout=10000",
        "jdbc.schema-version": "V1",
        "warehouse": "file:///data/wh",
    }
    assert any(p.startswith("org.xerial:sqlite-jdbc") for p in config.packages())


def test_a_postgres_password_leaves_the_address_and_counts_as_secret() -> None:
    config = CatalogConfig("lake", {"uri": "postgresql+psycopg2://joe:p%40ss@db:5433/ice", "warehouse": "s3://b/wh"})
    found = spark_catalog(config)
    assert found["uri"] == "jdbc:postgresql://db:5433/ice"
    assert (found["jdbc.user"], found["jdbc.password"]) == ("joe", "p@ss")
    assert found["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert {"p@ss", "p%40ss"} <= config.secrets()
    assert "p@ss" not in repr(config)


def test_an_encrypted_connection_stays_encrypted_in_spark() -> None:
    config = CatalogConfig("lake", {"uri": "postgresql://db/ice?sslmode=verify-full", "warehouse": "file:///wh"})
    assert spark_catalog(config)["uri"] == "jdbc:postgresql://db/ice?sslmode=verify-full"
    with pytest.raises(CatalogError, match="options password of the SQL catalog's address"):
        CatalogConfig("lake", {"uri": "postgresql://db/ice?password=x1y2z3", "warehouse": "x"}).spark_properties()


def test_a_password_is_found_wherever_an_address_or_a_header_holds_it() -> None:
    properties = {
        "uri": "http://rest?token=in-query",
        "s3.proxy-uri": "http://me:in-proxy@proxy",
        "header.Cookie": "in-header",
    }
    assert {"in-query", "in-proxy", "in-header"} <= CatalogConfig("lake", properties).secrets()


def test_s3_settings_take_the_names_java_knows() -> None:
    properties = {
        "uri": "http://rest",
        "warehouse": "s3://b",
        "s3.region": "eu-west-1",
        "s3.secret-access-key": "hush!",
    }
    config = CatalogConfig("lake", properties)
    found = spark_catalog(config)
    assert found["type"] == "rest"
    assert found["client.region"] == "eu-west-1"
    assert found["s3.secret-access-key"] == "hush!"
    assert "iceberg-aws-bundle" in config.packages()[-1]


def test_the_secret_half_of_an_oauth_credential_is_redacted_alone() -> None:
    config = CatalogConfig("lake", {"uri": "http://rest", "credential": "client:s3cr3t"})
    assert config.redact("POST secret=s3cr3t") == "POST secret=***"


@pytest.mark.parametrize(
    "key",
    ["py-catalog-impl", "py-io-impl", "io-impl", "s3.client-factory-impl", "client.credentials-provider", "unheard-of"],
)
def test_a_property_that_could_run_code_is_refused(key: str) -> None:
    with pytest.raises(CatalogError, match=key):
        CatalogConfig("lake", {"uri": "http://rest", key: "evil.Class"})


def test_a_name_that_spark_would_misread_is_refused() -> None:
    with pytest.raises(CatalogError, match="cannot name a Spark catalog"):
        CatalogConfig("my.lake", {})


def test_a_connection_needs_airflow() -> None:
    with pytest.raises(CatalogError, match="only Airflow can read"):
        CatalogConfig.from_policy(Catalog(name="lake", conn_id="iceberg_default"))


def test_an_unconfigured_catalog_says_where_to_configure_it(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError, match="PYICEBERG_CATALOG__NOWHERE__URI"):
        CatalogConfig.from_policy(Catalog(name="nowhere"))


def test_pyicebergs_own_configuration_is_used_when_the_policy_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__ENVCAT__URI", "sqlite:////tmp/x.db")
    assert CatalogConfig.from_policy(Catalog(name="envcat")).properties["uri"] == "sqlite:////tmp/x.db"


def test_a_catalog_that_does_not_answer_is_unreachable_and_keeps_its_secret() -> None:
    config = CatalogConfig("lake", {"uri": "http://127.0.0.1:9/", "credential": "me:hush-hush"})
    with pytest.raises(CatalogUnreachableError, match="does not answer") as caught:
        config.load_table("shop.events")
    assert "hush-hush" not in str(caught.value)


def test_a_server_that_accepts_and_says_nothing_does_not_hold_us_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    import requests

    original = requests.get
    monkeypatch.setattr(requests, "get", lambda url, timeout: original(url, timeout=min(timeout) / 100))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = CatalogConfig("lake", {"uri": f"http://127.0.0.1:{silent.getsockname()[1]}"})
        with pytest.raises(CatalogUnreachableError, match="Read timed out"):
            config.load()


def test_a_missing_table_is_not_a_dead_catalog(lake: CatalogConfig, namespace: str) -> None:
    with pytest.raises(TableNotFoundError, match="does not exist in catalog 'lake'"):
        lake.load_table(f"{namespace}.nothing")

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection

from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError
from airflow_iceberg_compaction.hooks.iceberg_maintenance import (
    IcebergMaintenanceHook,
    catalog_config_from_connection,
    resolve_catalog,
)
from airflow_iceberg_compaction.policy.model import Catalog


def a_connection(**values):
    return Connection(conn_id="iceberg_default", conn_type="iceberg", **values)


def test_login_and_password_become_the_oauth_credential_of_a_rest_catalog():
    config = catalog_config_from_connection(
        "lake", a_connection(host="https://catalog/", login="client", password="s3cret", extra='{"warehouse": "w"}')
    )
    assert config.properties == {
        "type": "rest",
        "uri": "https://catalog",
        "credential": "client:s3cret",
        "warehouse": "w",
    }
    assert "s3cret" in config.secrets()


def test_login_and_password_become_part_of_the_address_of_a_sql_catalog():
    config = catalog_config_from_connection(
        "lake",
        a_connection(
            host="postgresql+psycopg2://db:5432/iceberg", login="me", password="p@ss/word", extra='{"type": "sql"}'
        ),
    )
    assert config.properties["uri"] == "postgresql+psycopg2://me:p%40ss%2Fword@db:5432/iceberg"
    assert {"p@ss/word", "p%40ss%2Fword"} <= config.secrets()


@pytest.mark.parametrize("key", ["py-catalog-impl", "py-io-impl", "auth", "io-impl", "anything"])
def test_an_extra_that_is_not_on_the_allow_list_is_refused_by_name(key):
    with pytest.raises(MaintenanceConfigurationError, match=key):
        catalog_config_from_connection("lake", a_connection(host="http://c", extra=json.dumps({key: "os.system"})))


def test_secrets_never_show_in_the_message_of_a_failed_connection_test(monkeypatch):
    monkeypatch.setenv(
        "AIRFLOW_CONN_DEAD",
        json.dumps(
            {
                "conn_type": "iceberg",
                "host": "postgresql+psycopg2://127.0.0.1:9/x",
                "login": "me",
                "password": "hunter2hunter2",
                "extra": {"type": "sql"},
            }
        ),
    )
    answers, message = IcebergMaintenanceHook("dead").test_connection()
    assert not answers
    assert "hunter2hunter2" not in message


def test_a_catalog_that_answers_passes_the_connection_test(monkeypatch, lake):
    monkeypatch.setenv(
        "AIRFLOW_CONN_LIVE", json.dumps({"conn_type": "iceberg", "extra": json.dumps(dict(lake.properties))})
    )
    answers, message = IcebergMaintenanceHook("live", catalog_name="lake").test_connection()
    assert answers, message


def test_a_policy_without_any_catalog_settings_fails_without_retries(policy, monkeypatch):
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__URI", raising=False)
    with pytest.raises(MaintenanceConfigurationError, match="not configured"):
        resolve_catalog(policy.model_copy(update={"catalog": Catalog(name="nowhere")}))

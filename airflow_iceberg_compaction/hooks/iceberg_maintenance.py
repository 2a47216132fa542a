"""From an Airflow connection to a catalog that both PyIceberg and Spark understand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from airflow.providers.apache.iceberg.hooks.iceberg import IcebergHook
from airflow.sdk.log import mask_secret

from airflow_iceberg_compaction.catalog import CatalogConfig, CatalogError
from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.policy.model import Policy


class IcebergMaintenanceHook(IcebergHook):
    """
    A catalog for maintenance, from a connection of the existing type ``iceberg``.

    The same connection feeds PyIceberg and Spark. Its extras are untrusted: only properties known to be harmless pass,
    never one that names a class to load. Every secret is masked in the logs before anything can print it.

    :param iceberg_conn_id: The :ref:`Iceberg connection id<howto/connection:iceberg>`.
    :param catalog_name: Name of the catalog; SQL catalogs store it beside each table, so it must be the writers' name.
        Defaults to the connection id.
    """

    def __init__(
        self, iceberg_conn_id: str = IcebergHook.default_conn_name, *, catalog_name: str | None = None
    ) -> None:
        super().__init__(iceberg_conn_id)
        self.catalog_name = catalog_name or iceberg_conn_id

    @cached_property
    def config(self) -> CatalogConfig:
        """The catalog's definition, checked against the allow-list, with its secrets masked."""
        return catalog_config_from_connection(self.catalog_name, self.get_connection(self.conn_id))

    @cached_property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog."""
        return self.config.load()

    def load_table(self, table_name: str) -> Table:
        """Load ``namespace.name``; a dead catalog and a missing table raise different errors."""
        return self.config.load_table(table_name, self.catalog)

    def test_connection(self) -> tuple[bool, str]:
        """Whether the catalog answers, without any secret in the message."""
        try:
            namespaces = self.catalog.list_namespaces()
        except (CatalogError, MaintenanceConfigurationError) as error:
            return False, str(error)
        except Exception as error:
            return False, self.config.redact(str(error))
        return True, f"Connected to catalog {self.catalog_name!r}. Found {len(namespaces)} namespace(s)."


def resolve_catalog(policy: Policy) -> CatalogConfig:
    """The catalog of a policy inside Airflow: its connection, its properties, or PyIceberg's own configuration.

    Every secret of the result has been handed to Airflow's log masker.
    """
    if policy.catalog.conn_id:
        return IcebergMaintenanceHook(policy.catalog.conn_id, catalog_name=policy.catalog.name).config
    try:
        return _masked(CatalogConfig.from_policy(policy.catalog))
    except CatalogError as error:
        raise MaintenanceConfigurationError(str(error)) from error


def catalog_config_from_connection(name: str, connection: Connection) -> CatalogConfig:
    """Translate a connection of type ``iceberg``; fields win over extras, as in the community hook."""
    extra: dict[str, Any] = connection.extra_dejson or {}
    properties = {key: _as_text(value) for key, value in extra.items() if value not in (None, "")}
    if connection.host:
        properties["uri"] = connection.host.rstrip("/")
    properties.setdefault("type", "rest")
    if connection.password:
        mask_secret(connection.password)
    if connection.login and connection.password:
        if properties["type"] == "rest":
            properties["credential"] = f"{connection.login}:{connection.password}"
        elif properties["type"] == "sql":
            properties["uri"] = _with_login(properties.get("uri", ""), connection.login, connection.password)
    try:
        return _masked(CatalogConfig(name, properties))
    except CatalogError as error:
        raise MaintenanceConfigurationError(f"connection {connection.conn_id!r}: {error}") from error


def _masked(config: CatalogConfig) -> CatalogConfig:
    for secret in config.secrets():
        mask_secret(secret)
    return config


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _with_login(uri: str, login: str, password: str) -> str:
    parts = urlsplit(uri)
    if not parts.hostname or parts.username:
        return uri
    return urlunsplit(parts._replace(netloc=f"{quote(login, safe='')}:{quote(password, safe='')}@{parts.netloc}"))

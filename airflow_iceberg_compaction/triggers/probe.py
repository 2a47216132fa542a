"""A look at the head of one table that is cheap, keeps off the event loop and reuses one catalog client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.catalog import CatalogConfig
    from airflow_iceberg_compaction.policy.model import Policy


class TableProbe:
    """
    Loads a table's metadata again and again for a trigger.

    :param table: ``namespace.name``.
    :param catalog_name: Name of the catalog.
    :param iceberg_conn_id: Connection of type ``iceberg``; None where ``properties`` or PyIceberg's own configuration
        define the catalog.
    :param properties: PyIceberg properties without secrets: they are stored with the trigger.
    """

    def __init__(
        self, *, table: str, catalog_name: str, iceberg_conn_id: str | None, properties: dict[str, str] | None
    ) -> None:
        self.table = table
        self.catalog_name = catalog_name
        self.iceberg_conn_id = iceberg_conn_id
        self.properties = properties
        self._config: CatalogConfig | None = None
        self._catalog: Catalog | None = None

    async def load(self) -> Table | None:
        """The table now; None while it does not exist. Raises when the catalog does not answer."""
        connection = None
        if self._config is None and self.iceberg_conn_id:
            # A synchronous lookup on the event loop can deadlock the triggerer.
            connection = await BaseHook.aget_connection(self.iceberg_conn_id)
        return await asyncio.to_thread(self._load, connection)

    def _load(self, connection: Any) -> Table | None:
        from airflow_iceberg_compaction.catalog import TableNotFoundError

        if self._config is None:
            self._config = self._resolve(connection)
        try:
            if self._catalog is None:
                self._catalog = self._config.load()
            return self._config.load_table(self.table, self._catalog)
        except TableNotFoundError:
            return None
        except Exception:
            self._config = self._catalog = None  # a rotated credential needs a new client
            raise

    def _resolve(self, connection: Any) -> CatalogConfig:
        from airflow_iceberg_compaction.catalog import CatalogConfig
        from airflow_iceberg_compaction.hooks.iceberg_maintenance import catalog_config_from_connection, resolve_catalog
        from airflow_iceberg_compaction.policy.model import Catalog, Policy

        if connection is not None:
            return catalog_config_from_connection(self.catalog_name, connection)
        if self.properties:
            return CatalogConfig(self.catalog_name, self.properties)
        return resolve_catalog(Policy(path="", catalog=Catalog(name=self.catalog_name)))


def probe_arguments(policy: Policy, table: str) -> dict[str, Any] | None:
    """Arguments of a TableProbe that may be stored in Airflow's database; None when only a worker may know them."""
    from airflow_iceberg_compaction.catalog import CatalogConfig

    catalog = policy.catalog
    if catalog.properties and CatalogConfig(catalog.name, catalog.properties).secrets():
        return None
    return {
        "table": table,
        "catalog_name": catalog.name,
        "iceberg_conn_id": catalog.conn_id,
        "properties": dict(catalog.properties) or None,
    }

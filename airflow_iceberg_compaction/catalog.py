"""One definition of a catalog, two readers: PyIceberg properties and ``spark.sql.catalog.*`` properties."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_iceberg_compaction.policy.catalog_properties import (
    ALLOWED_KEYS,
    ALLOWED_PREFIXES,
    SECRET_KEY_REGEX,
    is_allowed,
    is_hidden,
    passwords_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_iceberg_compaction.policy.model import Catalog as CatalogPolicy

# Spark's minor version -> the Scala it is built with, and the newest Iceberg that was published for it.
_RUNTIMES = {"3.5": ("2.12", "1.12.0"), "4.0": ("2.13", "1.11.0"), "4.1": ("2.13", "1.12.0")}
SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_SPARK_TYPES = {"sql": "jdbc", "rest": "rest", "hive": "hive", "glue": "glue"}
_RENAMED_FOR_SPARK = {"s3.region": "client.region", "glue.region": "client.region"}
_SQL_CLIENT_ONLY = {"init_catalog_tables", "pool_pre_ping", "schema_version"}
_JDBC_DRIVERS = {
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "postgresql": "org.postgresql:postgresql:42.7.14",
    "mysql": "com.mysql:mysql-connector-j:9.4.0",
}
_JDBC_OPTIONS = frozenset({"sslmode", "sslrootcert"})  # spelled and meant alike by libpq and its Java counterpart
_FILE_IO = {
    "s3": ("org.apache.iceberg.aws.s3.S3FileIO", "iceberg-aws-bundle"),
    "gs": ("org.apache.iceberg.gcp.gcs.GCSFileIO", "iceberg-gcp-bundle"),
    "abfs": ("org.apache.iceberg.azure.adlsv2.ADLSFileIO", "iceberg-azure-bundle"),
}
_IO_OF_SCHEME = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs",
}  # fmt: skip


class CatalogError(ValueError):
    """The catalog is defined in a way that cannot work; the message says what to change."""


class CatalogUnreachableError(RuntimeError):
    """The catalog is well defined but does not answer."""


class TableNotFoundError(LookupError):
    """The catalog answers, the table is not there."""


@dataclass(frozen=True)
class CatalogConfig:
    """A named catalog as PyIceberg properties. The name must be the same for both clients: SQL catalogs key rows by it.

    :param name: catalog name.
    :param properties: PyIceberg properties; may hold secrets, so it is kept out of ``repr``.
    """

    name: str
    properties: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise CatalogError(f"catalog name {self.name!r} cannot name a Spark catalog; use letters, digits and _")
        check_properties(self.properties)

    @classmethod
    def from_policy(cls, catalog: CatalogPolicy) -> CatalogConfig:
        """The catalog of a policy, for which no Airflow connection is needed."""
        if catalog.conn_id:
            raise CatalogError(
                f"catalog {catalog.name!r} takes its settings from the Airflow connection {catalog.conn_id!r}, which "
                "only Airflow can read; outside Airflow give `catalog.properties`, or leave both out and use "
                "PyIceberg's own configuration"
            )
        if catalog.properties:
            return cls(catalog.name, dict(catalog.properties))
        from pyiceberg.utils.config import Config

        configured = Config().get_catalog_config(catalog.name)
        if not configured:
            raise CatalogError(
                f"catalog {catalog.name!r} is not configured; add `catalog.properties` to the policy, or define it in "
                f".pyiceberg.yaml or PYICEBERG_CATALOG__{catalog.name.upper()}__URI"
            )
        return cls(catalog.name, {key: str(value) for key, value in configured.items()})

    @property
    def kind(self) -> str:
        """PyIceberg's catalog type, inferred from the address where it is not given."""
        if kind := self.properties.get("type"):
            return kind
        uri = self.properties.get("uri", "")
        return "rest" if uri.startswith("http") else "hive" if uri.startswith("thrift") else "sql" if uri else "glue"

    def load(self) -> Catalog:
        """Connect with PyIceberg."""
        from pyiceberg.catalog import load_catalog

        try:
            if self.kind == "rest":
                _check_answers(self.properties.get("uri", ""))
            return load_catalog(self.name, **{**self.properties, "type": self.kind})
        except Exception as error:
            raise self.unreachable(error) from error

    def load_table(self, table: str, catalog: Catalog | None = None) -> Table:
        """Load ``namespace.name``; a dead catalog and a missing table are different errors."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        if "." not in table:
            raise TableNotFoundError(f"{table!r} is not a table name; write namespace.name")
        try:
            return (catalog or self.load()).load_table(table)
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableNotFoundError(
                f"table {table!r} does not exist in catalog {self.name!r}; check its name and the catalog's warehouse"
            ) from error
        except CatalogUnreachableError:
            raise
        except Exception as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> CatalogUnreachableError:
        """What to raise when the catalog failed to answer; without its secrets."""
        first_line = next(iter(str(error).splitlines()), "")
        return CatalogUnreachableError(
            self.redact(
                f"catalog {self.name!r} ({self.kind}) does not answer: {type(error).__name__}: {first_line}; "
                "check its `uri`, credentials and network"
            )
        )

    def spark_properties(self) -> dict[str, str]:
        """What Spark needs to see the same catalog. Holds the secrets: for a properties file, never for argv."""
        if self.kind not in _SPARK_TYPES:
            raise CatalogError(
                f"catalog type {self.kind!r} has no Spark counterpart; use one of {', '.join(_SPARK_TYPES)}"
            )
        translated = {"type": _SPARK_TYPES[self.kind], "cache-enabled": "false"}
        for key, value in self.properties.items():
            if key not in _SQL_CLIENT_ONLY and key != "type":
                translated[_RENAMED_FOR_SPARK.get(key, key)] = value
        if self.kind == "sql":
            translated.update(_jdbc_properties(self.properties.get("uri", "")))
        if storage := self._storage():
            translated["io-impl"] = _FILE_IO[storage][0]
        prefix = f"spark.sql.catalog.{self.name}"
        return {
            "spark.sql.extensions": SPARK_EXTENSIONS,
            # Spark's own default knows neither OAuth credentials nor the password inside a JDBC address.
            "spark.redaction.regex": SECRET_KEY_REGEX,
            prefix: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{prefix}.{key}": value for key, value in translated.items()},
        }

    def packages(self, spark_minor: str = "4.1") -> tuple[str, ...]:
        """Maven coordinates for ``spark.jars.packages``: the Iceberg runtime and what catalog and storage need."""
        scala, iceberg = _RUNTIMES[spark_minor]
        found = [f"org.apache.iceberg:iceberg-spark-runtime-{spark_minor}_{scala}:{iceberg}"]
        if self.kind == "sql" and (driver := _JDBC_DRIVERS.get(_dialect(self.properties.get("uri", "")))):
            found.append(driver)
        if storage := self._storage() or ("s3" if self.kind == "glue" else None):
            found.append(f"org.apache.iceberg:{_FILE_IO[storage][1]}:{iceberg}")
        return tuple(found)

    def secrets(self) -> frozenset[str]:
        """Every value that must not be seen in a log, an argument list, a document or a page."""
        found = {value for key, value in self.properties.items() if value and is_hidden(key)}
        for value in self.properties.values():
            found |= passwords_in(value)
        # OAuth writes client id and client secret as one value; the part after the colon is the secret.
        found |= {value.partition(":")[2] for value in found if ":" in value}
        return frozenset(secret for secret in found if len(secret) > 2)

    def redact(self, text: str) -> str:
        """``text`` without any of the secrets."""
        for secret in sorted(self.secrets(), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _storage(self) -> str | None:
        scheme = urlsplit(self.properties.get("warehouse", "")).scheme
        if storage := _IO_OF_SCHEME.get(scheme):
            return storage
        prefixes = {"s3.": "s3", "gcs.": "gs", "adls.": "abfs"}
        return next((io for prefix, io in prefixes.items() if any(k.startswith(prefix) for k in self.properties)), None)


def _check_answers(uri: str) -> None:
    """PyIceberg's REST client waits for ever on a server that accepts a connection and then says nothing."""
    import requests

    with contextlib.suppress(requests.exceptions.SSLError):  # the client has settings for those, and a better message
        requests.get(f"{uri.rstrip('/')}/v1/config", timeout=(10, 30))


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse every property that is not known to be harmless: they come from connection editors and YAML files."""
    refused = [key for key in properties if not is_allowed(key)]
    if refused:
        raise CatalogError(
            f"catalog properties {', '.join(sorted(refused))} are not allowed; allowed are "
            f"{', '.join(sorted(ALLOWED_KEYS))} and keys that begin with {', '.join(ALLOWED_PREFIXES)} "
            "(never one that names a class to load)"
        )


def _dialect(uri: str) -> str:
    dialect = urlsplit(uri).scheme.partition("+")[0]
    return "postgresql" if dialect == "postgres" else dialect


def _jdbc_properties(uri: str) -> dict[str, str]:
    """A SQLAlchemy address as Java's JdbcCatalog wants it: credentials apart from the address."""
    dialect = _dialect(uri)
    if dialect == "sqlite":
        path = uri.partition(":///")[2].partition("?")[0]
        address = f"jdbc:sqlite:{path}?journal_mode=WAL&busy_timeout=10000"
        return {"uri": address, "jdbc.schema-version": "V1"}
    if dialect not in _JDBC_DRIVERS:
        raise CatalogError(
            f"SQL catalog address {dialect or uri!r} is not supported; use one of {', '.join(_JDBC_DRIVERS)}"
        )
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    unknown = parse_qs(parts.query).keys() - _JDBC_OPTIONS
    if unknown:  # dropping one would give Spark another connection than PyIceberg has, perhaps one without TLS
        raise CatalogError(
            f"options {', '.join(sorted(unknown))} of the SQL catalog's address are not known to mean the same to "
            f"Java; allowed are {', '.join(sorted(_JDBC_OPTIONS))}"
        )
    query = f"?{parts.query}" if parts.query else ""
    found = {"uri": f"jdbc:{dialect}://{host}{port}{parts.path}{query}", "jdbc.schema-version": "V1"}
    if parts.username:
        found["jdbc.user"] = unquote(parts.username)
    if parts.password:
        found["jdbc.password"] = unquote(parts.password)
    return found

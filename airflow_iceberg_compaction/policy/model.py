"""The policy file as Pydantic models. Values are typed once here: sizes are bytes, durations are timedeltas."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from airflow_iceberg_compaction.policy.units import parse_duration, parse_ratio, parse_size

Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Ratio = Annotated[float, BeforeValidator(parse_ratio)]

MB = 1000 * 1000


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Thresholds(Strict):
    """When a partition counts as sick."""

    small_file_size: Size = 64 * MB
    min_small_files: int = 20
    delete_files: int = 10
    delete_ratio: Ratio = 0.1


class Rewrite(Strict):
    enabled: bool = True
    strategy: Literal["binpack", "sort", "zorder"] = "binpack"
    sort_order: tuple[str, ...] = ()
    target_file_size: Size | None = None  # None: the table's write.target-file-size-bytes
    min_input_files: int = 5
    max_files: int | None = 10_000
    max_bytes: Size | None = 500 * 1000 * MB
    max_cost: float | None = None
    max_partitions: int | None = None
    min_quiet: Duration = timedelta(hours=1)
    full_every: Duration | None = None
    partitions: Duration | None = None  # only partitions whose time lies within this window before now
    old_specs: bool = False  # rewrite files of former partition specs too


class DeleteFiles(Strict):
    enabled: bool = True
    min_position_delete_files: int = 10


class Manifests(Strict):
    enabled: bool = True
    min_manifests: int = 20
    max_ratio: float = 2.0  # rewrite when there are more than this times the ideal count


class ExpireSnapshots(Strict):
    enabled: bool = True
    older_than: Duration = timedelta(days=7)
    retain_last: int = 5


class OrphanFiles(Strict):
    mode: Literal["report", "delete", "off"] = "report"
    older_than: Duration = timedelta(days=7)
    every: Duration = timedelta(days=7)
    max_deletes: int = 100_000
    max_share: Ratio = 0.1


class SlackReport(Strict):
    conn_id: str = "slack_default"
    channel: str
    when: Literal["always", "worked", "failed"] = "worked"


class ReportTo(Strict):
    slack: SlackReport | None = None


class TableSettings(Strict):
    """Everything that `defaults`, a profile or a table may set."""

    schedule: Any = None
    enabled: bool = True
    thresholds: Thresholds = Thresholds()
    rewrite: Rewrite = Rewrite()
    delete_files: DeleteFiles = DeleteFiles()
    manifests: Manifests = Manifests()
    expire_snapshots: ExpireSnapshots = ExpireSnapshots()
    orphan_files: OrphanFiles = OrphanFiles()
    probe: str | None = None
    audit: Literal["metadata", "checksum"] = "metadata"
    write_properties: dict[str, str] = {}
    report: ReportTo = ReportTo()
    owner: str = "airflow"
    tags: tuple[str, ...] = ()
    pool: str | None = None
    retries: int = 2
    execution_timeout: Duration | None = timedelta(hours=6)
    check_interval: int = 100  # recommend.py looks at every N-th commit


class TablePolicy(TableSettings):
    """One table with every value resolved: what `plan` and the Airflow shell read."""

    name: str  # namespace.name


class Catalog(Strict):
    name: str
    conn_id: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)


class Spark(Strict):
    conn_id: str = "spark_default"
    conf: dict[str, str] = Field(default_factory=dict)
    packages: tuple[str, ...] | None = None  # None: chosen from the catalog's type and storage
    deploy_mode: Literal["client", "cluster"] | None = None
    share_app: bool = False
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: int | None = None
    num_executors: int | None = None


class Prices(Strict):
    currency: str = "USD"
    per_1000_requests: float = 0.005
    per_compute_hour: float = 0.40
    per_gb_month: float = 0.023
    reads_per_day: float = 24.0  # how often a reader opens each file of a partition
    throughput: Size = 50 * MB  # bytes per second before anything was learned


class Policy(Strict):
    """A whole policy file, resolved."""

    path: str
    catalog: Catalog
    spark: Spark = Spark()
    documents: str | None = None  # None: under AIRFLOW_HOME, or ./.iceberg-compaction for the CLI
    history: str | None = "maintenance.history"
    prices: Prices = Prices()
    profile: str = "production"
    tables: tuple[TablePolicy, ...] = ()

    def table(self, name: str) -> TablePolicy:
        """The policy of ``namespace.name``, or KeyError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

"""The policy as Pydantic models. Values are typed once here: sizes are bytes, durations are timedeltas.

Field descriptions are the reference: the JSON Schema, docs/policy.md and an editor's hover text come from them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from airflow_iceberg_compaction.policy.cron import check_cron
from airflow_iceberg_compaction.policy.errors import Misfit
from airflow_iceberg_compaction.policy.fields import (
    CatalogName,
    CatalogProperties,
    Count,
    Cron,
    DottedPath,
    Duration,
    HistoryTable,
    MavenCoordinate,
    Memory,
    Money,
    PositiveDuration,
    Probe,
    Ratio,
    Size,
    SortField,
    SparkConf,
    TableName,
    Text,
    Timezone,
    WriteProperties,
)

MB = 1000 * 1000
ORPHAN_FLOOR = timedelta(hours=24)
ORPHAN_DELETE_FLOOR = timedelta(days=3)


class Strict(BaseModel):
    # Validators are built when they are first used, and defaults are made without one: a task that is about to start has no
    # time for those it does not need.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Thresholds(Strict):
    """When a partition counts as sick."""

    small_file_size: Size = Field(64 * MB, description="A data file below this size is small.")
    min_small_files: Count = Field(20, description="So many small files in a partition call for a rewrite.")
    delete_files: Count = Field(10, description="So many delete files in a partition call for a rewrite.")
    delete_ratio: Ratio = Field(
        0.1, description="A larger share of delete files per data file calls for a (major) rewrite."
    )


class Rewrite(Strict):
    """How sick partitions are rewritten, and how much of that one run may do."""

    enabled: bool = Field(True, description="Whether data files are rewritten at all.")
    strategy: Literal["binpack", "sort", "zorder"] = Field("binpack", description="How rows are arranged.")
    sort_order: tuple[SortField, ...] = Field(
        (),
        description="`column [asc|desc] [nulls first|last]` for sort, columns for zorder; "
        "empty: the table's own sort order.",
    )
    target_file_size: Size | None = Field(
        None, description="Size of new files; null: the table's own `write.target-file-size-bytes`."
    )
    min_input_files: Count = Field(5, description="Smallest group of files worth rewriting (Iceberg's own rule).")
    max_files: Count | None = Field(10_000, description="Most input files of one run; null: no limit.")
    max_bytes: Size | None = Field(500 * 1000 * MB, description="Most input bytes of one run; null: no limit.")
    max_cost: Money | None = Field(
        None, description="Most estimated cost of one run, in `prices.currency`; null: no limit."
    )
    max_partitions: Count | None = Field(None, description="Most partitions of one run; null: no limit.")
    min_quiet: Duration = Field(
        timedelta(hours=1), description="Partitions written to more recently than this are left alone."
    )
    full_every: PositiveDuration | None = Field(
        None, description="Rewrite a partition in full when its last compaction is older; null: never."
    )
    partitions: PositiveDuration | None = Field(
        None, description="Only partitions whose time lies within this window before now; null: all."
    )
    old_specs: bool = Field(False, description="Rewrite files of former partition specs too.")


class DeleteFiles(Strict):
    """Delete files that no data rewrite removes."""

    enabled: bool = Field(True, description="Whether position deletes are rewritten and dangling deletes removed.")
    min_position_delete_files: Count = Field(10, description="So many position delete files call for a rewrite.")


class Manifests(Strict):
    """Manifests: many small ones slow down every query's planning."""

    enabled: bool = Field(True, description="Whether manifests are rewritten.")
    min_manifests: Count = Field(20, description="Fewer manifests than this are left alone.")
    max_ratio: float = Field(
        2.0, ge=1, le=1000, allow_inf_nan=False, description="Rewrite above this multiple of the ideal number."
    )


class ExpireSnapshots(Strict):
    """Snapshots, and the files only they need."""

    enabled: bool = Field(True, description="Whether snapshots are expired.")
    older_than: PositiveDuration = Field(timedelta(days=7), description="Snapshots younger than this stay.")
    retain_last: Count = Field(5, description="So many snapshots of a branch stay, whatever their age.")


class OrphanFiles(Strict):
    """Files in the table's location that no snapshot refers to."""

    mode: Literal["report", "delete", "off"] = Field("report", description="Whether to list, delete or ignore them.")
    older_than: PositiveDuration = Field(
        timedelta(days=7), description="Only files older than this: at least 24h, at least 3d to delete."
    )
    every: PositiveDuration = Field(timedelta(days=7), description="How often the location is listed.")
    max_deletes: Count = Field(100_000, description="More orphans than this stop the deletion.")
    max_share: Ratio = Field(0.1, description="More orphans than this share of live files stop the deletion.")

    @model_validator(mode="after")
    def _leaves_running_writers_alone(self) -> OrphanFiles:
        # A writer's files are orphans until it commits: these floors are what keeps its data.
        if self.older_than < ORPHAN_FLOOR:
            raise Misfit([(("older_than",), "is below 24h, which would take files of running writers; write 7d")])
        if self.mode == "delete" and self.older_than < ORPHAN_DELETE_FLOOR:
            raise Misfit([(("older_than",), "is below 3d, too young to delete (mode: delete); write 3d or more")])
        return self


class SlackReport(Strict):
    conn_id: Text = Field("slack_default", description="Airflow connection of type slack.")
    channel: Text = Field(description='Channel, such as "#data-ops" (quoted: `#` begins a comment).')
    when: Literal["always", "worked", "failed"] = Field("worked", description="Which runs are worth a message.")


class ReportTo(Strict):
    slack: SlackReport | None = Field(None, description="Where to post; null: nowhere.")


class Schedule(Strict):
    """A schedule that is more than a cron expression in UTC."""

    cron: Cron | None = Field(None, description="Cron expression or preset.")
    timezone: Timezone = Field("UTC", description="Time zone of `cron`.")
    timetable: DottedPath | None = Field(None, description="Import path of a registered timetable class.")
    assets: tuple[Text, ...] = Field(
        (), description="Asset URIs: run after any of them changed; with `cron`, also then."
    )
    on_commit: bool = Field(False, description="Run when any engine has committed to the table.")

    @model_validator(mode="after")
    def _says_when(self) -> Schedule:
        others = [name for name in ("cron", "assets", "on_commit") if getattr(self, name)]
        if self.timetable and others:
            raise Misfit([(("timetable",), f"cannot be combined with {' and '.join(others)}; keep one of them")])
        if not self.timetable and not others:
            raise ValueError("says nothing; write cron, timetable, assets or on_commit, or null for manual runs")
        if self.assets and self.on_commit:
            raise Misfit([(("on_commit",), "cannot be combined with assets; keep one of them")])
        if self.timezone != "UTC" and not self.cron:
            raise Misfit([(("timezone",), "only goes with cron; remove it")])
        return self


def _schedule(value: Any, info: ValidationInfo) -> Any:
    """A plain expression stays text, so that Airflow's DAG takes it as it is; a mapping becomes a Schedule."""
    if isinstance(value, dict):
        return Schedule.model_validate(value, strict=info.context is not None, context=info.context)
    if isinstance(value, str):
        return None if value.lower() == "none" else check_cron(value)
    if value is None or isinstance(value, Schedule):
        return value
    raise ValueError(f"{value!r} is not a schedule; write a cron expression in quotes, a preset, a mapping, or null")


class TableSettings(Strict):
    """Everything that a profile, `defaults` or a table may set."""

    schedule: Annotated[str | Schedule | None, BeforeValidator(_schedule)] = Field(
        None, description="Cron expression or preset (UTC), a mapping (see below), or null: only manual runs."
    )
    enabled: bool = Field(True, description="false: no Dag, and commands leave the table out unless it is named.")
    thresholds: Thresholds = Thresholds.model_construct()
    rewrite: Rewrite = Rewrite.model_construct()
    delete_files: DeleteFiles = DeleteFiles.model_construct()
    manifests: Manifests = Manifests.model_construct()
    expire_snapshots: ExpireSnapshots = ExpireSnapshots.model_construct()
    orphan_files: OrphanFiles = OrphanFiles.model_construct()
    probe: Probe | None = Field(
        None, description="A SELECT run before and after: rows must be equal, times give the speed-up."
    )
    audit: Literal["metadata", "checksum"] = Field(
        "metadata", description="checksum also hashes all rows of inputs and outputs."
    )
    write_properties: WriteProperties = Field(
        {}, description="Table properties to keep set, so that writers make fewer small files."
    )
    report: ReportTo = ReportTo.model_construct()
    owner: Text = Field("airflow", description="Owner of the Dag.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field((), description="Tags of the Dag.")
    pool: Text | None = Field(None, description="Airflow pool of the Spark tasks; null: the default pool.")
    retries: int = Field(2, ge=0, le=100, description="Retries of each task.")
    execution_timeout: PositiveDuration | None = Field(
        timedelta(hours=6), description="Longest time of one task; null: no limit."
    )
    check_interval: Count = Field(100, description="Writers that ask for a recommendation look at every N-th commit.")


class TablePolicy(TableSettings):
    """One table with every value resolved: what `plan` and the Airflow shell read."""

    name: TableName = Field(description="namespace.name")


class TableEntry(TableSettings):
    """One item of `tables` in the file."""

    name: str = Field(description="namespace.name, or a pattern such as `shop.*`.")
    exclude: tuple[str, ...] = Field((), description="Patterns of names that a pattern leaves out.")


class Profile(TableSettings):
    """A named set of settings below `defaults`."""

    extends: Literal["development", "staging", "production"] = Field(
        "production", description="The built-in profile it changes."
    )


class Catalog(Strict):
    """One Iceberg catalog, seen by PyIceberg and by Spark under the same name."""

    name: CatalogName = Field(description="Name of the catalog in PyIceberg and Spark.")
    conn_id: Text | None = Field(None, description="Airflow connection of type iceberg; excludes `properties`.")
    properties: CatalogProperties = Field(
        {}, description="PyIceberg properties. Values may hold `${NAME}`; secrets must."
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Catalog:
        if self.conn_id and self.properties:
            raise Misfit([(("properties",), "excludes conn_id; keep one of them")])
        return self


class Spark(Strict):
    """How Spark jobs are submitted."""

    conn_id: Text = Field("spark_default", description="Airflow connection of type spark.")
    conf: SparkConf = Field({}, description="Spark settings; no secrets.")
    packages: tuple[MavenCoordinate, ...] | None = Field(
        None, description="Maven coordinates; null: chosen from the catalog's type and storage."
    )
    deploy_mode: Literal["client", "cluster"] | None = Field(None, description="null: the connection's.")
    share_app: bool = Field(False, description="Run all sections of a run in one Spark application.")
    driver_memory: Memory | None = Field(None, description="Such as 2g.")
    executor_memory: Memory | None = Field(None, description="Such as 4g.")
    executor_cores: Count | None = Field(None, description="Cores of one executor.")
    num_executors: Count | None = Field(None, description="Number of executors.")


class Prices(Strict):
    """What the cost estimate multiplies with."""

    currency: Text = Field("USD", description="Only printed, never converted.")
    per_1000_requests: Money = Field(0.005, description="Of the object store.")
    per_compute_hour: Money = Field(0.40, description="Of the Spark cluster this job gets.")
    per_gb_month: Money = Field(0.023, description="Of storage.")
    reads_per_day: Money = Field(24.0, description="How often a reader opens each file of a partition.")
    throughput: Size = Field(50 * MB, description="Bytes per second before anything was learned from past runs.")


class PolicyHeader(Strict):
    """What is said once per file."""

    catalog: Catalog
    spark: Spark = Spark.model_construct()
    documents: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(
        None,
        description="Folder URI of plans and results; may hold `${NAME}`. null: under AIRFLOW_HOME, or "
        "./.iceberg-compaction for the command line.",
    )
    history: HistoryTable = Field(
        "maintenance.history",
        description="Iceberg table of past runs; off: none, and orphan files are looked for in every run.",
    )
    prices: Prices = Prices.model_construct()
    profile: str = Field(
        "production", description="development, staging, production or one of `profiles`; may hold `${NAME}`."
    )


class PolicyFile(PolicyHeader):
    """The file as people write it; the loader turns it into a Policy."""

    version: Literal[1] = Field(description="Version of this format.")
    profiles: dict[str, Profile] = Field({}, description="Profiles of your own.")
    defaults: TableSettings = Field(TableSettings.model_construct(), description="Settings of every table.")
    tables: tuple[TableEntry, ...] = Field(description="The tables, by name or pattern.")


class Policy(PolicyHeader):
    """A whole policy file, resolved."""

    path: str
    tables: tuple[TablePolicy, ...] = ()

    # Where each value was set; `origins.py` reads it. Not a field: it is no part of what the policy says.
    _origins: Any = PrivateAttr(default=None)

    def table(self, name: str) -> TablePolicy:
        """The policy of ``namespace.name``, or KeyError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(f"{name!r} is not in {self.path}; it has {', '.join(table.name for table in self.tables)}")

"""The documents that cross a process border: frozen dataclasses, plain JSON, nothing but the standard library.

Spark imports this module on a cluster where nothing else of the package is installed. Field names are a public
interface; a change that an old reader would misunderstand raises ``VERSION``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, Self

VERSION = 1

Section = Literal["rewrite", "delete_files", "manifests", "expire", "orphans"]
SECTIONS: tuple[Section, ...] = ("rewrite", "delete_files", "manifests", "expire", "orphans")

PlanOutcome = Literal["work", "healthy", "cannot_judge", "empty"]
Decision = Literal["rewrite", "skip", "defer", "refuse"]
OptimizationType = Literal["minor", "major", "full", "none"]
Outcome = Literal["succeeded", "nothing_to_do", "refused", "conflicted", "failed"]
LawVerdict = Literal["held", "violated", "not_checked"]
CertificateVerdict = Literal["proven", "partial", "violated"]


class DocumentError(ValueError):
    """A document is truncated, of another kind, or of a version this release cannot read."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """Base of every document: ``from_json(to_json(x)) == x``."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, value: object) -> Self:
        return typing.cast("Self", _decode(cls, value, cls.__name__))

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise DocumentError(f"{cls.__name__} is not valid JSON ({error}); was its writer killed?") from error
        if isinstance(value, dict) and value.get("version", VERSION) != VERSION:
            raise DocumentError(
                f"{cls.__name__} has version {value['version']!r}, this release reads {VERSION}; use the same release "
                "of airflow-iceberg-compaction on both sides"
            )
        return cls.from_dict(value)


# --------------------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, kw_only=True)
class PartitionPlan(Document):
    """One decision: what happens to one partition of one spec, why, and the numbers behind it."""

    spec_id: int
    partition: dict[str, Any]  # field name -> JSON value as people write it ("2024-01-31", 7, null, "NaN")
    decision: Decision
    reason: str  # a typed word: small_files, delete_files, healthy, too_hot, budget_bytes, cannot_judge ...
    detail: str = ""  # one sentence with the numbers, for people
    type: OptimizationType = "none"
    score: float = 0.0
    data_files: int = 0
    data_bytes: int = 0
    small_files: int = 0
    delete_files: int = 0
    input_files: int = 0
    input_bytes: int = 0
    output_files: int = 0
    input_delete_files: int = 0
    cost: float = 0.0
    batch_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Batch(Document):
    """A few partitions that are rewritten and published in one commit."""

    batch_id: str
    filter: dict[str, Any]  # Iceberg's expression JSON (ExpressionParser), never SQL
    options: dict[str, str]  # options of Iceberg's planner and runner
    partitions: int
    input_files: int
    input_bytes: int
    output_files: int
    groups: int


@dataclass(frozen=True, kw_only=True)
class RewriteSection(Document):
    strategy: Literal["binpack", "sort", "zorder"] = "binpack"
    sort_order: tuple[str, ...] = ()  # "column [asc|desc] [nulls first|last]"; for zorder the column names
    input_files: int = 0
    input_bytes: int = 0
    output_files: int = 0
    input_delete_files: int = 0
    audit: Literal["metadata", "checksum"] = "metadata"
    probe: str | None = None
    partitions: tuple[PartitionPlan, ...] = ()
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DeleteFilesSection(Document):
    """What to do about delete files that no data rewrite will remove."""

    reason: str = ""
    dangling_delete_files: int = 0
    position_delete_files: int = 0
    remove_dangling: bool = False
    rewrite_position_deletes: bool = False
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ManifestsSection(Document):
    reason: str = ""
    manifests: int = 0
    ideal_manifests: int = 0
    rewrite: bool = False
    spec_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExpireSection(Document):
    reason: str = ""
    older_than_ms: int = 0
    retain_last: int = 1
    snapshots: tuple[int, ...] = ()  # the ids that metadata says will go


@dataclass(frozen=True, kw_only=True)
class OrphansSection(Document):
    reason: str = ""
    due: bool = False
    mode: Literal["report", "delete", "off"] = "report"
    older_than_ms: int = 0
    max_deletes: int = 0
    max_share: float = 0.1  # of live files; more orphans than that stop the deletion
    other_locations: tuple[str, ...] = ()  # locations of other tables, which must not overlap


@dataclass(frozen=True, kw_only=True)
class Cost(Document):
    currency: str = "USD"
    total: float = 0.0
    requests: int = 0
    requests_cost: float = 0.0
    compute_seconds: float = 0.0
    compute_cost: float = 0.0
    storage_cost: float = 0.0
    savings_per_day: float = 0.0
    throughput_bytes_per_second: float = 0.0
    throughput_source: str = "default"
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan(Document):
    """Everything one run will do to one table, decided from metadata before Spark starts."""

    version: int = VERSION
    run_id: str
    catalog: str
    table: str  # namespace.name
    table_uuid: str
    snapshot_id: int | None
    created_at_ms: int
    outcome: PlanOutcome
    reason: str = ""
    dry_run: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    before: TableNumbers
    rewrite: RewriteSection = field(default_factory=RewriteSection)
    delete_files: DeleteFilesSection = field(default_factory=DeleteFilesSection)
    manifests: ManifestsSection = field(default_factory=ManifestsSection)
    expire: ExpireSection = field(default_factory=ExpireSection)
    orphans: OrphansSection = field(default_factory=OrphansSection)
    write_properties: dict[str, str] = field(default_factory=dict)  # table properties that differ from the policy's
    cost: Cost = field(default_factory=Cost)

    @property
    def plan_id(self) -> str:
        """Stable over retries of a task, new whenever the table is assessed again: commits are stamped with it."""
        return f"{self.run_id}@{self.created_at_ms}"

    def has_work(self, section: Section) -> bool:
        """Whether Spark has anything to do for ``section``."""
        return {
            "rewrite": bool(self.rewrite.batches),
            "delete_files": self.delete_files.remove_dangling or self.delete_files.rewrite_position_deletes,
            "manifests": self.manifests.rewrite,
            "expire": bool(self.expire.snapshots),
            "orphans": self.orphans.due,
        }[section]


@dataclass(frozen=True, kw_only=True)
class TableNumbers(Document):
    """The few totals that before/after comparisons need."""

    data_files: int = 0
    data_bytes: int = 0
    rows: int = 0  # rows stored in data files, deletes not applied
    small_files: int = 0
    delete_files: int = 0
    snapshots: int = 0
    manifests: int = 0


# ------------------------------------------------------------------------------------------------- result, certificate


@dataclass(frozen=True, kw_only=True)
class Law(Document):
    """One conservation law, its numbers and its verdict."""

    name: str  # rows, value_counts, null_counts, nan_counts, lower_bounds, upper_bounds, checksum, head_rows, probe ...
    scope: str  # "batch b-0001", "table"
    before: Any
    after: Any
    verdict: LawVerdict
    checked: Literal["before_publish", "after_publish"]
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Certificate(Document):
    verdict: CertificateVerdict
    laws: tuple[Law, ...] = ()
    remarks: tuple[str, ...] = ()  # why a verdict is partial

    @classmethod
    def from_laws(cls, laws: tuple[Law, ...], remarks: tuple[str, ...] = ()) -> Certificate:
        """A certificate is proven only if every law held and nothing was left out."""
        verdict: CertificateVerdict = "proven"
        if remarks or any(law.verdict == "not_checked" for law in laws):
            verdict = "partial"
        if any(law.verdict == "violated" for law in laws):
            verdict = "violated"
        return cls(verdict=verdict, laws=laws, remarks=remarks)


@dataclass(frozen=True, kw_only=True)
class BatchResult(Document):
    batch_id: str
    outcome: Literal["committed", "already_committed", "already_done", "conflicted", "failed"]
    snapshot_id: int | None = None
    input_files: int = 0
    input_bytes: int = 0
    output_files: int = 0
    output_bytes: int = 0
    removed_delete_files: int = 0
    attempts: int = 1
    duration_ms: int = 0
    drift: str = ""  # how Iceberg's plan at run time differed from ours; empty when it did not


@dataclass(frozen=True, kw_only=True)
class StepResult(Document):
    """What one section did. ``numbers`` uses the names of the report's ``stats`` where they exist there."""

    section: Section
    outcome: Outcome
    reason: str = ""
    snapshots: tuple[int, ...] = ()
    duration_ms: int = 0
    numbers: dict[str, Any] = field(default_factory=dict)
    batches: tuple[BatchResult, ...] = ()
    laws: tuple[Law, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunResult(Document):
    """What one Spark application did; written after every batch, so a killed job leaves what it did."""

    version: int = VERSION
    run_id: str
    catalog: str
    table: str
    started_at_ms: int
    finished_at_ms: int | None = None  # None while it runs, or when it was killed
    application_id: str = ""
    spark_version: str = ""
    iceberg_version: str = ""
    steps: tuple[StepResult, ...] = ()
    written_prefixes: tuple[str, ...] = ()  # where uncommitted files of this run may lie
    error: str = ""


# -------------------------------------------------------------------------------------------------------------- report


@dataclass(frozen=True, kw_only=True)
class Stats(Document):
    files_before: int = 0
    files_after: int = 0
    files_compacted: int = 0
    files_removed: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    bytes_saved: int = 0
    delete_files_before: int = 0
    delete_files_after: int = 0
    snapshots_expired: int = 0
    orphan_files_found: int = 0
    orphan_files_deleted: int = 0
    small_files_remaining: int = 0
    compaction_time_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class SectionReport(Document):
    """One line of the report: what became of a section, and why."""

    section: Section
    outcome: Outcome
    reason: str
    duration_ms: int = 0
    spark_started: bool = False


@dataclass(frozen=True, kw_only=True)
class Report(Document):
    version: int = VERSION
    catalog: str
    table: str
    run_id: str
    outcome: Outcome
    reason: str
    dry_run: bool = False
    created_at_ms: int = 0
    stats: Stats = field(default_factory=Stats)
    predicted: dict[str, Any] = field(default_factory=dict)
    certificate: Certificate
    probe: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    snapshots: tuple[int, ...] = ()
    sections: tuple[SectionReport, ...] = ()
    spark_starts: int = 0  # Spark applications this run started; 0 is the usual night of a healthy table


# ------------------------------------------------------------------------------------------------------------ decoding


def _decode(kind: Any, value: object, path: str) -> object:
    origin = typing.get_origin(kind)
    args = typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in args:
            return None
        return _decode(next(arg for arg in args if arg is not type(None)), value, path)
    if origin is Literal:
        if value not in args:
            raise DocumentError(f"{path} is {value!r}, expected one of {', '.join(map(repr, args))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise DocumentError(f"{path} is {value!r}, expected a list")
        return tuple(_decode(args[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise DocumentError(f"{path} is {value!r}, expected an object")
        return {key: _decode(args[1], item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(typing.cast("type[Document]", kind), value, path)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DocumentError(f"{path} is {value!r}, expected {kind.__name__}")
    return value


def _decode_dataclass(kind: type[Document], value: object, path: str) -> Document:
    if not isinstance(value, dict):
        raise DocumentError(f"{path} is {value!r}, expected an object")
    hints, required = _fields_of(typing.cast("typing.Hashable", kind))
    unknown = value.keys() - hints.keys()
    if unknown:
        raise DocumentError(f"{path} has unknown fields {', '.join(sorted(map(str, unknown)))}")
    missing = [name for name in required if name not in value]
    if missing:
        raise DocumentError(f"{path} lacks {', '.join(missing)}")
    return kind(
        **{
            # Most values are plain and of the right type; a plan of many partitions holds millions.
            name: item if type(item) is hints[name] else _decode(hints[name], item, f"{path}.{name}")
            for name, item in value.items()
        }
    )


@functools.cache
def _fields_of(kind: type[Document]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The type of every field, and the fields that have no default."""
    known = dataclasses.fields(kind)
    hints = typing.get_type_hints(kind)
    required = tuple(
        f.name for f in known if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    return {f.name: hints[f.name] for f in known}, required

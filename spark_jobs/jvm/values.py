"""What crosses from the JVM as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class SnapshotFacts:
    """The parts of a snapshot the job reasons with."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    summary: Mapping[str, str]
    schema_id: int | None = None

    def number(self, key: str) -> int | None:
        text = self.summary.get(key)
        return None if text is None else int(text)


@dataclass(frozen=True, slots=True)
class DeleteInput:
    """A delete file, or one deletion vector of a Puffin file."""

    path: str
    data_file: str  # the one a deletion vector is for, empty for other deletes
    rows: int

    @property
    def is_dv(self) -> bool:
        return bool(self.data_file)


@dataclass(frozen=True, slots=True)
class InputFile:
    path: str
    bytes: int
    rows: int
    spec_id: int


@dataclass(eq=False)
class Group:
    """Files that Iceberg's planner wants rewritten together, with what the job knows about them."""

    java: Any
    index: int
    inputs: list[InputFile]
    deletes: list[DeleteInput]
    outputs: list[dict[str, Any]] = field(default_factory=list)  # ContentFile JSON, once written

    @property
    def changes_spec(self) -> bool:
        """Whether files move to another partition spec, where deletes of the old one no longer reach them."""
        return any(file.spec_id != self.java.outputSpecId() for file in self.inputs)

    @property
    def input_bytes(self) -> int:
        return sum(f.bytes for f in self.inputs)

    @property
    def output_bytes(self) -> int:
        return sum(int(f["file-size-in-bytes"]) for f in self.outputs)


def each(java_iterable: Any) -> Iterator[Any]:
    """The elements of any Java Iterable; py4j itself iterates over collections only."""
    iterator = java_iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def parse_sort_column(text: str) -> tuple[str, bool, bool]:
    """``column [asc|desc] [nulls first|last]`` as (column, descending, nulls first)."""
    words = text.split()
    nulls_first: bool | None = None
    if len(words) > 2 and words[-2].lower() == "nulls" and words[-1].lower() in ("first", "last"):
        nulls_first = words[-1].lower() == "first"
        words = words[:-2]
    descending = False
    if len(words) > 1 and words[-1].lower() in ("asc", "desc"):
        descending = words[-1].lower() == "desc"
        words = words[:-1]
    return " ".join(words), descending, (not descending if nulls_first is None else nulls_first)

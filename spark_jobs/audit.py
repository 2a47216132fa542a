"""The conservation laws: what a rewrite may not change, checked from file metadata without reading any data.

A rewrite moves rows between files; it may drop exactly the rows that deletes had already removed. So of the files that
go in and the files that come out, per group: rows, value counts, null counts and NaN counts are conserved, and so are the
smallest lower and the largest upper bound of every column. Where deletes are attached, equalities become inequalities
and the exact number of live rows comes from the engine.

Statistics of input files may be missing or loose (other writers, other settings). A missing one makes the law
``not_checked`` for that column; a broken law is a suspicion that the caller settles by reading the data (``checksum``).
Values never appear in a law, only counts and column names: certificates travel to chat rooms.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_iceberg_compaction.documents import Law

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FLOATS = ("float", "double")
_TEXTS = ("string", "binary")
_DEFAULT_TRUNCATION = 16  # Iceberg's truncate(16); files of any age may have been written with it
_NAMED = 5  # columns that a law names before it only counts


@dataclass(frozen=True)
class Column:
    """A primitive column outside of lists and maps, where counts mean the same to every writer."""

    field_id: int
    name: str
    type: str
    truncation: int = _DEFAULT_TRUNCATION  # bounds of texts at least this long may be cut


def columns_of(schema: Mapping[str, Any], properties: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns whose statistics the laws compare."""
    found: list[Column] = []

    def visit(fields: Iterable[Mapping[str, Any]], prefix: str) -> None:
        for f in fields:
            name, kind = f"{prefix}{f['name']}", f["type"]
            if isinstance(kind, str):
                found.append(Column(f["id"], name, kind, _truncation(name, properties)))
            elif kind["type"] == "struct":
                visit(kind["fields"], f"{name}.")

    visit(schema["fields"], "")
    return tuple(found)


def _truncation(name: str, properties: Mapping[str, str]) -> int:
    mode = properties.get(
        f"write.metadata.metrics.column.{name}", properties.get("write.metadata.metrics.default", "truncate(16)")
    )
    length = mode.removeprefix("truncate(").removesuffix(")")
    return min(_DEFAULT_TRUNCATION, int(length)) if length.isdigit() else _DEFAULT_TRUNCATION


@dataclass
class ColumnTotals:
    """Sums of one column over the files of one side; the flags say whether every file had its share."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Any = None
    upper: Any = None
    counts_known: bool = True
    nans_known: bool = True
    bounds_known: bool = True


@dataclass
class Side:
    """The files on one side of a group's rewrite."""

    columns: Sequence[Column]
    files: int = 0
    rows: int = 0
    totals: dict[int, ColumnTotals] = field(default_factory=dict)

    def add(self, file: Mapping[str, Any]) -> None:
        """Count one file, given as Iceberg's ContentFile JSON."""
        rows = int(file["record-count"])
        self.files += 1
        self.rows += rows
        values, nulls = _map(file, "value-counts"), _map(file, "null-value-counts")
        nans, lowers, uppers = _map(file, "nan-value-counts"), _map(file, "lower-bounds"), _map(file, "upper-bounds")
        for column in self.columns:
            total = self.totals.setdefault(column.field_id, ColumnTotals())
            key = column.field_id
            value_count, null_count, nan_count = values.get(key), nulls.get(key), nans.get(key)
            if value_count is None or null_count is None or value_count != rows or not 0 <= null_count <= rows:
                total.counts_known = False
            else:
                total.values += value_count
                total.nulls += null_count
            if nan_count is None:
                total.nans_known = False
            else:
                total.nans += nan_count
            if null_count is not None and null_count + (nan_count or 0) >= rows:
                continue  # nothing but nulls and NaNs: such a file has no bounds and constrains none
            _widen(total, decode(column.type, lowers.get(key)), decode(column.type, uppers.get(key)))


def _widen(total: ColumnTotals, lower: Any, upper: Any) -> None:
    if lower is None or upper is None:
        total.bounds_known = False
        return
    total.lower = lower if total.lower is None else min(total.lower, lower)
    total.upper = upper if total.upper is None else max(total.upper, upper)


def _map(file: Mapping[str, Any], name: str) -> dict[int, Any]:
    entries = file.get(name) or {"keys": (), "values": ()}
    return dict(zip(entries["keys"], entries["values"], strict=True))


def decode(kind: str, text: str | None) -> Any:
    """A bound in the specification's single-value serialisation (hex) as something comparable; None if it has none."""
    if text is None:
        return None
    raw = bytes.fromhex(text)
    try:
        if kind in ("int", "long", "date", "time") or kind.startswith("timestamp"):
            return struct.unpack("<i" if len(raw) == 4 else "<q", raw)[0]  # an int file of a promoted long has 4 bytes
        if kind in _FLOATS:
            value = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
            return None if math.isnan(value) else value
        if kind == "boolean":
            return raw != b"\x00"
        if kind.startswith("decimal"):
            return int.from_bytes(raw, "big", signed=True)  # without its scale, which never changes
        if kind == "string":
            return raw.decode()
        if kind in ("binary", "uuid") or kind.startswith("fixed"):
            return raw
    except (struct.error, UnicodeDecodeError):
        return None
    return None  # geometry, variant, unknown: no order to compare by


# ----------------------------------------------------------------------------------------------------------------- laws


@dataclass
class GroupSides:
    """One group before and after."""

    index: int
    before: Side
    after: Side
    live_rows: int  # rows of the inputs that no delete removes
    has_deletes: bool


Checked = Literal["before_publish", "after_publish"]


def check(scope: str, groups: Sequence[GroupSides], checked: Checked = "before_publish") -> tuple[Law, ...]:
    """Every law over every group, one Law each (two where some columns could not be compared)."""
    laws = [_rows(scope, groups, checked)]
    laws += _column_law("value_counts", scope, groups, checked, _compare_values)
    laws += _column_law("null_counts", scope, groups, checked, _compare_nulls)
    laws += _column_law("nan_counts", scope, groups, checked, _compare_nans)
    laws += _column_law("lower_bounds", scope, groups, checked, _compare_lower)
    laws += _column_law("upper_bounds", scope, groups, checked, _compare_upper)
    return tuple(laws)


def _rows(scope: str, groups: Sequence[GroupSides], checked: Checked) -> Law:
    broken = [f"group {g.index}: {g.live_rows} became {g.after.rows}" for g in groups if g.live_rows != g.after.rows]
    stored = sum(g.before.rows for g in groups)
    live = sum(g.live_rows for g in groups)
    return Law(
        name="rows",
        scope=scope,
        before=live,
        after=sum(g.after.rows for g in groups),
        verdict="violated" if broken else "held",
        checked=checked,
        detail="; ".join(broken[:_NAMED])
        or (f"{stored} stored rows, {stored - live} deleted" if stored != live else ""),
    )


def _compare_values(column: Column, group: GroupSides) -> tuple[int, int, bool] | None:
    before, after = group.before.totals[column.field_id], group.after.totals[column.field_id]
    if not (before.counts_known and after.counts_known):
        return None
    return group.live_rows, after.values, after.values == group.live_rows


def _compare_nulls(column: Column, group: GroupSides) -> tuple[int, int, bool] | None:
    before, after = group.before.totals[column.field_id], group.after.totals[column.field_id]
    if not (before.counts_known and after.counts_known):
        return None
    return before.nulls, after.nulls, _conserved(before.nulls, after.nulls, group.has_deletes)


def _compare_nans(column: Column, group: GroupSides) -> tuple[int, int, bool] | None:
    before, after = group.before.totals[column.field_id], group.after.totals[column.field_id]
    if not (before.nans_known and after.nans_known):
        return None
    return before.nans, after.nans, _conserved(before.nans, after.nans, group.has_deletes)


def _conserved(before: int, after: int, has_deletes: bool) -> bool:
    return after <= before if has_deletes else after == before


def _compare_lower(column: Column, group: GroupSides) -> tuple[int, int, bool] | None:
    return _compare_bound(column, group, upper=False)


def _compare_upper(column: Column, group: GroupSides) -> tuple[int, int, bool] | None:
    return _compare_bound(column, group, upper=True)


def _compare_bound(column: Column, group: GroupSides, *, upper: bool) -> tuple[int, int, bool] | None:
    before, after = group.before.totals[column.field_id], group.after.totals[column.field_id]
    if not (before.bounds_known and after.bounds_known):
        return None
    old, new = (before.upper, after.upper) if upper else (before.lower, after.lower)
    if old is None and new is None:
        held = True
    elif old is None or new is None:
        held = new is None and group.has_deletes  # deletes may leave nothing but nulls
    elif old == new or _cut_alike(column, old, new, upper=upper):
        held = True
    else:
        held = group.has_deletes and (new < old if upper else new > old)
    return 1, int(held), held


def _cut_alike(column: Column, old: Any, new: Any, *, upper: bool) -> bool:
    """Whether two bounds of a text can come from the same value, cut at different lengths."""
    if column.type not in _TEXTS or min(len(old), len(new)) < column.truncation:
        return False  # a shorter one was not cut
    length = min(len(old), len(new))
    # A cut upper bound has its last character incremented, so that one says nothing.
    length = max(length - 1, 0) if upper else length
    return bool(old[:length] == new[:length])


def _column_law(name: str, scope: str, groups: Sequence[GroupSides], checked: Checked, compare: Any) -> list[Law]:
    before = after = 0
    compared: set[str] = set()
    unknown: set[str] = set()
    broken: list[str] = []
    for group in groups:
        for column in group.before.columns:
            if not _applies(name, column, group):
                continue
            outcome = compare(column, group)
            if outcome is None:
                unknown.add(column.name)
                continue
            compared.add(column.name)
            before += outcome[0]
            after += outcome[1]
            if not outcome[2]:
                broken.append(f"group {group.index} column {column.name}: {outcome[0]} became {outcome[1]}")
    laws = []
    if compared:
        relation = "at most, because deletes were applied" if any(g.has_deletes for g in groups) else "equal"
        laws.append(
            Law(
                name=name,
                scope=scope,
                before=before,
                after=after,
                verdict="violated" if broken else "held",
                checked=checked,
                detail="; ".join(broken[:_NAMED]) or f"{len(compared)} columns in {len(groups)} groups, {relation}",
            )
        )
    if unknown:
        names = sorted(unknown)
        listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        laws.append(
            Law(
                name=name,
                scope=scope,
                before=None,
                after=None,
                verdict="not_checked",
                checked=checked,
                detail=f"some files have no such statistics for {listed}; set `audit: checksum` to compare the data",
            )
        )
    return laws


def _applies(name: str, column: Column, group: GroupSides) -> bool:
    if column.field_id not in group.before.totals or column.field_id not in group.after.totals:
        return False
    if name == "nan_counts":
        return column.type in _FLOATS
    if name in ("lower_bounds", "upper_bounds"):
        return column.type in (
            *_FLOATS,
            *_TEXTS,
            "int",
            "long",
            "date",
            "time",
            "boolean",
            "uuid",
        ) or column.type.startswith(("timestamp", "decimal", "fixed"))
    return True


def not_checked(name: str, scope: str, detail: str, checked: Checked) -> Law:
    """A law that nothing is known about, and why."""
    return Law(name=name, scope=scope, before=None, after=None, verdict="not_checked", checked=checked, detail=detail)


def settled(laws: Iterable[Law], checksum: Law) -> tuple[Law, ...]:
    """The laws once the data itself was compared: a checksum outranks statistics, in both directions."""
    verdicts = []
    for law in laws:
        if checksum.verdict != "held" or law.verdict == "held":
            verdicts.append(law)
        elif law.verdict == "violated":
            detail = f"the statistics of the old files are not exact ({law.detail}); the data is equal by checksum"
            verdicts.append(_replace(law, detail))
        else:
            verdicts.append(_replace(law, f"{law.detail.split(';')[0]}; covered by the checksum"))
    return (*verdicts, checksum)


def _replace(law: Law, detail: str) -> Law:
    return Law(
        name=law.name,
        scope=law.scope,
        before=law.before,
        after=law.after,
        verdict="held",
        checked=law.checked,
        detail=detail,
    )

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.documents import Law
from spark_jobs.audit import Column, GroupSides, Side, check, columns_of, decode, settled

LONG, TEXT, DOUBLE = Column(1, "id", "long"), Column(2, "name", "string"), Column(3, "price", "double")
COLUMNS = (LONG, TEXT, DOUBLE)


def hexed(kind: str, value) -> str:
    raw = {"long": lambda v: struct.pack("<q", v), "double": lambda v: struct.pack("<d", v), "string": str.encode}
    return raw[kind](value).hex()


def cut(text: str, length: int = 16) -> tuple[str, str]:
    """Iceberg's truncated lower and upper bound of one value."""
    if len(text) <= length:
        return text, text
    return text[:length], text[: length - 1] + chr(ord(text[length - 1]) + 1)


def file_of(rows, *, truncation: int = 16) -> dict:
    """The metadata Iceberg would keep of these (id, name, price) rows."""
    document: dict = {"record-count": len(rows)}
    counts: dict[str, dict] = {name: {} for name in ("value-counts", "null-value-counts", "nan-value-counts")}
    lower: dict[int, str] = {}
    upper: dict[int, str] = {}
    for position, column in enumerate(COLUMNS):
        values = [row[position] for row in rows]
        present = [v for v in values if v is not None and v == v]
        counts["value-counts"][column.field_id] = len(values)
        counts["null-value-counts"][column.field_id] = sum(v is None for v in values)
        if column.type == "double":
            counts["nan-value-counts"][column.field_id] = sum(v is not None and v != v for v in values)
        if present:
            low, high = min(present), max(present)
            if column.type == "string":
                low, high = cut(low, truncation)[0], cut(high, truncation)[1]
            lower[column.field_id], upper[column.field_id] = hexed(column.type, low), hexed(column.type, high)
    for name, entries in {**counts, "lower-bounds": lower, "upper-bounds": upper}.items():
        document[name] = {"keys": list(entries), "values": list(entries.values())}
    return document


def sides(before, after, *, live: int | None = None, has_deletes: bool = False, truncation: int = 16) -> GroupSides:
    old, new = Side(COLUMNS), Side(COLUMNS)
    for rows in before:
        old.add(file_of(rows))
    for rows in after:
        new.add(file_of(rows, truncation=truncation))
    return GroupSides(
        index=1, before=old, after=new, live_rows=old.rows if live is None else live, has_deletes=has_deletes
    )


def verdicts(group: GroupSides) -> dict[str, str]:
    return {law.name: law.verdict for law in check("batch b", [group])}


text = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=24)
a_row = st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | text, st.none() | st.floats(width=64))
some_rows = st.lists(a_row, min_size=1, max_size=30)


@given(rows=some_rows, data=st.data())
def test_any_regrouping_of_the_same_rows_keeps_every_law(rows, data) -> None:
    shuffled = data.draw(st.permutations(rows))
    cut_in = data.draw(st.integers(0, len(rows)))
    cut_out = data.draw(st.integers(0, len(rows)))
    before = [part for part in (rows[:cut_in], rows[cut_in:]) if part]
    after = [part for part in (shuffled[:cut_out], shuffled[cut_out:]) if part]
    assert set(verdicts(sides(before, after)).values()) == {"held"}


@given(rows=some_rows, data=st.data())
def test_removing_deleted_rows_keeps_every_law(rows, data) -> None:
    kept = [row for row in rows if data.draw(st.booleans())]
    group = sides([rows], [kept] if kept else [], live=len(kept), has_deletes=True)
    assert "violated" not in verdicts(group).values()


@given(rows=some_rows, extra=a_row)
def test_a_row_too_many_or_too_few_breaks_the_law_of_rows(rows, extra) -> None:
    assert verdicts(sides([rows], [[*rows, extra]]))["rows"] == "violated"
    assert verdicts(sides([[*rows, extra]], [rows]))["rows"] == "violated"
    assert verdicts(sides([[*rows, extra]], [rows], live=len(rows), has_deletes=True))["rows"] == "held"


@given(rows=some_rows)
def test_a_new_null_breaks_the_law_of_nulls(rows) -> None:
    rows = [*rows, (1, "x", 2.0)]
    nulled = [*rows[:-1], (1, None, 2.0)]
    assert verdicts(sides([rows], [nulled]))["null_counts"] == "violated"
    assert verdicts(sides([rows], [nulled], has_deletes=True))["null_counts"] == "violated"


def test_a_new_nan_breaks_the_law_of_nans() -> None:
    assert verdicts(sides([[(1, "x", 2.0)]], [[(1, "x", float("nan"))]]))["nan_counts"] == "violated"


@pytest.mark.parametrize(("old", "new", "law"), [(5, 4, "lower_bounds"), (5, 6, "upper_bounds")])
def test_a_bound_that_widens_is_broken_even_with_deletes(old, new, law) -> None:
    before, after = [[(old, "x", 1.0), (5, "x", 1.0)]], [[(new, "x", 1.0), (5, "x", 1.0)]]
    assert verdicts(sides(before, after))[law] == "violated"
    assert verdicts(sides(before, after, has_deletes=True))[law] == "violated"


def test_a_bound_that_shrinks_is_broken_only_without_deletes() -> None:
    before, after = [[(1, "x", 1.0), (9, "x", 1.0)]], [[(2, "x", 1.0), (8, "x", 1.0)]]
    assert verdicts(sides(before, after))["lower_bounds"] == "violated"
    assert verdicts(sides(before, after, has_deletes=True))["lower_bounds"] == "held"


def test_bounds_cut_at_other_lengths_are_compatible() -> None:
    rows = [(1, "a text that is longer than any bound", 1.0)]
    assert set(verdicts(sides([rows], [rows], truncation=20)).values()) == {"held"}
    other = [(1, "a tale that is longer than any bound", 1.0)]
    assert verdicts(sides([rows], [other], truncation=20))["lower_bounds"] == "violated"


def test_short_texts_have_exact_bounds() -> None:
    assert verdicts(sides([[(1, "abc", 1.0)]], [[(1, "abd", 1.0)]]))["upper_bounds"] == "violated"


@pytest.mark.parametrize(("old", "new"), [("z", "abcdefghijklmnop"), ("a", "abcdefghijklmnop"), ("", "q" * 16)])
def test_a_short_bound_was_not_cut_so_a_long_one_is_another_value(old, new) -> None:
    found = verdicts(sides([[(1, old, 1.0)]], [[(1, new, 1.0)]]))
    assert found["lower_bounds"] == found["upper_bounds"] == "violated"


def test_missing_statistics_are_never_read_as_held() -> None:
    group = sides([[(1, "x", 1.0)]], [[(1, "x", 1.0)]])
    bare = Side(COLUMNS)
    bare.add({"record-count": 1})
    found = {(law.name, law.verdict) for law in check("batch b", [GroupSides(1, bare, group.after, 1, False)])}
    assert ("rows", "held") in found
    assert ("null_counts", "not_checked") in found
    assert ("null_counts", "held") not in found


def test_counts_that_contradict_the_row_count_are_not_trusted() -> None:
    document = file_of([(1, "x", 1.0)])
    document["value-counts"]["values"][0] = 99
    strange = Side(COLUMNS)
    strange.add(document)
    good = sides([[(1, "x", 1.0)]], [[(1, "x", 1.0)]])
    laws = check("batch b", [GroupSides(1, strange, good.after, 1, False)])
    assert {law.verdict for law in laws if law.name == "null_counts"} == {"held", "not_checked"}


def test_laws_name_columns_but_never_show_values() -> None:
    group = sides([[(123456, "secret", 1.0)]], [[(654321, "other", 1.0)]])
    shown = " ".join(law.detail + repr(law.before) + repr(law.after) for law in check("batch b", [group]))
    assert "column id" in shown
    assert not any(value in shown for value in ("123456", "654321", "secret"))


def checksum(verdict: str) -> Law:
    return Law(name="checksum", scope="batch b", before="1", after="1", verdict=verdict, checked="before_publish")


def test_an_equal_checksum_outranks_statistics() -> None:
    laws = check("batch b", [sides([[(1, "x", 1.0)]], [[(2, "x", 1.0)]])])
    assert {law.verdict for law in settled(laws, checksum("held"))} == {"held"}
    assert "violated" in {law.verdict for law in settled(laws, checksum("violated"))}


def test_columns_inside_lists_and_maps_are_left_to_the_checksum() -> None:
    schema = {
        "fields": [
            {"id": 1, "name": "a", "type": "int"},
            {"id": 2, "name": "s", "type": {"type": "struct", "fields": [{"id": 3, "name": "b", "type": "string"}]}},
            {"id": 4, "name": "l", "type": {"type": "list", "element-id": 5, "element": "int"}},
        ]
    }
    found = columns_of(schema, {"write.metadata.metrics.column.s.b": "truncate(4)"})
    assert [(c.name, c.truncation) for c in found] == [("a", 16), ("s.b", 4)]


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("long", "07000000", 7),
        ("long", "0700000000000000", 7),
        ("double", "0000803f", 1.0),
        ("double", "000000000000f87f", None),
        ("boolean", "01", True),
        ("date", "ffffffff", -1),
        ("string", "c3a9", "é"),
        ("geometry", "00", None),
    ],
)
def test_bounds_are_read_as_the_specification_writes_them(kind, raw, value) -> None:
    assert decode(kind, raw) == value


def test_decimal_bounds_are_compared_as_numbers() -> None:
    assert decode("decimal(9, 2)", "ff38") == decode("decimal(20, 2)", "ffffff38")
    long = 12345678901234567890123456789012345678
    assert decode("decimal(38, 2)", f"{long:032x}") != decode("decimal(38, 2)", f"{long + 1:032x}")

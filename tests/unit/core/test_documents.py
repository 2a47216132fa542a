from __future__ import annotations

import dataclasses
import typing
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction import documents
from airflow_iceberg_compaction.documents import Certificate, DocumentError, Law, Plan, Report, RunResult, TableNumbers

DOCUMENTS = (Plan, RunResult, Report)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value a field of type ``kind`` may hold."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _json
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(), values(args[1]), max_size=2)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.builds(
            kind, **{f.name: values(hints[f.name]) for f in dataclasses.fields(kind) if f.name != "version"}
        )
    if args:
        return st.one_of(*(values(arg) for arg in args))
    return {
        int: st.integers(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(),
        bool: st.booleans(),
        type(None): st.none(),
    }[kind]


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_document_survives_the_round_trip(kind: type[documents.Document]) -> None:
    @given(values(kind))
    def check(document: documents.Document) -> None:
        assert kind.from_json(document.to_json()) == document

    check()


def a_plan() -> Plan:
    return Plan(
        run_id="r", catalog="lake", table="shop.events", table_uuid="u", snapshot_id=1, created_at_ms=0, outcome="healthy",
        before=TableNumbers(),
    )  # fmt: skip


def test_a_truncated_document_is_a_clear_error() -> None:
    with pytest.raises(DocumentError, match="Plan is not valid JSON .* was its writer killed"):
        Plan.from_json(a_plan().to_json()[:-10])


def test_a_document_of_another_version_is_refused() -> None:
    with pytest.raises(DocumentError, match="version 2, this release reads 1"):
        Plan.from_json(a_plan().to_json().replace('"version": 1', '"version": 2'))


def test_a_document_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(DocumentError, match="unknown fields surprise"):
        Plan.from_dict({**a_plan().to_dict(), "surprise": 1})


def test_a_wrong_type_names_its_place() -> None:
    with pytest.raises(DocumentError, match=r"Plan\.before\.rows is '3', expected int"):
        Plan.from_dict({**a_plan().to_dict(), "before": {"rows": "3"}})


def test_an_empty_plan_has_work_for_no_section() -> None:
    assert not any(a_plan().has_work(section) for section in documents.SECTIONS)


def law(verdict: Literal["held", "violated", "not_checked"]) -> Law:
    return Law(name="rows", scope="batch 1", before=1, after=1, verdict=verdict, checked="before_publish")


def test_a_certificate_is_proven_only_if_every_law_held() -> None:
    assert Certificate.from_laws((law("held"), law("held"))).verdict == "proven"
    assert Certificate.from_laws((law("held"), law("not_checked"))).verdict == "partial"
    assert Certificate.from_laws((law("held"),), ("audited after publish",)).verdict == "partial"
    assert Certificate.from_laws((law("not_checked"), law("violated"))).verdict == "violated"

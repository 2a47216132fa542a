from __future__ import annotations

from array import array
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.health.clustering import Ranges
from airflow_iceberg_compaction.health.encoding import (
    Judgement,
    dump_judgement,
    dump_summary,
    load_judgement,
    load_summary,
)
from airflow_iceberg_compaction.health.model import NAN, MetadataHealth, PartitionHealth
from airflow_iceberg_compaction.health.summary import DataRow, DeleteRow, Summary

numbers = st.integers(0, 2**62)
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.just(NAN), st.text(),
    st.binary(), st.decimals(allow_nan=False, allow_infinity=False), st.builds(UUID, int=st.integers(0, 2**128 - 1)),
)  # fmt: skip
tuples = st.lists(values, max_size=3).map(tuple)
maps = st.dictionaries(st.integers(-1, 2**40), numbers, max_size=4)


def _ranges(pairs: list[tuple[int, int]]) -> Ranges:
    ranges = Ranges()
    for low, high in pairs:
        ranges.add(low, high)
    return ranges


data_rows = st.builds(
    DataRow, numbers, numbers, numbers, numbers, numbers, numbers, numbers, st.just(-1) | numbers, st.just(-1) | numbers,
    maps, st.none() | st.lists(st.tuples(numbers, numbers), max_size=3).map(_ranges),
)  # fmt: skip
delete_rows = st.builds(
    DeleteRow, numbers, numbers, numbers, numbers, numbers, numbers, numbers, maps, maps,
    st.lists(st.tuples(numbers, st.integers(0, 2**64 - 1)), max_size=3),
)  # fmt: skip
summaries = st.builds(
    Summary,
    st.dictionaries(tuples, data_rows, max_size=4),
    st.dictionaries(tuples, delete_rows, max_size=4),
    st.lists(st.integers(0, 2**64 - 1), max_size=4).map(lambda hashes: array("Q", hashes)),
)


@given(summaries)
def test_a_summary_comes_back_as_it_went(summary: Summary) -> None:
    again = load_summary(dump_summary(summary))
    assert again == summary
    assert repr(list(again.data)) == repr(list(summary.data))  # 1 and True are equal, but not the same partition value


def test_not_a_number_comes_back_as_the_one_object() -> None:
    again = load_summary(dump_summary(Summary({(NAN,): DataRow(files=3)})))
    assert again.data[(NAN,)].files == 3


partitions = st.builds(
    PartitionHealth,
    spec_id=st.integers(0, 9),
    partition=tuples,
    data_files=numbers,
    dangling_delete_files=numbers,
    size_histogram=maps,
    newest_file_ms=st.none() | numbers,
    last_compaction_ms=st.none() | numbers,
)


@given(st.lists(partitions, max_size=4), st.none() | st.floats(0, 1))
def test_a_judgement_comes_back_as_it_went(rows: list[PartitionHealth], debt: float | None) -> None:
    metadata = MetadataHealth(snapshots=3, data_manifests=2, manifest_bytes=9, manifests_by_spec={0: (2, 9)})
    judgement = Judgement(
        partitions=tuple(rows), metadata=metadata, global_equality_delete_files=1, clustering_debt=debt
    )
    assert load_judgement(dump_judgement(judgement)) == judgement

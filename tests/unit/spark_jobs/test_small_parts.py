from __future__ import annotations

import pytest

from spark_jobs.attempts import _slug
from spark_jobs.jvm import parse_sort_column
from spark_jobs.locations import contains, normal, spelled_like
from spark_jobs.progress import Progress


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a", ("a", False, True)),
        ("a desc", ("a", True, False)),
        ("a ASC nulls last", ("a", False, False)),
        ("s.b desc NULLS FIRST", ("s.b", True, True)),
        ("desc", ("desc", False, True)),
    ],
)
def test_a_sort_column_reads_like_sql(text, parsed) -> None:
    assert parse_sort_column(text) == parsed


def test_one_file_has_one_spelling() -> None:
    assert normal("file:/a/b") == normal("file:///a/b") == normal("/a/b/")
    assert normal("s3a://bucket/x") == normal("s3://bucket/x")
    assert normal("s3://bucket/x") != normal("gs://bucket/x")


@pytest.mark.parametrize(
    ("outer", "inner", "inside"),
    [
        ("s3://b/t", "s3a://b/t/data", True),
        ("s3://b/t", "s3://b/t2", False),
        ("file:///w/t", "file:/w/t", True),
        ("s3://b/t/data", "s3://b/t", False),
    ],
)
def test_containment_goes_by_folders_not_by_letters(outer, inner, inside) -> None:
    assert contains(outer, inner) is inside


def test_a_location_can_be_spelled_like_a_listing() -> None:
    assert spelled_like("file:/w/t/data/x.parquet", "file:///w/t") == "file:/w/t"
    assert spelled_like("s3a://b/t/x", "s3://b/t/") == "s3a://b/t"


def test_a_run_id_of_airflow_becomes_a_visible_and_unique_folder() -> None:
    name = _slug("scheduled__2025-01-16T02:00:00+00:00")
    assert name == _slug("scheduled__2025-01-16T02:00:00+00:00") != _slug("scheduled__2025-01-16T02:00:00-00:00")
    assert not name.startswith(("_", "."))
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


def test_progress_lines_have_one_form(capsys) -> None:
    progress = Progress("rewrite", batches=2, files=10, bytes=100)
    progress.batch = 1
    progress.tell("writing", files=4, size=40)
    progress.tell("writing", files=8, size=80)
    assert capsys.readouterr().out.splitlines() == [
        "progress rewrite batch 1/2 files 4/10 bytes 40/100 state writing",
        "progress rewrite batch 1/2 files 12/12 bytes 120/120 state writing",
    ]


@pytest.mark.parametrize(
    "arguments", [["--plan", "p.json"], ["--plan", "p", "--result", "r", "--section", "everything"]]
)
def test_unusable_arguments_end_with_two_before_spark_starts(arguments, capsys) -> None:
    from spark_jobs.maintain import main

    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_stamped_laws_are_read_back(capsys) -> None:
    from airflow_iceberg_compaction.documents import Batch, Law
    from spark_jobs.certify import from_stamp, stamp

    batch = Batch(
        batch_id="b-1", filter={}, options={}, partitions=1, input_files=1, input_bytes=1, output_files=1, groups=1
    )
    laws = [
        Law(name=name, scope="batch b-1", before=before, after=before, verdict=verdict, checked="before_publish")
        for name, before, verdict in [("rows", 7, "held"), ("nan_counts", None, "not_checked")]
    ]
    found = from_stamp(batch, stamp(laws))
    assert [(law.name, law.before, law.verdict) for law in found] == [
        ("rows", 7, "held"),
        ("nan_counts", None, "not_checked"),
    ]
    assert from_stamp(batch, None) == ()

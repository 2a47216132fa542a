from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.policy.units import (
    MAX_DURATION,
    MAX_SIZE,
    format_duration,
    format_size,
    parse_duration,
    parse_ratio,
    parse_size,
)


@given(st.integers(0, MAX_SIZE))
def test_a_printed_size_reads_back_as_itself(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 9000), st.sampled_from(["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]))
def test_a_size_is_never_printed_longer_than_it_was_written(number: int, unit: str) -> None:
    written = f"{number}{unit}"
    assert len(format_size(parse_size(written))) <= len(written)


@given(st.integers(0, int(MAX_DURATION.total_seconds())))
def test_a_printed_duration_reads_back_as_itself(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("96MB", 96_000_000),
        ("128MiB", 134_217_728),
        ("1.5GB", 1_500_000_000),
        ("1 GiB", 2**30),
        ("64KB", 64_000),
        ("64kB", 64_000),
        ("67108864B", 67_108_864),
    ],
)
def test_mb_is_a_million_bytes_and_mib_is_not(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("96M", "write 96MB (powers of 1000) or 96MiB (powers of 1024)"),
        ("96mb", "write 96MB"),
        ("96", "write 96MB, or 96B for bytes"),
        ("1.5B", "smaller unit"),
        ("9000PiB", "largest size is 8PiB"),
        ("-1MB", "such as 96MB"),
        ("many", "such as 96MB"),
        ("٣MB", "such as 96MB"),
        ("1e9B", "such as 96MB"),
    ],
)
def test_a_size_that_could_be_read_in_two_ways_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match="; ") as caught:
        parse_size(text)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("size", "text"),
    [(64_000_000, "64MB"), (134_217_728, "128MiB"), (1_500_000, "1.5MB"), (1536, "1536B"), (0, "0B"), (1024, "1KiB")],
)
def test_sizes_are_printed_in_the_shortest_exact_form(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "90s"), (5400, "90m"), (86400, "1d"), (604800, "7d"), (1209600, "2w"), (6 * 3600, "6h")],
)
def test_durations_are_printed_in_the_shortest_exact_form(seconds: int, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def test_units_of_a_duration_may_be_combined() -> None:
    assert parse_duration("1d12h30m") == timedelta(days=1, hours=12, minutes=30)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("7", "write 7d, 7h, 7m or 7s"),
        ("7 days", "write 7d"),
        ("3 Hours", "write 3h"),
        ("3M", "write 3m"),
        ("", "such as 7d"),
        ("-7d", "such as 7d"),
        ("30m1h", "such as 7d"),
        ("999999999w", "longest duration"),
    ],
)
def test_an_unclear_duration_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match="; ") as caught:
        parse_duration(text)
    assert advice in str(caught.value)


@pytest.mark.parametrize(("value", "ratio"), [(0.1, 0.1), ("10%", 0.1), ("0.5 %", 0.005), (1, 1.0), ("100%", 1.0)])
def test_a_ratio_is_a_share_or_a_percentage(value: str | float, ratio: float) -> None:
    assert parse_ratio(value) == ratio


@pytest.mark.parametrize("value", [10, -0.1, "110%", "ten", "0.1", float("nan"), float("inf")])
def test_a_ratio_outside_of_zero_and_one_is_refused(value: str | float) -> None:
    with pytest.raises(ValueError, match=r"0\.1 or 10%"):
        parse_ratio(value)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_iceberg_compaction.policy.cron import PRESETS, check_cron

croniter = pytest.importorskip("croniter", reason="comes with Airflow")


@pytest.mark.parametrize(
    "text", ["0 2 * * *", "*/15 0-6 1,15 jan-mar mon", "0 0 L * *", "0 0 * * 5#2", "0 0 * * 7", *PRESETS]
)
def test_what_airflow_accepts_is_accepted(text: str) -> None:
    assert check_cron(text) == text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 25 * * *", "'25' is not a valid hour"),
        ("60 * * * *", "'60' is not a valid minute"),
        ("0 2 * *", "has 4 fields"),
        ("0 2 * * * *", "has 6 fields"),
        ("0 2 * * funday", "'funday' is not a valid day of week"),
        ("0 5-2 * * *", "'5-2' is not a valid hour"),
        ("*/0 * * * *", "'*/0' is not a valid minute"),
        ("@dayly", "did you mean '@daily'?"),
        ("@weekend", "did you mean '@weekly'?"),
        ("tomorrow", "has 1 fields"),
    ],
)
def test_what_airflow_would_refuse_at_parse_time_is_refused_with_the_part_that_is_wrong(
    text: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match="; ") as caught:
        check_cron(text)
    assert complaint in str(caught.value)


_PART = st.sampled_from(
    ["*", "0", "1", "5", "7", "12", "23", "31", "59", "60", "*/2", "1-5", "5-1", "1,2", "mon", "jan", "x"]
)


@given(st.lists(_PART, min_size=5, max_size=5).map(" ".join))
def test_every_accepted_expression_is_valid_for_airflows_parser(text: str) -> None:
    try:
        check_cron(text)
    except ValueError:
        return
    assert croniter.croniter.is_valid(text)

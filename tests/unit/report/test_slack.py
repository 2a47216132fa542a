from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import report_examples as examples

from airflow_iceberg_compaction.demo.slack_stand_in import SlackStandIn
from airflow_iceberg_compaction.documents import Report, TableNumbers
from airflow_iceberg_compaction.policy.model import SlackReport
from airflow_iceberg_compaction.report import slack
from airflow_iceberg_compaction.report.summary import build_report

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def report() -> Report:
    after = TableNumbers(data_files=43, data_bytes=9000, small_files=2)
    return build_report(
        examples.a_plan(), [examples.result(examples.rewrite_step(), examples.expire_step())], after, 1000
    )


@pytest.fixture
def server() -> Iterator[SlackStandIn]:
    with SlackStandIn().running() as running:
        yield running


def test_the_real_client_delivers_a_message_slack_would_take(server: SlackStandIn, report: Report) -> None:
    assert slack.post("xoxb-1", "#data-ops", report, base_url=server.base_url) == "1.000000"
    message = server.messages[0]
    assert message["channel"] == "#data-ops"
    assert message["text"].startswith("lake.shop.events: maintained")
    assert [block["type"] for block in message["blocks"]] == ["header", "section", "section", "context"]
    fields = "\n".join(field["text"] for field in message["blocks"][2]["fields"])
    assert "100 → 43" in fields
    assert "2.0s → 0.5s" in fields
    assert "certificate proven, 1 of 1 laws held" in message["blocks"][3]["elements"][0]["text"]
    assert "xoxb-1" not in str(message)


def test_a_reason_cannot_mention_everyone_or_forge_a_link(report: Report) -> None:
    hostile = replace(report, reason="<!channel> <http://evil|click> *bold* `code`")
    text = slack.build_message(hostile)["blocks"][1]["text"]["text"]
    assert "<" not in text
    assert "&lt;!channel&gt;" in text
    assert "*bold*" not in text


def test_a_very_long_reason_still_fits(report: Report) -> None:
    message = slack.build_message(replace(report, reason="x" * 10_000, table="n." + "t" * 300))
    assert len(message["blocks"][0]["text"]["text"]) == 150
    assert len(message["blocks"][1]["text"]["text"]) == 3000


def test_an_unreachable_slack_is_one_clear_error(report: Report) -> None:
    with pytest.raises(slack.SlackError, match="could not be reached"):
        slack.post("xoxb-1", "#data-ops", report, base_url="http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("when", "outcome", "wanted"),
    [
        ("always", "nothing_to_do", True),
        ("worked", "nothing_to_do", False),
        ("worked", "succeeded", True),
        ("worked", "failed", True),
        ("failed", "succeeded", False),
        ("failed", "conflicted", True),
    ],
)
def test_the_policy_says_which_reports_people_see(report: Report, when: str, outcome: str, wanted: bool) -> None:
    settings = SlackReport(channel="#data-ops", when=when)
    assert slack.is_wanted(replace(report, outcome=outcome), settings) is wanted

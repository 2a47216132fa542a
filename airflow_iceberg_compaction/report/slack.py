"""The report as a Slack message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.report.text import duration, money, size

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Report
    from airflow_iceberg_compaction.policy.model import SlackReport

_MAX_SECTION_TEXT = 3000  # Slack refuses longer ones
_WORD = {
    "succeeded": "maintained", "nothing_to_do": "nothing to do", "refused": "refused", "conflicted": "conflicted",
    "failed": "FAILED",
}  # fmt: skip


class SlackError(RuntimeError):
    """Slack did not take the message."""


def is_wanted(report: Report, settings: SlackReport) -> bool:
    """Whether the policy wants this report in Slack: always, when something was done or went wrong, or on failure."""
    if settings.when == "always":
        return True
    if report.outcome in ("failed", "refused", "conflicted"):
        return True
    return settings.when == "worked" and report.outcome == "succeeded"


def build_message(report: Report) -> dict[str, Any]:
    """``text`` for notifications and ``blocks`` for the channel; values of the table are shown, never interpreted."""
    from slack_sdk.models.blocks import ContextBlock, HeaderBlock, MarkdownTextObject, PlainTextObject, SectionBlock

    table = f"{report.catalog}.{report.table}"
    headline = f"{table}: {_WORD[report.outcome]}"
    stats = report.stats
    fields = [
        f"*Data files*\n{stats.files_before:,} → {stats.files_after:,}",
        f"*Delete files*\n{stats.delete_files_before:,} → {stats.delete_files_after:,}",
        f"*Size*\n{size(stats.bytes_before)} → {size(stats.bytes_after)}",
        f"*Average file*\n{_average(stats.bytes_before, stats.files_before)} → "
        f"{_average(stats.bytes_after, stats.files_after)}",
        f"*Snapshots expired*\n{stats.snapshots_expired:,}",
        f"*Orphan files*\n{stats.orphan_files_found:,} found, {stats.orphan_files_deleted:,} deleted",
    ]
    if report.probe:
        fields.append(f"*Probe query*\n{duration(report.probe['before_ms'])} → {duration(report.probe['after_ms'])}")
    held = sum(law.verdict == "held" for law in report.certificate.laws)
    proof = f"certificate {report.certificate.verdict}, {held} of {len(report.certificate.laws)} laws held"
    footer = [
        proof if report.certificate.laws else "nothing was changed",
        f"took {duration(stats.compaction_time_ms)}",
        f"predicted cost {money(report.cost.get('predicted', 0.0), report.cost.get('currency', 'USD'))}",
        f"run {report.run_id}",
    ]
    blocks = [
        HeaderBlock(text=PlainTextObject(text=_cut(headline, 150), emoji=False)),
        SectionBlock(text=MarkdownTextObject(text=_cut(escape(report.reason), _MAX_SECTION_TEXT))),
        SectionBlock(fields=[MarkdownTextObject(text=text) for text in fields]),
        ContextBlock(elements=[MarkdownTextObject(text=_cut(escape(" · ".join(footer)), _MAX_SECTION_TEXT))]),
    ]
    return {
        "text": _cut(escape(f"{headline} ({report.reason})"), _MAX_SECTION_TEXT),
        "blocks": [block.to_dict() for block in blocks],
    }


def post(token: str, channel: str, report: Report, *, base_url: str | None = None) -> str:
    """Post the report and return the message's timestamp, Slack's name for it."""
    from slack_sdk import WebClient
    from slack_sdk.errors import SlackApiError
    from slack_sdk.http_retry.builtin_handlers import ConnectionErrorRetryHandler, RateLimitErrorRetryHandler

    client = WebClient(
        token=token,
        base_url=base_url or WebClient.BASE_URL,
        timeout=15,
        retry_handlers=[ConnectionErrorRetryHandler(), RateLimitErrorRetryHandler(max_retry_count=3)],
    )
    try:
        answer = client.chat_postMessage(channel=channel, unfurl_links=False, **build_message(report))
    except SlackApiError as error:
        raise SlackError(f"Slack refused the report for {channel}: {error.response['error']}") from error
    except OSError as error:
        raise SlackError(f"Slack could not be reached: {error}") from error
    return str(answer["ts"])


def escape(text: str) -> str:
    """``text`` as Slack shows it literally: no mentions, links or formatting from a table's name or an error."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_~`])", "\u200b\\1\u200b", text)


def _average(total: int, files: int) -> str:
    return size(total / files) if files else "-"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"

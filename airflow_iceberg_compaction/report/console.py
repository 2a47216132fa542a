"""The report for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from airflow_iceberg_compaction.report.text import duration, money, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from airflow_iceberg_compaction.documents import Certificate, Report

_COLOURS = {
    "succeeded": "green", "nothing_to_do": "cyan", "refused": "yellow", "conflicted": "yellow", "failed": "red",
    "proven": "green", "partial": "yellow", "violated": "red",
}  # fmt: skip


def render_report(report: Report) -> RenderableType:
    """Outcome, steps, before and after, certificate."""
    headline = Text.assemble(
        (f"{report.catalog}.{report.table}", "bold"), "  ", coloured(report.outcome), f"  {report.reason}"
    )
    return Group(headline, _sections(report), _numbers(report), render_certificate(report))


def coloured(word: str) -> Text:
    return Text(word.replace("_", " "), style=_COLOURS.get(word, ""))


def _sections(report: Report) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("step", "outcome", "Spark", "time", "why"):
        table.add_column(column, overflow="fold")
    for section in report.sections:
        took = duration(section.duration_ms) if section.spark_started else "-"
        started = "started" if section.spark_started else "not started"
        table.add_row(section.section, coloured(section.outcome), started, took, escape(section.reason))
    return table


def _numbers(report: Report) -> Table:
    stats = report.stats
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in ("before", "after"):
        table.add_column(column, justify="right")
    table.add_row("data files", f"{stats.files_before:,}", f"{stats.files_after:,}")
    table.add_row("delete files", f"{stats.delete_files_before:,}", f"{stats.delete_files_after:,}")
    table.add_row("bytes", size(stats.bytes_before), size(stats.bytes_after))
    average = (
        size(stats.bytes_before / stats.files_before) if stats.files_before else "-",
        size(stats.bytes_after / stats.files_after) if stats.files_after else "-",
    )
    table.add_row("average file", *average)
    if report.probe:
        table.add_row("probe query", duration(report.probe["before_ms"]), duration(report.probe["after_ms"]))
    cost = money(report.cost.get("predicted", 0.0), report.cost.get("currency", "USD"))
    table.add_row("predicted cost", "", cost)
    return table


def render_certificate(report: Report) -> RenderableType:
    """The verdict, and each law with its numbers summed up by name."""
    certificate = report.certificate
    if not certificate.laws:
        return Text("certificate: nothing was changed, so there is nothing to prove", style="cyan")
    headline = Text.assemble("certificate: ", coloured(certificate.verdict))
    return Group(headline, _laws(certificate), *(Text(f"  {remark}", style="yellow") for remark in certificate.remarks))


def _laws(certificate: Certificate) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("law", "checked", "held", "violated", "not checked"):
        table.add_column(column, justify="left" if column in ("law", "checked") else "right")
    kinds = dict.fromkeys((law.name, law.checked) for law in certificate.laws)
    for name, checked in kinds:
        verdicts = [law.verdict for law in certificate.laws if (law.name, law.checked) == (name, checked)]
        counts = [str(verdicts.count(verdict)) for verdict in ("held", "violated", "not_checked")]
        table.add_row(name, checked.replace("_", " "), *counts)
    return table

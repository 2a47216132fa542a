"""The report as one page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.report.text import duration, money, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_iceberg_compaction.documents import Plan, Report

_MAX_ROWS = 500  # partitions and laws shown; the documents hold all of them

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.badge { padding: .1rem .5rem; border-radius: .6rem; color: #fff; background: #666 }
.succeeded, .proven, .held { background: #1a7f37 } .nothing_to_do { background: #57606a }
.refused, .conflicted, .partial, .not_checked { background: #9a6700 } .failed, .violated { background: #cf222e }
.bar { background: #8883; height: .9rem } .bar div { background: #0969da; height: 100% }
small { opacity: .7 }
"""


def render_html(report: Report, plan: Plan | None = None) -> str:
    """The page; ``plan`` adds the decision for each partition. Every value is escaped."""
    title = f"{report.catalog}.{report.table}"
    when = datetime.fromtimestamp(report.created_at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = [
        f"<h1>{escape(title)} {_badge(report.outcome)}</h1><p>{escape(report.reason)}</p>",
        f"<p><small>run {escape(report.run_id)} · {when}</small></p>",
        _before_and_after(report),
        "<h2>Steps</h2>",
        _table(
            ("step", "outcome", "Spark", "time", "why"),
            (
                (
                    escape(section.section),
                    _badge(section.outcome),
                    "started" if section.spark_started else "not started",
                    duration(section.duration_ms) if section.spark_started else "",
                    escape(section.reason),
                )
                for section in report.sections
            ),
        ),
        _certificate(report),
    ]
    if plan is not None and plan.rewrite.partitions:
        parts.append(_partitions(plan))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _before_and_after(report: Report) -> str:
    stats = report.stats
    rows = [
        ("data files", stats.files_before, stats.files_after, f"{stats.files_before:,}", f"{stats.files_after:,}"),
        (
            "delete files",
            stats.delete_files_before,
            stats.delete_files_after,
            f"{stats.delete_files_before:,}",
            f"{stats.delete_files_after:,}",
        ),
        ("bytes", stats.bytes_before, stats.bytes_after, size(stats.bytes_before), size(stats.bytes_after)),
    ]
    if report.probe:
        before, after = report.probe["before_ms"], report.probe["after_ms"]
        rows.append(("probe query", before, after, duration(before), duration(after)))
    table = _table(
        ("", "before", "", "after", ""),
        (
            (name, shown_before, _bar(before, before), shown_after, _bar(after, before))
            for name, before, after, shown_before, shown_after in rows
        ),
    )
    cost = money(report.cost.get("predicted", 0.0), report.cost.get("currency", "USD"))
    orphans = f"{stats.orphan_files_found:,} found, {stats.orphan_files_deleted:,} deleted"
    return (
        f"<h2>Before and after</h2>{table}<p>Snapshots expired: {stats.snapshots_expired:,}. Orphan files: {orphans}. "
        f"Predicted cost: {escape(cost)}.</p>"
    )


def _certificate(report: Report) -> str:
    certificate = report.certificate
    if not certificate.laws:
        return "<h2>Certificate</h2><p>Nothing was changed, so there is nothing to prove.</p>"
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in certificate.remarks)
    laws = _table(
        ("law", "scope", "before", "after", "verdict", "checked"),
        (
            (
                escape(law.name),
                escape(law.scope),
                escape(str(law.before)[:200]),
                escape(str(law.after)[:200]),
                _badge(law.verdict),
                law.checked.replace("_", " "),
            )
            for law in certificate.laws[:_MAX_ROWS]
        ),
    )
    return f"<h2>Certificate {_badge(certificate.verdict)}</h2>{remarks}{laws}{_more(len(certificate.laws))}"


def _partitions(plan: Plan) -> str:
    from airflow_iceberg_compaction.report.text import partition

    table = _table(
        ("partition", "decision", "why", "files", "in", "out"),
        (
            (
                escape(partition(decided.partition)),
                escape(decided.decision),
                escape(decided.detail or decided.reason),
                f"{decided.data_files:,}",
                f"{decided.input_files:,}",
                f"{decided.output_files:,}",
            )
            for decided in plan.rewrite.partitions[:_MAX_ROWS]
        ),
    )
    return f"<h2>Partitions</h2>{table}{_more(len(plan.rewrite.partitions))}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _badge(word: str) -> str:
    return f'<span class="badge {escape(word)}">{escape(word.replace("_", " "))}</span>'


def _bar(value: float, most: float) -> str:
    return f'<div class="bar"><div style="width:{min(100.0, 100 * value / most if most else 0):.1f}%"></div></div>'


def _more(total: int) -> str:
    return f"<p><small>and {total - _MAX_ROWS:,} more</small></p>" if total > _MAX_ROWS else ""

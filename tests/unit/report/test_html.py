from __future__ import annotations

from dataclasses import replace

import report_examples as examples

from airflow_iceberg_compaction.documents import PartitionPlan, RewriteSection, TableNumbers
from airflow_iceberg_compaction.report.html import render_html
from airflow_iceberg_compaction.report.summary import build_report

HOSTILE = "<script>alert('x')</script>"


def test_no_value_of_a_table_becomes_markup() -> None:
    partition = PartitionPlan(
        spec_id=0, partition={HOSTILE: HOSTILE}, decision="skip", reason="healthy", detail=HOSTILE
    )
    plan = replace(examples.a_plan(), table=HOSTILE, rewrite=RewriteSection(partitions=(partition,)))
    step = examples.rewrite_step(reason=HOSTILE, laws=(examples.law(name=HOSTILE, before=HOSTILE),))
    page = render_html(build_report(plan, [examples.result(step)], TableNumbers(), 0), plan)
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_needs_nothing_from_the_network() -> None:
    page = render_html(build_report(examples.a_plan(), [], None, 0))
    assert "http" not in page
    assert "src=" not in page

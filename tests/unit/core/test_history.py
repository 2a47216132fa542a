from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import report_examples as examples

from airflow_iceberg_compaction.documents import Report, StepResult, TableNumbers
from airflow_iceberg_compaction.history import History, Learned
from airflow_iceberg_compaction.report.summary import build_report

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SWEEP = StepResult(section="orphans", outcome="succeeded", numbers={"orphan_files_found": 1})


def a_report(at_ms: int, *steps: StepResult, table: str = "shop.events") -> Report:
    plan = replace(examples.a_plan(), table=table)
    return build_report(plan, [examples.result(*steps)], TableNumbers(data_files=43), at_ms)


def test_there_is_no_history_before_the_first_run(catalog: Catalog, namespace: str) -> None:
    history = History(catalog, f"{namespace}.history")
    assert history.rows() == []
    assert history.learned("shop.events") == Learned()


def test_a_run_is_read_back_newest_first(catalog: Catalog, namespace: str) -> None:
    history = History(catalog, f"{namespace}.history")
    first, second = (a_report(t, examples.rewrite_step(), examples.expire_step()) for t in (1000, 2000))
    history.append(first)
    history.append(second)
    rows = history.rows("shop.events")
    assert [Report.from_json(row["report"]) for row in rows] == [second, first]
    assert rows[0]["files_before"] == 100
    assert history.rows("shop.other") == []


def test_throughput_is_learned_from_rewrites_of_the_same_table(catalog: Catalog, namespace: str) -> None:
    history = History(catalog, f"{namespace}.history")
    history.append(a_report(1000, examples.rewrite_step(duration_ms=2000), examples.expire_step()))
    history.append(a_report(2000, examples.rewrite_step(duration_ms=9000), table="shop.other"))
    history.append(a_report(3000, examples.rewrite_step(outcome="failed", duration_ms=1)))
    assert history.learned("shop.events").throughput == 3000.0  # 6000 bytes in 2 s


def test_only_a_finished_sweep_counts_as_one(catalog: Catalog, namespace: str) -> None:
    history = History(catalog, f"{namespace}.history")
    history.append(a_report(1000, examples.rewrite_step(), examples.expire_step(), SWEEP))
    history.append(a_report(2000, examples.rewrite_step(), examples.expire_step(), replace(SWEEP, outcome="failed")))
    assert history.learned("shop.events").last_orphan_sweep_ms == 1000

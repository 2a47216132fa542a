"""The policy's own question to the table, asked before and after: equal answers are one more law, the times a measure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_iceberg_compaction.documents import Law
from spark_jobs.checksum import Checksum, checksum
from spark_jobs.errors import RefusedError
from spark_jobs.jvm import first_line

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import LawVerdict
    from spark_jobs.jvm import Gateway


@dataclass(frozen=True)
class Measured:
    answer: Checksum
    duration_ms: int


def warm_up_and_run(gateway: Gateway, query: str | None) -> Measured | None:
    """Run ``query`` twice and measure the second time: the first pays for a JVM that has just started."""
    return run(gateway, query) and run(gateway, query)


def run(gateway: Gateway, query: str | None) -> Measured | None:
    """Run ``query`` and keep a checksum of its answer, never the answer."""
    if query is None:
        return None
    started = time.monotonic()
    try:
        answer = checksum(gateway.spark.sql(query))
    except Exception as error:
        raise RefusedError(f"the probe cannot be run ({first_line(error)}); correct `probe` in the policy") from error
    return Measured(answer, int((time.monotonic() - started) * 1000))


def compare(before: Measured, after: Measured | None, others_wrote: bool) -> tuple[Law, dict[str, Any]]:
    """The law and the numbers ``{before_ms, after_ms, equal}``. Another answer proves nothing once others wrote."""
    equal = after is not None and before.answer == after.answer
    other_answer: LawVerdict = "not_checked" if others_wrote else "violated"
    why = "other writers changed the table meanwhile" if others_wrote else "and nobody else wrote to the table"
    law = Law(
        name="probe",
        scope="table",
        before=str(before.answer),
        after=None if after is None else str(after.answer),
        verdict="held" if equal else other_answer,
        checked="after_publish",
        detail="" if equal else f"the probe's answer changed during the run, {why}",
    )
    numbers = {
        "before_ms": before.duration_ms,
        "after_ms": None if after is None else after.duration_ms,
        "equal": equal,
    }
    return law, numbers

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
    from spark_jobs.jvm import Gateway


@dataclass(frozen=True)
class Measured:
    answer: Checksum
    duration_ms: int


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


def compare(before: Measured, after: Measured | None) -> tuple[Law, dict[str, Any]]:
    """The law and the numbers ``{before_ms, after_ms, equal}``."""
    equal = after is not None and before.answer == after.answer
    law = Law(
        name="probe",
        scope="table",
        before=str(before.answer),
        after=None if after is None else str(after.answer),
        verdict="held" if equal else "violated",
        checked="after_publish",
        detail="" if equal else "the probe's answer changed during the run; other writers may have changed its rows",
    )
    numbers = {
        "before_ms": before.duration_ms,
        "after_ms": None if after is None else after.duration_ms,
        "equal": equal,
    }
    return law, numbers

"""What every step is given."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.engines.iceberg import IcebergEngine
from spark_jobs.errors import CatalogError, RefusedError
from spark_jobs.jvm import first_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_iceberg_compaction.documents import Plan
    from spark_jobs.engines.iceberg import EngineFactory
    from spark_jobs.jvm import Gateway, IcebergTable
    from spark_jobs.results import ResultDocument

RUN_ID, PLAN_ID, BATCH_ID, ATTEMPT_ID = (
    "iceberg-compaction.run-id",
    "iceberg-compaction.plan-id",  # a run that is cleared and assessed again has another plan, and so other work
    "iceberg-compaction.batch-id",
    "iceberg-compaction.attempt-id",
)
SECTION = "iceberg-compaction.section"
AUDIT = "iceberg-compaction.audit"
CLOCK_SKEW_MS = 24 * 3600 * 1000  # how far the clocks of writers may lie apart


def back_off(attempt: int) -> None:
    """Wait longer after every lost race, and not in step with other losers."""
    time.sleep(min(2.0**attempt, 30.0) * random.uniform(0.5, 1.0))


def _nothing(_stage: str) -> None:
    pass


@dataclass(frozen=True)
class Context:
    gateway: Gateway
    plan: Plan
    document: ResultDocument
    engine: EngineFactory = IcebergEngine
    max_attempts: int = 5
    back_off: Callable[[int], None] = back_off
    # Called with the name of each stage of a batch; the kill and conflict tests act there.
    at_stage: Callable[[str], None] = field(default=_nothing)

    def load_table(self) -> IcebergTable:
        """The planned table as it is now; RefusedError when another one has taken its name."""
        try:
            table = self.gateway.table(f"{self.plan.catalog}.{self.plan.table}")
        except Exception as error:
            raise CatalogError(
                f"{self.plan.table} could not be loaded: {first_line(error)}; does it exist, and does the cluster reach the "
                "catalog?"
            ) from error
        if table.uuid != self.plan.table_uuid:
            raise RefusedError(
                f"{self.plan.table} has uuid {table.uuid}, the plan was made for {self.plan.table_uuid}: the table was "
                "replaced since; assess it again"
            )
        return table

    def stamps(self, section: str, **more: str) -> dict[str, str]:
        """What identifies our commits in the snapshot log."""
        return {RUN_ID: self.plan.run_id, PLAN_ID: self.plan.plan_id, SECTION: section, **more}

"""A table under a policy: assess, plan and carry out through the real job, as often as a test likes."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from random_tables import Iceberg

from airflow_iceberg_compaction.catalog import CatalogConfig
from airflow_iceberg_compaction.documents import Plan, RunResult
from airflow_iceberg_compaction.health.assessment import assess
from airflow_iceberg_compaction.health.details import read_details
from airflow_iceberg_compaction.plan.parameters import RunParameters
from airflow_iceberg_compaction.plan.planner import candidates, make_plan
from airflow_iceberg_compaction.policy.model import Prices, TablePolicy


@dataclass
class Maintained:
    iceberg: Iceberg
    lake: CatalogConfig
    policy: TablePolicy
    folder: Path
    clock_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    def plan(self, parameters: RunParameters | None = None, selected: frozenset[Any] | None = None) -> Plan:
        parameters = parameters or RunParameters()
        now_ms = max(self.clock_ms, int(time.time() * 1000))
        table = self.lake.load_table(self.policy.name)
        health = assess(table, self.policy, catalog_name="lake", table_name=self.policy.name, now_ms=now_ms)
        keys = candidates(health, self.policy, parameters, now_ms, selected)
        return make_plan(
            health,
            read_details(table, health, keys),
            self.policy,
            Prices(),
            parameters,
            run_id=f"run-{uuid.uuid4().hex[:8]}",
            now_ms=now_ms,
            selected=selected,
            last_orphan_sweep_ms=now_ms,
        )

    def carry_out(self, plan: Plan) -> RunResult:
        """Every section of the plan by the real job; whatever it does not succeed in is an error."""
        from spark_jobs.maintain import carry_out

        uri = self.folder / f"{plan.run_id}.json"
        code = carry_out(self.iceberg.spark, plan, str(uri))
        result = RunResult.from_json(uri.read_text())
        assert code == 0, result
        return result


def maintained_by(iceberg: Iceberg, lake: CatalogConfig, name: str, folder: Path, **settings: Any) -> Maintained:
    """The table under a policy that takes everything at once: no quiet time, no expiry."""
    rewrite = {"min_quiet": timedelta(0), **settings.pop("rewrite", {})}
    expiry = {"enabled": False, **settings.pop("expire_snapshots", {})}
    policy = TablePolicy.model_validate({"name": name, "rewrite": rewrite, "expire_snapshots": expiry, **settings})
    return Maintained(iceberg, lake, policy, folder)

"""What one run may spend. A partition that does not fit is deferred by name, never silently."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.plan.cost import Tariff, Work

if TYPE_CHECKING:
    from airflow_iceberg_compaction.plan.parameters import RunParameters
    from airflow_iceberg_compaction.policy.model import TablePolicy


@dataclass(kw_only=True)
class Budget:
    """The limits of a run and what is already spent of them."""

    tariff: Tariff
    max_files: int | None = None
    max_bytes: int | None = None
    max_cost: float | None = None
    max_partitions: int | None = None
    files: int = 0
    bytes: int = 0
    cost: float = 0.0
    partitions: int = 0

    @classmethod
    def of(cls, policy: TablePolicy, parameters: RunParameters, tariff: Tariff) -> Budget:
        rewrite = policy.rewrite
        return cls(
            tariff=tariff,
            max_files=parameters.max_files or rewrite.max_files,
            max_bytes=rewrite.max_bytes,
            max_cost=rewrite.max_cost,
            max_partitions=rewrite.max_partitions,
        )

    def refusal(self, work: Work, partitions: int = 1) -> tuple[str, str] | None:
        """The first limit that ``work`` would break, as a reason word and a sentence; None when it fits."""
        if self.max_partitions is not None and self.partitions + partitions > self.max_partitions:
            return "max_partitions", f"{self.partitions} partitions are planned, rewrite.max_partitions is reached"
        files, size = self.files + work.input_files, self.bytes + work.input_bytes
        if self.max_files is not None and files > self.max_files:
            return "budget_files", _over(f"{files:,}", "files", "max_files", f"{self.max_files:,}")
        if self.max_bytes is not None and size > self.max_bytes:
            return "budget_bytes", _over(f"{size:,}", "bytes", "max_bytes", f"{self.max_bytes:,}")
        if self.max_cost is not None and (cost := self.cost + self.tariff.total(work)) > self.max_cost:
            return "budget_cost", _over(f"{cost:.4f}", self.tariff.prices.currency, "max_cost", f"{self.max_cost:g}")
        return None

    def spend(self, work: Work, partitions: int = 1) -> None:
        self.files += work.input_files
        self.bytes += work.input_bytes
        self.cost += self.tariff.total(work)
        self.partitions += partitions


def _over(amount: str, unit: str, setting: str, limit: str) -> str:
    return f"the run would come to {amount} {unit}, rewrite.{setting} is {limit}"

"""What a rewrite costs and what it saves, from counts and bytes alone. Every assumption is named in the plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_iceberg_compaction.documents import Cost

if TYPE_CHECKING:
    from airflow_iceberg_compaction.policy.model import Prices

GB = 1000**3
DAYS_PER_MONTH = 30.0


class Work(NamedTuple):
    """The amounts that are paid for. A tuple, because a large plan makes hundreds of thousands."""

    input_files: int = 0
    input_bytes: int = 0
    input_delete_files: int = 0
    output_files: int = 0

    @classmethod
    def total(cls, parts: Iterable[Work]) -> Work:
        works = list(parts)
        return cls(
            input_files=sum([work.input_files for work in works]),
            input_bytes=sum([work.input_bytes for work in works]),
            input_delete_files=sum([work.input_delete_files for work in works]),
            output_files=sum([work.output_files for work in works]),
        )


@dataclass(frozen=True, kw_only=True)
class Tariff:
    """Prices with the throughput and the retention that one plan assumes."""

    prices: Prices
    throughput_bytes_per_second: float
    throughput_source: str
    retention_days: float

    @classmethod
    def of(cls, prices: Prices, throughput: float | None, retention_days: float) -> Tariff:
        """A learned ``throughput`` wins over the policy's default."""
        learned = throughput is not None and throughput > 0
        return cls(
            prices=prices,
            throughput_bytes_per_second=float(throughput if learned and throughput else prices.throughput),
            throughput_source="history" if learned else "default",
            retention_days=retention_days,
        )

    def total(self, work: Work) -> float:
        """The price of ``work``: requests, compute, and the old files kept until their snapshots expire."""
        return self._requests_cost(work) + self._compute_cost(work) + self._storage_cost(work)

    def cost(self, work: Work) -> Cost:
        """The same price in its parts, with what readers save and with the assumptions behind it."""
        prices = self.prices
        files_gone = work.input_files + work.input_delete_files - work.output_files
        return Cost(
            currency=prices.currency,
            total=self.total(work),
            requests=_requests(work),
            requests_cost=self._requests_cost(work),
            compute_seconds=work.input_bytes / self.throughput_bytes_per_second,
            compute_cost=self._compute_cost(work),
            storage_cost=self._storage_cost(work),
            savings_per_day=max(0, files_gone) * prices.reads_per_day * prices.per_1000_requests / 1000,
            throughput_bytes_per_second=self.throughput_bytes_per_second,
            throughput_source=self.throughput_source,
            assumptions=self._assumptions(),
        )

    def _requests_cost(self, work: Work) -> float:
        return _requests(work) * self.prices.per_1000_requests / 1000

    def _compute_cost(self, work: Work) -> float:
        return work.input_bytes / self.throughput_bytes_per_second / 3600 * self.prices.per_compute_hour

    def _storage_cost(self, work: Work) -> float:
        return work.input_bytes / GB * self.prices.per_gb_month * self.retention_days / DAYS_PER_MONTH

    def _assumptions(self) -> tuple[str, ...]:
        learned = (
            "learned from past runs" if self.throughput_source == "history" else "prices.throughput, nothing learned"
        )
        return (
            "two requests for each input file and one for each output file",
            f"{self.throughput_bytes_per_second / 1e6:.1f} MB/s of input ({learned})",
            f"replaced files are stored for {round(self.retention_days, 2):g} days until their snapshots expire",
            f"readers open each file {self.prices.reads_per_day:g} times a day (prices.reads_per_day)",
        )


def _requests(work: Work) -> int:
    return 2 * work.input_files + work.output_files

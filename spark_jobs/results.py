"""The result document while the job runs: rewritten after every batch, so a killed job leaves what it did."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from airflow_iceberg_compaction.documents import DocumentError, RunResult

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Plan, StepResult
    from spark_jobs.files import Files


class ResultDocument:
    """Keeps one RunResult and writes it whenever it changes."""

    def __init__(self, files: Files, uri: str, result: RunResult) -> None:
        self.uri = uri
        self._files = files
        self.result = result

    @classmethod
    def open(
        cls, files: Files, uri: str, plan: Plan, *, application_id: str, versions: tuple[str, str]
    ) -> ResultDocument:
        """Start a result, keeping what an earlier application of the same run left at ``uri``."""
        result = RunResult(
            run_id=plan.run_id,
            catalog=plan.catalog,
            table=plan.table,
            started_at_ms=now_ms(),
            application_id=application_id,
            spark_version=versions[0],
            iceberg_version=versions[1],
        )
        earlier = _earlier(files, uri, plan.run_id)
        if earlier is not None:
            result = dataclasses.replace(
                result,
                started_at_ms=earlier.started_at_ms,
                steps=earlier.steps,
                written_prefixes=earlier.written_prefixes,
            )
        document = cls(files, uri, result)
        document._write()
        return document

    def update(self, step: StepResult) -> None:
        """Put ``step`` in the place of any earlier state of its section."""
        kept = tuple(s for s in self.result.steps if s.section != step.section)
        self._replace(steps=(*kept, step))

    def will_write_under(self, prefix: str) -> None:
        """Record where uncommitted files may lie, before the first one is written."""
        if prefix not in self.result.written_prefixes:
            self._replace(written_prefixes=(*self.result.written_prefixes, prefix))

    def finish(self, error: str = "") -> None:
        self._replace(finished_at_ms=now_ms(), error=error)

    def beside(self, suffix: str) -> str:
        """A URI for a file that belongs to this result."""
        return f"{self.uri.removesuffix('.json')}{suffix}"

    def write_beside(self, suffix: str, text: str) -> str:
        uri = self.beside(suffix)
        self._files.write_text(uri, text)
        return uri

    def _replace(self, **changes: object) -> None:
        self.result = dataclasses.replace(self.result, **changes)  # type: ignore[arg-type]
        self._write()

    def _write(self) -> None:
        self._files.write_text(self.uri, self.result.to_json(indent=1))


def _earlier(files: Files, uri: str, run_id: str) -> RunResult | None:
    try:
        earlier = RunResult.from_json(files.read_text(uri))
    except (FileNotFoundError, DocumentError):
        return None
    return earlier if earlier.run_id == run_id else None


def now_ms() -> int:
    return time.time_ns() // 1_000_000

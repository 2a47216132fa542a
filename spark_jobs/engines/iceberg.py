"""The default engine: Iceberg's own runner, one Spark job per file group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.errors import EngineError, JobError
from spark_jobs.jvm import first_line, translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_iceberg_compaction.documents import RewriteSection
    from spark_jobs.jvm import Gateway, Group, IcebergTable


class Engine(Protocol):
    """Writes new files for one group and returns them as a Java ``Set<DataFile>``; it never publishes anything."""

    def rewrite(self, group: Group) -> Any: ...


class EngineFactory(Protocol):
    """Makes the engine of one attempt at one batch. ``table`` places new files under the attempt's own folder."""

    def __call__(
        self, gateway: Gateway, table: IcebergTable, section: RewriteSection, options: Mapping[str, str]
    ) -> Engine: ...


class IcebergEngine:
    """Iceberg's bin-pack, sort and z-order runners, reached below the action that would publish at once."""

    def __init__(
        self, gateway: Gateway, table: IcebergTable, section: RewriteSection, options: Mapping[str, str]
    ) -> None:
        self._gateway = gateway
        self._session = gateway.session_for_rewrites()
        self._runner = gateway.runner(table, section.strategy, section.sort_order, options, self._session)

    def rewrite(self, group: Group) -> Any:
        self._gateway.activate(self._session)
        try:
            return self._runner.rewrite(group.java)
        except Exception as error:
            known = translate(error, f"group {group.index} could not be written", of_inputs=True)
            if type(known) is not JobError:
                raise known from error
            raise EngineError(
                f"group {group.index} ({len(group.inputs)} files, {group.input_bytes} bytes) could not be written: "
                f"{first_line(error)}; see the Spark log, and give the executors more memory if they were lost"
            ) from error

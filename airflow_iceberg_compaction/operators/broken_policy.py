"""Stands where the tasks of a table would be whose policy cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator

from airflow_iceberg_compaction.exceptions import MaintenanceConfigurationError

if TYPE_CHECKING:
    from airflow.sdk import Context


class BrokenPolicyOperator(BaseOperator):
    """
    Fail with the mistakes of a policy, so that a broken table is seen and not silently left out.

    :param message: What is wrong and where.
    """

    ui_color = "#f7c5c0"

    def __init__(self, *, message: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def execute(self, context: Context) -> NoReturn:  # noqa: ARG002
        raise MaintenanceConfigurationError(self.message)

"""A maintenance report sent from a callback of any Dag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, BaseNotifier

from airflow_iceberg_compaction import store
from airflow_iceberg_compaction.documents import Report

if TYPE_CHECKING:
    from airflow.sdk import Context


class IcebergReportNotifier(BaseNotifier):
    """
    Post a maintenance report to Slack from ``on_success_callback`` or ``on_failure_callback``.

    The generated Dags post by themselves where the policy says so; this is for Dags that use the task group, or that
    run on a maintenance asset and want another channel.

    :param channel: Slack channel. (templated)
    :param report_uri: Where the report lies: the XCom ``report_uri`` of a report task, or ``report_uri`` in the extra
        of an event on the maintenance asset. (templated)
    :param slack_conn_id: Connection of type ``slack`` whose password is the token.
    """

    template_fields: Sequence[str] = ("channel", "report_uri")

    def __init__(self, *, channel: str, report_uri: str, slack_conn_id: str = "slack_default") -> None:
        super().__init__()
        self.channel = channel
        self.report_uri = report_uri
        self.slack_conn_id = slack_conn_id

    def notify(self, context: Context) -> None:  # noqa: ARG002
        report = Report.from_json(store.read_text(self.report_uri))
        post_to_slack(self.slack_conn_id, self.channel, report)


def post_to_slack(conn_id: str, channel: str, report: Report) -> str:
    """Post ``report`` with the token of an Airflow connection and return the message's timestamp."""
    from airflow_iceberg_compaction.report.slack import post

    connection = BaseHook.get_connection(conn_id)
    if not connection.password:
        raise ValueError(f"connection {conn_id!r} has no password; put the Slack token there")
    return post(connection.password, channel, report, base_url=connection.extra_dejson.get("base_url"))

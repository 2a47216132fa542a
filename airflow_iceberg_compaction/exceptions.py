"""What can go wrong inside a task, sorted by whether trying again can help."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


class MaintenanceConfigurationError(AirflowFailException):
    """The policy, a connection or a run parameter is wrong; no retry will mend it."""


class CannotJudgeError(AirflowFailException):
    """The table's metadata cannot be judged, so nothing may be rewritten; never read as healthy."""


class MaintenanceRefusedError(AirflowFailException):
    """The job looked at the table and refused to touch it."""


class CertificateError(AirflowFailException):
    """A conservation law was violated, or the job published files without auditing them."""


class MaintenanceConflictError(AirflowException):
    """Another writer won every attempt to commit; the next try plans against the new head."""


class MaintenanceFailedError(AirflowException):
    """The Spark application failed; the next try resumes after the batches it committed."""


class ResultMissingError(AirflowException):
    """The application ended without a readable result document."""

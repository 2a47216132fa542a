"""Java failures as the job's own errors."""

from __future__ import annotations

from typing import Any

from spark_jobs.errors import ConflictError, InputGoneError, JobError, UnknownCommitStateError

_CONFLICTS = (
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.ValidationException",
)
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"
CLEANABLE = "org.apache.iceberg.exceptions.CleanableFailure"
# The two ways Spark reports an input that an expiry deleted under a running job.
_GONE = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")


def translate(error: Exception, what: str, *, of_commit: bool = False, of_inputs: bool = False) -> JobError:
    """A Java failure as one of ours, by the classes in its chain of causes.

    The same exceptions mean a lost race in a commit, or while inputs are read, and a mistake or damage anywhere else.
    """
    if isinstance(error, JobError):
        return error
    names = java_classes(error)
    message = f"{what}: {first_line(error)}"
    if _UNKNOWN in names:
        return UnknownCommitStateError(message)
    if of_commit and any(name in names for name in _CONFLICTS):
        return ConflictError(message)
    if of_inputs and any(name in names or name in str(error) for name in _GONE):
        return InputGoneError(message)
    return JobError(f"{message}; see the Spark driver's log")


def is_missing_file(error: Exception) -> bool:
    return any(name in java_classes(error) for name in _GONE)


def first_line(error: Exception) -> str:
    """The message of the innermost Java cause, or of the Python error."""
    java = _java_exception(error)
    message = str(error)
    while java is not None:
        message = f"{java.getClass().getSimpleName()}: {java.getMessage()}"
        java = java.getCause()
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__


def _java_exception(error: Exception) -> Any:
    # pyspark replaces some Java exceptions by its own classes, which keep the original as `_origin`.
    origin = getattr(error, "_origin", None)
    return getattr(error, "java_exception", None) if origin is None else origin


def java_classes(error: Exception) -> set[str]:
    names: set[str] = set()
    java = _java_exception(error)
    while java is not None:
        current = java.getClass()
        while current is not None:
            names.add(current.getName())
            names.update(interface.getName() for interface in current.getInterfaces())
            current = current.getSuperclass()
        java = java.getCause()
    return names

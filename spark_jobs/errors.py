"""What can go wrong inside the Spark job. Every message ends in what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_iceberg_compaction.documents import Law


class JobError(Exception):
    """Base of everything the job raises on purpose."""


class RefusedError(JobError):
    """The job will not touch this table as it is; nothing was changed."""


class CatalogError(JobError):
    """The catalog could not be asked for the table; it may answer later."""


class LawViolatedError(JobError):
    """New files do not hold the rows of the old ones; nothing of the batch was published."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        self.laws = laws
        broken = "; ".join(
            f"{law.name} of {law.scope}: {law.before!r} before, {law.after!r} after ({law.detail})"
            for law in laws
            if law.verdict == "violated"
        )
        super().__init__(
            f"the audit found a violated law, so nothing was published: {broken}; "
            "keep the input files, and report the Spark and Iceberg versions together with this message"
        )


class ConflictError(JobError):
    """Somebody else changed the same files first; planning again from the new state can succeed."""


class InputGoneError(ConflictError):
    """A file of the batch is not there; a lost race if the table let go of it meanwhile, damage if it did not."""


class UnknownCommitStateError(JobError):
    """The catalog did not say whether the commit happened; only the snapshot log can."""


class EngineError(JobError):
    """Spark could not write the new files."""

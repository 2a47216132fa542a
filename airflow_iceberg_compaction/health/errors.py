"""What can go wrong while a table is judged."""

from __future__ import annotations


class HealthError(Exception):
    """Base of every error of this package."""


class ManifestError(HealthError):
    """A manifest or manifest list cannot be decoded, so whatever it lists cannot be judged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"cannot decode {path}: {reason}; read the table with Spark to see whether the file is damaged, and if so "
            "roll back to a snapshot that does not use it"
        )
        self.path = path
        self.reason = reason


class StoreError(HealthError):
    """The store did not hand out a metadata file that may well be there: worth another try, and no judgement."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}; check the store's address and credentials, then try again")
        self.path = path
        self.reason = reason


class SelectionError(HealthError):
    """A partition filter does not parse, or asks about something that partition values cannot answer."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"partition filter {text!r}: {reason}")
        self.text = text
        self.reason = reason

"""What can be wrong with a plan, as exceptions whose message ends in what to do."""

from __future__ import annotations


class PlanError(ValueError):
    """No plan can be made from what was given."""


class PredicateError(PlanError):
    """A partition cannot be written as an Iceberg filter; the partition is refused, the rest of the plan stands."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"partition field {field}: {why}")
        self.field = field
        self.why = why

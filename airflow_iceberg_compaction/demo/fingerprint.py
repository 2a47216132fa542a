"""The content of a table in one line, whatever files and order it is stored in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Fingerprint:
    rows: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.rows:,} rows, sha256 {self.sha256[:16]}"


def fingerprint(table: Table) -> Fingerprint:
    """Rows and a hash over every value of every column, deletes applied, sorted so that order does not matter."""
    content = table.scan().to_arrow()
    content = content.sort_by([(name, "ascending") for name in content.column_names])
    digest = hashlib.sha256()
    for column in content.columns:
        for value in column:
            digest.update(repr(value.as_py()).encode() + b"\0")
    return Fingerprint(content.num_rows, digest.hexdigest())

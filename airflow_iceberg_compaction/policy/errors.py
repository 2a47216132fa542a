"""What is wrong with a policy file: every problem at its place, with what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SHOWN = 100  # an import error with more text than this helps nobody
_MAX_SOURCE = 160


@dataclass(frozen=True)
class Problem:
    """One mistake. ``line`` and ``column`` count from 1 and lie inside the file."""

    file: str
    line: int
    column: int
    path: str  # rewrite.max_files below tables[shop.events], defaults or profiles.NAME
    message: str
    advice: str = ""
    source: str = ""  # the offending line; empty where it might show a secret

    @property
    def headline(self) -> str:
        """``file:line:col: key.path: what is wrong; what is right``, on one line."""
        where = f"{self.file}:{self.line}:{self.column}"
        what = f"{self.message}; {self.advice}" if self.advice else self.message
        return ": ".join(part for part in (where, self.path, what) if part)

    def __str__(self) -> str:
        """The headline, the offending line and a caret."""
        if not self.source.strip():
            return self.headline
        # A caret under a tab or far out in a long line would point nowhere.
        start = max(0, self.column - _MAX_SOURCE // 2) if len(self.source) > _MAX_SOURCE else 0
        shown = self.source[start : start + _MAX_SOURCE].replace("\t", " ")
        gutter = f"{self.line:>6} | "
        return f"{self.headline}\n{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {' ' * (self.column - 1 - start)}^"

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": self.path,
            "message": self.message,
            "advice": self.advice,
        }


class PolicyError(ValueError):
    """A policy file cannot be used. ``problems`` holds every mistake that was found, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        shown = [str(problem) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            shown.append(f"... and {len(self.problems) - SHOWN} more problems; mend these first")
        return "\n".join(shown)


class PolicyUnreadableError(PolicyError):
    """The file is not there, or the operating system does not let us read it."""


class Misfit(ValueError):
    """Values that each are fine but do not go together, or that only their key makes wrong.

    :param complaints: pairs of a key path below the checked value and ``what is wrong; what is right``.
    """

    def __init__(self, complaints: Iterable[tuple[tuple[str, ...], str]]) -> None:
        self.complaints = tuple(complaints)
        super().__init__(" / ".join(f"{'.'.join(path)}: {text}" if path else text for path, text in self.complaints))

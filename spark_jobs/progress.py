"""Progress lines on standard output, one stable form for people, Airflow's log and the command line's bar::

    progress <section> batch <n>/<of> files <done>/<of> bytes <done>/<of> state <word>

``state`` is one of planning, writing, auditing, committing, committed, already_committed, already_done, conflicted,
failed. Files and bytes count inputs whose replacements are written. Other lines start with another word.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Progress:
    """Counts of one section, printed whenever they move."""

    section: str
    batches: int
    files: int
    bytes: int
    batch: int = 0
    files_done: int = 0
    bytes_done: int = 0

    def tell(self, state: str, *, files: int = 0, size: int = 0) -> None:
        """Count what was just done and print one line."""
        self.files_done += files
        self.bytes_done += size
        # Drift may bring more files than planned; a bar beyond its end would be worse than a moving end.
        self.files = max(self.files, self.files_done)
        self.bytes = max(self.bytes, self.bytes_done)
        print(
            f"progress {self.section} batch {self.batch}/{self.batches} files {self.files_done}/{self.files} "
            f"bytes {self.bytes_done}/{self.bytes} state {state}",
            flush=True,
        )


def note(text: str) -> None:
    """One line for people."""
    print(f"note {text}", flush=True)

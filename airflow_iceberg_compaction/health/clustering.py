"""How well files are clustered by their sort key: which ranges overlap, in memory that does not grow with overlap.

Files whose ranges overlap form chains. Every file of a chain of two or more overlaps another one, so it is enough to
keep, for each chain, its outermost bounds and its number of files, and chains can be merged in any order.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

# A well clustered table has as many chains as files. Beyond this many in one partition we stop looking.
MAX_CHAINS = 20_000


class Ranges:
    """The chains of overlapping key ranges of some files.

    Ranges that share only an end point do not overlap: sorted files meet like that wherever a key repeats.
    """

    __slots__ = ("counts", "files", "highs", "lows", "overflown", "overlapping", "unknown")

    def __init__(self) -> None:
        self.files = 0
        self.unknown = 0  # files without bounds, say because they hold only nulls
        self.overflown = False
        # Chains in ascending order; lows[i] <= highs[i] <= lows[i + 1].
        self.lows: list[Any] = []
        self.highs: list[Any] = []
        self.counts: list[int] = []
        self.overlapping: list[bool] = []

    def add(self, low: Any, high: Any, count: int = 1, overlapping: bool = False) -> None:
        """Takes in ``count`` files that together span low .. high."""
        self.files += count
        if low is None or high is None or not low <= high:
            self.unknown += count
            return
        if self.overflown:
            return
        # Chains i .. j-1 overlap (low, high) properly: their high is above low and their low is below high.
        start = bisect_right(self.highs, low)
        stop = bisect_left(self.lows, high)
        if low == high:
            same = bisect_left(self.lows, low)
            while same < len(self.lows) and self.lows[same] == low:
                if self.highs[same] == high:
                    self.counts[same] += count
                    self.overlapping[same] = self.overlapping[same] or overlapping
                    return
                same += 1
        if start < stop:
            low = min(low, self.lows[start])
            high = max(high, self.highs[stop - 1])
            count += sum(self.counts[start:stop])
            overlapping = True
        else:
            stop = start = self._place(low, high)
        self.lows[start:stop] = [low]
        self.highs[start:stop] = [high]
        self.counts[start:stop] = [count]
        self.overlapping[start:stop] = [overlapping]
        if len(self.lows) > MAX_CHAINS:
            self.overflown = True
            self.lows, self.highs, self.counts, self.overlapping = [], [], [], []

    def _place(self, low: Any, high: Any) -> int:
        """Where a chain that overlaps none belongs: after all that end at or before its low, points before ranges."""
        position = bisect_left(self.lows, low)
        while position < len(self.lows) and self.lows[position] == low and self.highs[position] <= high:
            position += 1
        return position

    def merge(self, other: Ranges) -> None:
        self.overflown = self.overflown or other.overflown
        files = self.files + other.files
        for low, high, count, overlapping in zip(other.lows, other.highs, other.counts, other.overlapping, strict=True):
            self.add(low, high, count, overlapping)
        self.files = files
        self.unknown += other.unknown

    @property
    def overlapping_files(self) -> int | None:
        """How many files overlap another one; None when there were too many chains to tell."""
        if self.overflown:
            return None
        return sum(count for count, overlapping in zip(self.counts, self.overlapping, strict=True) if overlapping)

    def dump(self, encode: Callable[[Any], Any]) -> Any:
        chains = [
            [encode(low), encode(high), count, int(overlapping)]
            for low, high, count, overlapping in zip(self.lows, self.highs, self.counts, self.overlapping, strict=True)
        ]
        return [self.files, self.unknown, int(self.overflown), chains]

    @classmethod
    def load(cls, value: Any, decode: Callable[[Any], Any]) -> Ranges:
        ranges = cls()
        ranges.files, ranges.unknown, overflown, chains = value
        ranges.overflown = bool(overflown)
        for low, high, count, overlapping in chains:
            ranges.lows.append(decode(low))
            ranges.highs.append(decode(high))
            ranges.counts.append(count)
            ranges.overlapping.append(bool(overlapping))
        return ranges

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self.dump(lambda v: v) == other.dump(lambda v: v)

"""Numbers as people read them; shared by every kind of report."""

from __future__ import annotations


def size(value: float) -> str:
    """1234567 -> '1.2 MB'."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def duration(milliseconds: float) -> str:
    """93500 -> '1m 34s'."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02d}m"


def money(value: float, currency: str) -> str:
    return f"{value:.2f} {currency}" if value >= 0.005 or value == 0 else f"<0.01 {currency}"


def partition(values: dict[str, object]) -> str:
    """{'day': '2024-01-31', 'kind': None} -> 'day=2024-01-31 / kind=null'."""
    shown = (f"{k}={'null' if v is None else v}" for k, v in values.items())
    return " / ".join(shown) or "(whole table)"

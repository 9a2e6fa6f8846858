"""Durations as people write them: 30m, 1h30m, 45s, 2d."""

import re

from crossclaw.domain.errors import Invalid

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
DURATION_MS_MAX = 100 * 366 * 86_400_000


def parse_duration(text: str, *, default_unit: str | None = None) -> int:
    """A duration in milliseconds. A bare number has the default unit, if there is one."""
    compact = "".join(text.split()).lower()
    if default_unit and re.fullmatch(r"\d+(\.\d+)?", compact):
        compact += default_unit
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise Invalid(f"{text!r} is no duration; write it like 30m, 2h or 1d")
    total = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    if total > DURATION_MS_MAX:  # before it is rounded: it may be infinite
        raise Invalid(f"{text[:50]!r} is longer than a hundred years")
    return round(total)


def wait_s(seconds: float | None, default_s: float, most_s: float, zero: str) -> float:
    """The seconds that a tool's `timeoutSeconds` means; `zero` is what 0 means there."""
    if seconds is None:
        return default_s
    if seconds != seconds or seconds < 0:
        raise Invalid(f"timeoutSeconds must be 0 ({zero}) or more")
    return min(seconds, most_s)

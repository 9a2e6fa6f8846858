"""A decision: yes or no, and why."""

import msgspec


class Decision(msgspec.Struct, frozen=True):
    allowed: bool
    reason: str

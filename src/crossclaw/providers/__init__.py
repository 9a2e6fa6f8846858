"""Models, behind one contract: messages in, one assistant message out, words told as they come."""

__all__ = [
    "calls",
    "contract",
    "failures",
    "fallback",
    "keys",
    "listing",
    "options",
    "pieces",
    "prices",
    "registry",
    "retry",
    "room",
    "speech",
]

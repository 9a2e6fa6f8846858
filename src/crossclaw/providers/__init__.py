"""Providers: models behind one contract: messages in, one assistant message out, streamed as it
comes."""

__all__ = [
    "answer_limits",
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
    "speech",
]

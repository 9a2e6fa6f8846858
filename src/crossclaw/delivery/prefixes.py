"""Prefixes that the config puts before every reply."""

import re
from typing import NamedTuple

_VARIABLE = re.compile(r"\{([a-zA-Z][\w.]*)\}")


class PrefixFacts(NamedTuple):
    name: str | None = None
    """The agent's name."""
    model: str | None = None
    """The model, as provider/model."""
    thinking: str | None = None


def with_prefix(text: str, prefix: str, facts: PrefixFacts) -> str:
    """The text with its prefix; `auto` is the agent's name. Unknown variables stay as they are
    written."""
    words = _filled("[{identity.name}]" if prefix.strip() == "auto" else prefix, facts)
    if prefix.strip() == "auto" and facts.name is None:
        return text
    return text if text.startswith(words) else f"{words} {text}"


def _filled(prefix: str, facts: PrefixFacts) -> str:
    provider, _, model = (facts.model or "").partition("/")
    known = {
        "model": model or None,
        "modelfull": facts.model,
        "provider": provider or None,
        "thinkinglevel": facts.thinking,
        "think": facts.thinking,
        "identity.name": facts.name,
        "identityname": facts.name,
    }
    return _VARIABLE.sub(lambda found: known.get(found[1].lower()) or found[0], prefix)

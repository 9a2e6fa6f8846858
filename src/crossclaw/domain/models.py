"""Models: the facts about one, wherever they come from."""

from typing import Literal, get_args

import msgspec

from crossclaw.domain.agents import ThinkingLevel

ThinkingMode = Literal["unknown", "none", "budget", "effort", "level"]
"""The way a model is asked to think: unknown, not at all, by a number of tokens, by how hard it should try,
or by a level (Gemini's word for the same)."""

OffMode = Literal["omit", "disabled", "between_tools", "none", "never"]
"""The way a model is asked not to think: by saying nothing, by a word, or not at all, because it always does."""

LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
BYTES_A_TOKEN = 4  # near for English; each service counts by its own tokenizer


class ModelFacts(msgspec.Struct, frozen=True):
    """Facts about a model. The defaults are for an unknown one."""

    window: int = 200_000
    """Tokens that it reads and writes at once."""
    output: int | None = None
    """The longest answer in tokens, its thinking included; None: unknown."""
    pictures: bool = True
    """Whether it can look at pictures."""
    documents: bool = False
    """Whether its service reads PDFs as they are, pages and pictures and all."""
    tools: bool = True
    """Whether it can call tools."""
    thinking: ThinkingMode = "unknown"
    levels: tuple[str, ...] = ()
    """The names of levels that it takes, rising."""
    off: OffMode = "omit"
    thinks_unasked: bool = False
    """Whether it thinks by default: then an answer needs room for that too."""
    chat_tools: Literal["yes", "unthinking", "no"] = "yes"
    """Whether OpenAI's chat completions take tools for it: always, only without thinking, or never."""
    source: str = ""
    """The source of these facts, and when it was read."""

    @property
    def thinks(self) -> bool:
        """Whether it is known to think."""
        return self.thinking not in ("unknown", "none")

    @property
    def always_thinks(self) -> bool:
        return self.off == "never"

    def level(self, wanted: ThinkingLevel) -> str | None:
        """The model's own name for a level: the nearest that it takes, rather less than more."""
        if wanted == "off" or not self.levels:
            return None
        order = ("minimal", "low", "medium", "high", "xhigh", "max")
        place = order.index(wanted)
        lower = [name for name in self.levels if order.index(name) <= place]
        return lower[-1] if lower else self.levels[0]


class ListedModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model as a service lists it; what it does not say is None."""

    id: str
    name: str | None = None
    window: int | None = None
    output: int | None = None
    pictures: bool | None = None
    tools: bool | None = None
    thinks: bool | None = None
    given: int | None = None
    """The window that its server gives it by default, if that is not all that it could have."""

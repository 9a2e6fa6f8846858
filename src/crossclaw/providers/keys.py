"""Keys: several for one provider. One that is refused or limited is paused, and the next is used at
once.

The order is the config's. A key that was limited pauses for as long as the service asks, at least a
minute; one that was refused or has no credit pauses for hours: a person must do something about it.
"""

import logging
import re
from collections.abc import Mapping, Sequence

import anyio
import msgspec

from crossclaw.domain.errors import KeyRefused, ProviderError, RateLimited
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.models import ListedModel
from crossclaw.providers.contract import CallRestarted, ModelRequest, Provider, TellPiece
from crossclaw.providers.failures import key_variable
from crossclaw.providers.listing import describe, list_models

log = logging.getLogger(__name__)

PAUSED = "%s: key %s is paused for %.0f s, and the next is used (%s)"
LIMITED_S = 60.0
LIMITED_S_MAX = 3_600.0  # each time in a row five times as long
REFUSED_S = 5 * 3_600.0
TIMES = 5


_OTHER_NAMES = {"google": ("GEMINI_API_KEY", "GOOGLE_API_KEY")}
"""Other variables in which people have a provider's key, beside the one made from its name."""


def keys_of(
    name: str, written: Sequence[tuple[str, str]], environ: Mapping[str, str]
) -> list[tuple[str, str]]:
    """All keys of a provider, each with its label: the config's first, then `<NAME>_API_KEY`,
    `<NAME>_API_KEYS` (several, with commas between them) and `<NAME>_API_KEY_1` and so on."""
    variable = key_variable(name)
    names = [variable, *_OTHER_NAMES.get(name, ())]
    names += sorted(each for each in environ if re.fullmatch(f"{variable}_[0-9]+", each))
    found = [*written, *((each, environ[each]) for each in names if environ.get(each))]
    several = re.split(r"[,;\s]+", environ.get(f"{variable}S", ""))
    found += [(f"{variable}S, no. {n}", key) for n, key in enumerate(several, 1) if key]
    once: dict[str, str] = {}
    for label, key in found:
        once.setdefault(key.strip(), label)
    return [(label, key) for key, label in once.items()]


class Key(msgspec.Struct, frozen=True):
    label: str
    """The key's name in texts for people; never the key itself."""
    provider: Provider


class _Pause(msgspec.Struct):
    until: float = 0.0
    times: int = 0


class KeyRotation:
    """One provider made of several, which differ only in their key."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.name = keys[0].provider.name
        self._keys = keys
        self._pauses: dict[str, _Pause] = {key.label: _Pause() for key in keys}

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        order = self._awake_first()
        for place, key in enumerate(order):
            try:
                answer = await key.provider.complete(request, tell)
            except (KeyRefused, RateLimited) as error:  # an outage meets every key alike
                pause_s = self._pause(key, error)
                if place == len(order) - 1:
                    raise
                log.warning(PAUSED, self.name, key.label, pause_s, error.in_short)
                tell(CallRestarted(str(error)))
                continue
            self._pauses[key.label].times = 0
            return answer
        raise AssertionError("there is at least one key")

    async def close(self) -> None:
        for key in self._keys:
            await key.provider.close()

    async def list_models(self) -> list[ListedModel]:
        return await list_models(self._awake_first()[0].provider)

    async def describe(self, model: str) -> ListedModel | None:
        return await describe(self._awake_first()[0].provider, model)

    def _awake_first(self) -> list[Key]:
        """All keys, the usable ones first. If all are paused, the one whose pause ends first is
        tried."""
        now_s = anyio.current_time()
        return sorted(self._keys, key=lambda key: max(0.0, self._pauses[key.label].until - now_s))

    def _pause(self, key: Key, error: ProviderError) -> float:
        """Uses a key no more for a time; returns the seconds."""
        pause = self._pauses[key.label]
        pause.times += 1
        own_s = min(LIMITED_S * TIMES ** (pause.times - 1), LIMITED_S_MAX)
        asked_s = error.retry_after_s if isinstance(error, RateLimited) else None
        wait_s = REFUSED_S if isinstance(error, KeyRefused) else max(own_s, asked_s or 0.0)
        pause.until = anyio.current_time() + wait_s
        return wait_s

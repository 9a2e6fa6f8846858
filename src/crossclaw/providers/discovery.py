"""Discovery: asks self-hosted servers what their models can do, when one is first used.

A window that is only assumed is either too large, so that the server cuts or refuses, or too small.
Nothing is asked at the start; answers are remembered, and a server that did not answer is not asked
again for a while.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable

import anyio
import msgspec

from crossclaw.domain.errors import ProviderError
from crossclaw.domain.models import ListedModel

log = logging.getLogger(__name__)

WAIT_S = 3.0  # a server on this machine answers at once; nobody waits longer for one that does not
REMEMBERED_S = 3_600.0  # a server that was started anew may have another window
SILENT_S = 600.0  # until one that did not answer is asked again


class Discovery:
    def __init__(
        self,
        describe: Callable[[str], Awaitable[ListedModel | None]],
        listed: dict[str, ListedModel],
        is_configured: Callable[[str], bool],
        now_s: Callable[[], float] = anyio.current_time,
    ) -> None:
        """Creates it. Answers are put into `listed`; `is_configured` says whether the config has all
        facts already."""
        self._describe = describe
        self._listed = listed
        self._is_configured = is_configured
        self._now_s = now_s
        self._until: dict[str, float] = {}
        """When to ask again, by model: as many as are used."""
        self._asking = anyio.Lock()

    async def look(self, addresses: Iterable[str]) -> None:
        """Asks about these models, unless they were asked about before. On return their facts are
        as good as they can be."""
        now_s = self._now_s()
        fresh = [each for each in addresses if self._until.get(each, 0.0) <= now_s]
        if not fresh:
            return
        async with self._asking:
            for address in fresh:
                if self._until.get(address, 0.0) <= now_s:
                    await self._ask(address)

    async def _ask(self, address: str) -> None:
        found: ListedModel | None = None
        asked = not self._is_configured(address)
        if asked:
            with anyio.move_on_after(WAIT_S):
                try:
                    found = await self._describe(address)
                except ProviderError as error:
                    log.info("%s could not be asked about its model: %s", address, error)
        if found is not None and found != self._listed.get(address):
            log.info("%s: its server says %s", address, msgspec.json.encode(found).decode())
            self._listed[address] = found
        rest_s = REMEMBERED_S if found is not None or not asked else SILENT_S
        self._until[address] = self._now_s() + rest_s

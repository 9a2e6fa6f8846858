"""The time since which a bot is ours: what was written to it long before is not answered, what is written to
it later always is, however long the gateway was away."""

import msgspec

from crossclaw.channels.contract import ChannelHost
from crossclaw.channels.hosting import IDENTITY, KnownIdentity

FIRST_LOOK_BACK_MS = 5 * 60_000
"""What was written to a bot before its very first start is answered if it is no older than this."""


class FirstStart:
    """Stored once a bot. `not_before_ms` is known after `look`, and durable after `keep`."""

    def __init__(self, host: ChannelHost, bot_id: int) -> None:
        self._host, self._bot_id = host, bot_id
        self._name = f"first start of bot {bot_id}"
        self._is_stored = False
        self._at_ms = 0

    @property
    def not_before_ms(self) -> int:
        return self._at_ms - FIRST_LOOK_BACK_MS

    async def look(self, cursor_name: str) -> None:
        """Reads the stored time. Call it before `host.connected`: from then on every account looks as if it
        had been there before."""
        stored = await self._host.load_cursor(self._name)
        self._is_stored = stored is not None
        if stored is not None:
            self._at_ms = min(
                int(stored), self._host.now_ms()
            )  # the clock may have been ahead then
        else:
            self._at_ms = 0 if await self._was_here(cursor_name) else self._host.now_ms()

    async def keep(self) -> None:
        if not self._is_stored:
            await self._host.save_cursor(self._name, str(self._at_ms))
            self._is_stored = True

    async def _was_here(self, cursor_name: str) -> bool:
        """Whether an earlier release, which did not store the time, has served this bot."""
        if await self._host.load_cursor(cursor_name) is not None:
            return True
        identity = await self._host.load_cursor(IDENTITY)
        known = msgspec.json.decode(identity, type=KnownIdentity) if identity else None
        return known is not None and known.id == str(self._bot_id)

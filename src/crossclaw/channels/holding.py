"""Keeping a message until it is stored: for platforms that send nothing again, where the process has the only
copy."""

import anyio

from crossclaw.channels.contract import ChannelHost, Received
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.errors import Busy, StoreDamaged, StoreError

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 30.0  # a disk that is full is not helped by asking more often
BUSY_S_MAX = 60.0  # one session that is far behind must not silence the chats of all others


async def receive_only_copy(host: ChannelHost, inbound: Inbound) -> Received:
    """Repeats `host.receive` until the message is stored; the next one is read after that. Closing the
    account loses this one message. A damaged row stays so and its error is raised; a session that takes no
    more for a minute loses it."""
    pause_s, busy_s = PAUSE_FIRST_S, 0.0
    while True:
        try:
            return await host.receive(inbound)
        except StoreDamaged:
            raise
        except (StoreError, Busy) as trouble:
            busy_s = busy_s + pause_s if isinstance(trouble, Busy) else 0.0
            if busy_s > BUSY_S_MAX:
                host.troubled(f"a message was not stored: {trouble}")
                return Received(what="dropped", why=str(trouble))
            host.troubled(f"a message waits to be stored: {trouble}")
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)

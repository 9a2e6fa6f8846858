"""Holding on to a message: for platforms that bring nothing again, where the process has the only copy."""

import anyio

from crossclaw.channels.contract import ChannelHost, Received
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.errors import Busy, StoreDamaged, StoreError

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 30.0  # a disk that is full is not helped by asking more often


async def receive_only_copy(host: ChannelHost, inbound: Inbound) -> Received:
    """`host.receive` until the message is stored; the next one is read after that. As long as the account is open: who closes it
    loses this one message. A row that is damaged stays so, and is let out."""
    pause_s = PAUSE_FIRST_S
    while True:
        try:
            return await host.receive(inbound)
        except StoreDamaged:
            raise
        except (StoreError, Busy) as trouble:
            host.troubled(f"a message waits to be stored: {trouble}")
        await anyio.sleep(pause_s)
        pause_s = min(pause_s * 2, PAUSE_MAX_S)

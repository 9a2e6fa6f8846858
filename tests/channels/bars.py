"""Measures what channels cost: `python -m tests.channels.bars`. Figures for people, no test: a busy machine has others.

Turn: from a message to its end, of chat.send and of a chat message to what its chat sees, with a model that answers at
once and a store on the disk. Idle account: memory of one more account of each kind in a process that has its library.
"""

import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from crossclaw.channels.http import HttpClients
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings
from crossclaw.config.section import Loose
from crossclaw.domain.clock import SystemClock
from crossclaw.ledger.channels import SaveCursor
from crossclaw.testing import MemoryChannel, open_house
from tests.channels.fake_http import FakeTransport
from tests.channels.telegram.fake import FakeTelegram
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

WARM, TURNS, ACCOUNTS = 30, 300, 40


class TurnTimes(NamedTuple):
    """Medians in milliseconds."""

    client: float
    """chat.send to the end of its run."""
    chat: float
    """A chat message to the end of its run."""
    shown: float
    """... to what people see."""
    step: float
    """One step of the store: a message is not sent before it is stored that it is being sent."""


async def turns() -> TurnTimes:
    settings = ChannelSettings(dm_policy="open", allow_from=("*",))
    channel = MemoryChannel(settings=settings)
    by_client, by_chat, shown, steps = list[float](), list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        async with open_house(
            Path(folder), Recording(0), channels=[channel], clock=SystemClock(), inline=False
        ) as house:
            for number in range(WARM + TURNS):
                began = time.perf_counter()
                key = f"k{number}"
                await call(house, "chat.send", sessionKey="web", message="hi", idempotencyKey=key)
                await house.run_store.wait(key)
                by_client.append(time.perf_counter() - began)
                began = time.perf_counter()
                await house.run_store.wait(await channel.say("ann", "hi"))
                by_chat.append(time.perf_counter() - began)
                await channel.wait_sent(number + 1)
                shown.append(time.perf_counter() - began)
                began = time.perf_counter()
                await house.ledger.do(
                    SaveCursor(
                        channel="memory", account_id="default", name="bar", value=str(number), at=1
                    )
                )
                steps.append(time.perf_counter() - began)
    times = (by_client, by_chat, shown, steps)
    return TurnTimes(*(statistics.median(each[WARM:]) * 1000 for each in times))


async def idle() -> float:
    """Bytes of one more Telegram account that is connected and hears nothing."""

    async def held(count: int) -> int:
        telegram = FakeTelegram()
        tokens = {f"a{number}": {"botToken": f"{700 + number}:t"} for number in range(count)}
        for each in tokens.values():
            telegram.add_bot(each["botToken"], f"bot{each['botToken'][:3]}")
        raw: dict[str, Any] = {"telegram": {"accounts": tokens}}

        def http() -> HttpClients:
            return HttpClients(FakeTransport({"api.telegram.org": telegram}))

        with tempfile.TemporaryDirectory() as folder:
            config = Config(channels=Loose.of(raw))
            async with open_house(
                Path(folder), Recording(0), config=config, http=http, clock=SystemClock()
            ):
                await anyio.sleep(2)
                gc.collect()
                return tracemalloc.get_traced_memory()[0]

    await held(1)
    one = await held(1)
    many = await held(1 + ACCOUNTS)
    return (many - one) / ACCOUNTS


async def main() -> None:
    found = await turns()
    out = sys.stdout.write
    out(f"turn: chat.send {found.client:.2f} ms, a chat message {found.chat:.2f} ms\n")
    out(f"overhead of a channel message: {found.chat - found.client:.2f} ms (bar: 3)\n")
    after = found.shown - found.chat
    out(
        f"then, until people see it: {after:.2f} ms, of which a step of the store: {found.step:.2f}\n"
    )
    tracemalloc.start()
    out(f"an idle account: {await idle() / 1024:.0f} KiB (bar: 1024)\n")


if __name__ == "__main__":
    anyio.run(main)

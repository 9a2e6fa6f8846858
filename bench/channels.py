"""The cost of chat accounts: a turn by a chat beside one by `chat.send`, an account that is connected and
gets nothing, and a thousand chats of one account that all have something to say. The platforms are the fakes
of tests/channels, in this process."""

import gc
import logging
import statistics
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
from tests.channels.drivers import DRIVERS
from tests.channels.driving import ChannelDriver, gateway_with
from tests.channels.many_chats import talk_in_many_chats
from tests.channels.matrix.driver import MatrixDriver
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

from bench.memory import resident_mb
from bench.stores import Stores
from bench.work import MB, Row, Spent, Stopwatch, Work
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.clock import SystemClock
from crossclaw.testing import MemoryChannel, VirtualLoop, open_gateway

WARM, TURNS, ACCOUNTS, CHATS = 30, 300, 20, 1_000


async def _turns() -> Spent:
    """Measures both kinds alternately, so that a busy second meets both; medians. The store is on the disk,
    the model answers at once."""
    settings = ChannelSettings(dm_policy="open", allow_from=("*",))
    channel = MemoryChannel(settings=settings)
    by_client, by_chat, shown = Stopwatch(), Stopwatch(), Stopwatch()
    with tempfile.TemporaryDirectory() as folder:
        async with open_gateway(
            Path(folder), Recording(0), channels=[channel], clock=SystemClock(), inline=False
        ) as gateway:
            for number in range(WARM + TURNS):
                with by_client.piece():
                    key = f"k{number}"
                    await call(
                        gateway, "chat.send", sessionKey="web", message="hi", idempotencyKey=key
                    )
                    await gateway.run_store.wait(key)
                with shown.piece():
                    with by_chat.piece():
                        await gateway.run_store.wait(await channel.say("ann", "hi"))
                    await channel.wait_sent(number + 1)
    client, chat, seen = (statistics.median(each.each_ms[WARM:]) for each in (by_client, by_chat, shown))  # fmt: skip
    return Spent({"over": chat - client, "shown": seen - client}, chat)


class EncryptedMatrix(MatrixDriver):
    """A Matrix account with its keys, which lie outside of Python's own memory."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = msgspec.structs.replace(self.settings, encryption=True)


async def _held(drivers: list[ChannelDriver]) -> int:
    """Bytes that are held once they are all connected, beyond what their fakes held before."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    with tempfile.TemporaryDirectory() as folder:
        async with gateway_with(Path(folder), drivers[0], others=drivers[1:]):
            await anyio.sleep(30)
            gc.collect()
            if not tracemalloc.is_tracing():
                return int(resident_mb() * MB)
            return tracemalloc.get_traced_memory()[0] - before


async def _idle(kind: type[ChannelDriver]) -> float:
    def several(count: int) -> list[ChannelDriver]:
        drivers = [kind() for _ in range(count)]
        for number, driver in enumerate(drivers):
            driver.account_id = f"a{number}"
        return drivers

    await _held(several(1))
    one = await _held(several(1))
    return (await _held(several(1 + ACCOUNTS)) - one) / ACCOUNTS


def idle(kind: type[ChannelDriver]) -> Callable[[Stores], Spent]:
    def run(_stores: Stores) -> Spent:
        logging.disable()  # sockets of fakes are there a moment after the accounts
        tracemalloc.start()
        try:
            options = {"loop_factory": VirtualLoop}
            held = anyio.run(_idle, kind, backend_options=options)
        finally:
            tracemalloc.stop()
            logging.disable(logging.NOTSET)
        return Spent({"kb": held / 1_000})

    return run


def encrypted(_stores: Stores) -> Spent:
    """The memory of encrypted accounts, measured as what a process of its own holds."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.channels"], capture_output=True, text=True, check=True
    )
    return Spent({"kb": float(done.stdout)})


def many(_stores: Stores) -> Spent:
    """The processor time of many chats, in virtual time."""
    with tempfile.TemporaryDirectory() as folder:
        watch = Stopwatch()
        options = {"loop_factory": VirtualLoop}
        seen = anyio.run(talk_in_many_chats, Path(folder), CHATS, backend_options=options)
        spent = watch.stop(len(seen))
    return Spent({"cpu": spent.cpu_ms or 0.0}, spent.wall_ms, spent.cpu_ms)


TURN_ROWS = (
    Row("channels: a turn by a chat over chat.send", "over", "ms", bar=3),
    Row("channels: … until people see the reply", "shown", "ms"),
)
ENCRYPTED = (Row("channels: idle account, matrix encrypted", "kb", "kB", bar=1_000),)
WORKS = (
    Work(lambda _stores: anyio.run(_turns), None, TURN_ROWS),
    Work(many, None, (Row(f"channels: a reply, {CHATS:,} chats on one account", "cpu", "ms CPU"),)),
    *(
        Work(
            idle(kind), None, (Row(f"channels: idle account, {kind.name}", "kb", "kB", bar=1_000),)
        )
        for kind in DRIVERS
    ),
    *([Work(encrypted, None, ENCRYPTED)] if find_spec("nio") else []),
)

if __name__ == "__main__":
    logging.disable()
    held = anyio.run(_idle, EncryptedMatrix, backend_options={"loop_factory": VirtualLoop})
    sys.stdout.write(f"{held / 1_000}\n")

"""What befalls them. Each fault is one coroutine that answers whether it has happened."""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.to_thread

from tests.faults.process import GatewayProcess, Trapped
from tests.faults.servers import Servers

if TYPE_CHECKING:
    from tests.faults.rig import Rig

AWAY_S = 4.5  # past the lease of three seconds
ASLEEP_S = 9.0  # with what it has locked: two seconds until the server ends that, then the lease, then a look
MOVED_S = 3.0  # at the end of that, something must have gone on within this
TRAP_S = 20.0
READY_S = 60.0
SKEWS_S = (-86_400, -3_600, -60, -5, 5, 60, 3_600, 86_400)
BIG_CHARS = 200_000
POISON = 'wait: 0.3\ntool: fall {"token": "x"}\nthen:\nsay: re $'
POISON_S = 60.0


class Befallen(NamedTuple):
    gateways: list[GatewayProcess]
    servers: Servers
    dice: Random
    rig: "Rig"

    def choose(self) -> GatewayProcess:
        """One that is there, if any is."""
        there = [gateway for gateway in self.gateways if gateway.ready.is_set()]
        return self.dice.choice(there or self.gateways)

    async def all_there(self, count: int) -> None:
        with anyio.move_on_after(READY_S):
            while sum(gateway.ready.is_set() for gateway in self.gateways) < count:  # noqa: ASYNC110
                await anyio.sleep(0.05)


async def kill(all_: Befallen) -> bool:
    await all_.all_there(2)
    all_.choose().signal(signal.SIGKILL)
    await anyio.sleep(1)
    return True


async def stop(all_: Befallen) -> bool:
    gateway = all_.choose()
    gateway.signal(signal.SIGSTOP)
    await anyio.sleep(AWAY_S)
    gateway.signal(signal.SIGCONT)
    return True


def link(how: str) -> Callable[[Befallen], Awaitable[bool]]:
    async def cut(all_: Befallen) -> bool:
        gateway = all_.choose()
        gateway.link.cut(how)
        try:
            await anyio.sleep(AWAY_S)
        finally:
            gateway.link.heal()
        return True

    return cut


# ── in the middle of a transaction ─────────────────────────────────────────────────────────────


async def _trapped(all_: Befallen, at: str) -> tuple[GatewayProcess, Trapped] | None:
    gateway = all_.choose()
    with anyio.move_on_after(TRAP_S):
        await gateway.set_trap(at)
        return gateway, await gateway.trapped()
    await gateway.go_on()
    return None


async def inside(all_: Befallen) -> bool:
    """The link is cut after a transaction has begun, for longer than the lease."""
    if (found := await _trapped(all_, "inside")) is None:
        return False
    gateway, _ = found
    gateway.link.cut("cut")
    await gateway.go_on()
    await anyio.sleep(AWAY_S)
    gateway.link.heal()
    return True


async def asleep(all_: Befallen) -> bool:
    """The process is stopped in a transaction, with all its locks: the others must go on meanwhile."""
    if (found := await _trapped(all_, "inside")) is None:
        return False
    gateway, _ = found
    gateway.signal(signal.SIGSTOP)
    await anyio.sleep(ASLEEP_S - MOVED_S)
    before = all_.rig.record.acknowledged, all_.rig.ended
    await anyio.sleep(MOVED_S)
    if before == (all_.rig.record.acknowledged, all_.rig.ended):
        all_.rig.record.noted.append(
            f"still: nothing went on beside {gateway.name}, which stood still"
        )
    gateway.signal(signal.SIGCONT)
    await gateway.go_on()
    return True


def breaks(how: str) -> Callable[[Befallen], Awaitable[bool]]:
    """The writer's connection breaks at its commit, which has not reached the server ("mute"), or which it has stored and
    the answer does not arrive ("deaf"). The gateway keeps its lease."""

    async def at_commit(all_: Befallen) -> bool:
        if (found := await _trapped(all_, "commit")) is None:
            return False
        gateway, trapped = found
        gateway.link.cut(how, port=trapped.port)
        await gateway.go_on()
        await anyio.sleep(0.2)
        gateway.link.break_connection(trapped.port)
        await anyio.sleep(0.5)
        gateway.link.heal()
        return True

    return at_commit


async def limbo(all_: Befallen) -> bool:
    """The server's process that has to store it stands still, and the writer loses its connection meanwhile."""
    if (found := await _trapped(all_, "commit")) is None:
        return False
    gateway, trapped = found
    os.kill(trapped.backend, signal.SIGSTOP)
    await gateway.go_on()
    await anyio.sleep(0.2)
    gateway.link.break_connection(trapped.port)
    await anyio.sleep(1.5)
    _continue(trapped.backend)
    await anyio.sleep(0.5)
    gateway.link.heal()
    return True


async def blocked(all_: Befallen) -> bool:
    """A message larger than the connection takes: nobody reads at the other end, or nothing arrives there any more."""
    gateway = all_.choose()
    async with anyio.create_task_group() as tasks:
        with anyio.move_on_after(TRAP_S) as patience:
            await gateway.set_trap("send")
            tasks.start_soon(_send_much, all_, gateway)
            trapped = await gateway.trapped()
        if patience.cancelled_caught:
            await gateway.go_on()
            return False
        await _block(all_, gateway, trapped)
    return gateway.blocked.is_set()


async def _send_much(all_: Befallen, gateway: GatewayProcess) -> None:
    letter = all_.rig.new_letter(60, f"big{all_.rig.record.trials}")
    await all_.rig.post(letter, f"{'.' * BIG_CHARS}\nsay: re {letter.token}", [gateway])
    await all_.rig.hear_of(letter)


async def _block(all_: Befallen, gateway: GatewayProcess, trapped: Trapped) -> None:
    cuts = all_.rig.record.trials % 2
    if cuts:
        gateway.link.cut("cut")
    else:
        os.kill(trapped.backend, signal.SIGSTOP)
    await gateway.go_on()
    await anyio.sleep(AWAY_S)
    if cuts:
        gateway.link.heal()
    else:
        _continue(trapped.backend)


def _continue(backend: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(backend, signal.SIGCONT)


# ── the server ─────────────────────────────────────────────────────────────────────────────────


def restart(*hows: signal.Signals) -> Callable[[Befallen], Awaitable[bool]]:
    async def befall(all_: Befallen) -> bool:
        how = hows[all_.rig.record.trials % len(hows)]
        await anyio.to_thread.run_sync(all_.servers.restart, how)
        await anyio.sleep(1)
        return True

    return befall


async def fail_over(all_: Befallen) -> bool:
    how = ("unseen", "kill", "apart")[all_.rig.record.trials % 3]
    await anyio.to_thread.run_sync(all_.servers.fail_over, how)
    await anyio.sleep(2)
    await anyio.to_thread.run_sync(all_.servers.add_standby_again)
    return True


# ── all else ───────────────────────────────────────────────────────────────────────────────────


async def skew(all_: Befallen) -> bool:
    """A clock jumps, by seconds up to a day; now and then its gateway dies with it."""
    all_.dice.choice(all_.gateways).set_clock(all_.dice.choice(SKEWS_S))
    await anyio.sleep(1.5)
    if all_.dice.random() < 0.3:
        await kill(all_)
    return True


async def poison(all_: Befallen) -> bool:
    """A message that ends each process that begins with it, beside others that do not."""
    await all_.all_there(3)
    letter = all_.rig.new_letter(50, all_.dice.choice(("s0", "s1", "s2", "s3")), kills=True)
    await all_.rig.post(letter, POISON.replace("$", letter.token))
    with anyio.move_on_after(POISON_S) as patience:
        await all_.rig.hear_of(letter)
    if patience.cancelled_caught:
        all_.rig.record.noted.append(f"stuck: {letter.token} ends one gateway after the other")
    return True


class Fault(NamedTuple):
    befall: Callable[[Befallen], Awaitable[bool]]
    what: str
    servers: str = "one"
    stops: bool = False
    build: str = "honest"
    skews: bool = False
    little_buffers: bool = False


FAULTS = {
    "kill": Fault(kill, "kill -9 of a gateway, and a new start"),
    "stop": Fault(stop, "stopped past its lease, and on again", stops=True),
    "cut": Fault(link("cut"), "its link loses everything, past its lease"),
    "deaf": Fault(link("deaf"), "its link loses what arrives"),
    "mute": Fault(link("mute"), "its link loses what leaves"),
    "inside": Fault(inside, "its link is cut in the middle of a transaction"),
    "asleep": Fault(asleep, "stopped in the middle of a transaction", stops=True),
    "unsent": Fault(breaks("mute"), "its connection breaks before a commit arrives"),
    "unanswered": Fault(breaks("deaf"), "its connection breaks before a commit is answered"),
    "limbo": Fault(limbo, "its connection breaks while the server stands still in the commit"),
    "blocked": Fault(
        blocked, "blocked in send: nobody reads, or the link is cut", little_buffers=True
    ),
    "restart": Fault(restart(signal.SIGINT), "the server restarts (fast)"),
    "crash": Fault(
        restart(signal.SIGQUIT, signal.SIGKILL),
        "the server dies (immediate, kill -9), and restarts",
    ),
    "promote": Fault(fail_over, "the standby takes over; gateways know both addresses", "standby"),
    "address": Fault(fail_over, "the standby takes over, with the address", "address"),
    "skew": Fault(skew, "clocks jump by seconds up to a day, and gateways die", skews=True),
    "unheard": Fault(kill, "no hint is ever heard, and gateways die", build="unheard"),
    "poison": Fault(poison, "a message that ends each gateway which begins it"),
}

"""Pauses: the delay before a wrong secret is answered. Each further one of an address waits longer, up to a
second. Only so many wait at once; beyond that a guesser's connection is dropped without an answer.

A pause slows down programs that come again and again with an old secret, and people who try passwords by hand.
It does not stop many connections at once: a right secret is never kept waiting, so whoever is not let in at
once knows that it was wrong. Guessable secrets are for loopback only.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

import anyio

from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Busy
from crossclaw.domain.newest import keep_newest
from crossclaw.gateway.limits import GatewayLimits


class TooManyGuesses(Busy):
    """More wrong secrets wait for their answer than may: this one gets none."""

    def __init__(self) -> None:
        super().__init__("unauthorized: too many wrong secrets at once")


class Pauses:
    def __init__(self, clock: Clock, limits: GatewayLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._waiting: Counter[str] = Counter()
        self._guessers: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Wrong secrets in a row of each network, and when the last one came."""

    @property
    def waiting(self) -> int:
        return self._waiting.total()

    async def after_a_wrong_secret(self, address: str) -> None:
        network = network_of(address)
        wrong = self._count(network)
        with self._place(network):
            await anyio.sleep(pause_s(wrong, self._limits))

    @contextmanager
    def _place(self, network: str) -> Iterator[None]:
        limits = self._limits
        if (
            self.waiting >= limits.pauses_max
            or self._waiting[network] >= limits.pauses_per_address_max
        ):
            raise TooManyGuesses
        self._waiting[network] += 1
        try:
            yield
        finally:
            self._waiting[network] -= 1
            if not self._waiting[network]:
                del self._waiting[network]

    def _count(self, network: str) -> int:
        now_ms = self._clock.now_ms()
        wrong, last_ms = self._guessers.pop(network, (0, now_ms))
        if now_ms - last_ms > self._limits.guesses_forgotten_s * 1000:
            wrong = 0
        keep_newest(self._guessers, network, (wrong + 1, now_ms), self._limits.addresses_max)
        return wrong + 1


def pause_s(wrong: int, limits: GatewayLimits) -> float:
    """The delay after so many wrong secrets in a row: twice as long each time, up to the longest."""
    doublings = min(wrong - 1, 16)
    return min(limits.pause_s_max, limits.pause_s_first * float(1 << doublings))


def network_of(address: str) -> str:
    """The network that an address counts as: one household has a whole /64 of IPv6 addresses, so it is one
    guesser, and one stranger."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return parsed.packed[:8].hex()

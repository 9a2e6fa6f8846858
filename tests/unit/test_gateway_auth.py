"""Secrets, and the pause after a wrong one."""

import logging

import anyio
import pytest

from crossclaw.config.gateway import GatewayAuth
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import (
    Gatekeeper,
    Offer,
    Unauthorized,
    gateway_lock,
    lock_for,
)
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pauses import TooManyGuesses

TOKEN = "t" * 43


class SetClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


def keeper(limits: GatewayLimits | None = None, clock: SetClock | None = None) -> Gatekeeper:
    return Gatekeeper({"gateway": lock_for(Secret(TOKEN))}, clock or SetClock(), limits)


async def guess(gatekeeper: Gatekeeper, address: str = "127.0.0.1", token: str = "wrong") -> str:
    try:
        await gatekeeper.check(address, Offer(token))
    except Unauthorized:
        return "wrong"
    except TooManyGuesses:
        return "dropped"
    return "in"


async def waited(gatekeeper: Gatekeeper, address: str = "127.0.0.1", token: str = "wrong") -> float:
    began = anyio.current_time()
    await guess(gatekeeper, address, token)
    return round(anyio.current_time() - began, 3)


async def test_each_wrong_secret_is_answered_later_than_the_one_before_up_to_a_second() -> None:
    gatekeeper = keeper()

    pauses = [await waited(gatekeeper) for _ in range(50)]

    assert pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(pauses[6:]) == {1.0}
    assert await waited(gatekeeper, "192.0.2.1") == 0.05


async def test_wrong_secrets_of_others_never_keep_the_right_one_waiting() -> None:
    gatekeeper, answers = keeper(), list[str]()

    async def wrong() -> None:
        answers.append(await guess(gatekeeper))

    async with anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(wrong)
        await anyio.wait_all_tasks_blocked()
        assert answers.count("dropped") == 1000 - GatewayLimits().pauses_per_address_max
        assert await waited(gatekeeper, token=TOKEN) == 0
        assert await guess(gatekeeper, token=TOKEN) == "in"

    assert answers.count("wrong") == GatewayLimits().pauses_per_address_max


async def test_wrong_secrets_that_wait_are_numbered_also_from_many_addresses() -> None:
    gatekeeper, answers = keeper(), list[str]()

    async def wrong(number: int) -> None:
        answers.append(await guess(gatekeeper, f"10.0.{number // 250}.{number % 250}"))

    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(wrong, number)

    assert answers.count("wrong") == GatewayLimits().pauses_max
    assert await guess(gatekeeper) == "wrong"  # the places are free again


async def test_a_network_of_ipv6_addresses_is_one_guesser() -> None:
    gatekeeper = keeper()

    pauses = [await waited(gatekeeper, f"2001:db8::{number:x}") for number in range(3)]
    mapped = [await waited(gatekeeper, each) for each in ("::ffff:192.0.2.7", "192.0.2.7")]

    assert pauses == [0.05, 0.1, 0.2]
    assert mapped == [0.05, 0.1]


async def test_wrong_secrets_are_forgotten_after_a_while() -> None:
    clock = SetClock()
    gatekeeper = keeper(clock=clock)
    for _ in range(10):
        await guess(gatekeeper)

    clock.ms += 61_000
    assert await waited(gatekeeper) == 0.05
    clock.ms -= 1_000_000  # a clock that is set back forgives nothing
    assert await waited(gatekeeper) == 0.1


async def test_remembered_addresses_are_bounded() -> None:
    gatekeeper = keeper(GatewayLimits(addresses_max=10))

    for number in range(500):
        await guess(gatekeeper, f"198.51.100.{number % 250}")

    assert len(gatekeeper._pauses._guessers) == 10


async def test_one_attempt_is_one_guess_whatever_it_carries() -> None:
    gatekeeper = keeper()

    with pytest.raises(Unauthorized):
        await gatekeeper.check("127.0.0.1", Offer("wrong", TOKEN))


async def test_new_secrets_end_the_old_ones() -> None:
    gatekeeper = keeper()
    before = gatekeeper.maker()

    gatekeeper.rotate({"gateway": lock_for(Secret("n" * 43))})

    assert not gatekeeper.credentials.stands([before])
    assert gatekeeper.credentials.stands([gatekeeper.maker()])
    assert await guess(gatekeeper, token=TOKEN) == "wrong"
    assert await guess(gatekeeper, token="n" * 43) == "in"


@pytest.mark.spec("G3")
def test_a_password_opens_in_password_mode_and_so_does_the_token() -> None:
    auth = GatewayAuth(mode="password", password=Secret("hunter2"))
    lock = gateway_lock(auth, Secret(TOKEN), "127.0.0.1")

    assert lock.opened_by("hunter2")
    assert lock.opened_by(TOKEN)
    assert not lock.opened_by("hunter")
    assert lock.kind == "password"


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    ("auth", "token"),
    [(GatewayAuth(), "tiny-9f3"), (GatewayAuth(mode="password", password=Secret("p" * 50)), TOKEN)],
)
def test_what_could_be_guessed_is_for_loopback_only(
    auth: GatewayAuth, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        gateway_lock(auth, Secret(token), "127.0.0.1")
    assert "safer" in caplog.text
    assert token not in caplog.text

    with pytest.raises(ConfigInvalid, match="could be guessed from the network"):
        gateway_lock(auth, Secret(token), "0.0.0.0")


async def test_no_mode_of_the_config_opens_the_gateway_without_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = gateway_lock(GatewayAuth(mode="none"), Secret(TOKEN), "127.0.0.1")

    assert "not supported" in caplog.text
    with pytest.raises(Unauthorized):
        await Gatekeeper({"gateway": lock}, SetClock()).check("127.0.0.1", Offer())


def test_password_mode_needs_a_password() -> None:
    with pytest.raises(ConfigInvalid, match=r"gateway\.auth\.password"):
        gateway_lock(GatewayAuth(mode="password"), Secret(TOKEN), "127.0.0.1")

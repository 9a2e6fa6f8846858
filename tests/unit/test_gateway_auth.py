"""Secrets, and the pause after a wrong one."""

import logging

import anyio
import pytest

from crossclaw.config.gateway import GatewayAuth
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import (
    Authenticator,
    PresentedSecrets,
    Unauthorized,
    gateway_digests,
    secret_digests,
)
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.pauses import TooManyGuesses

TOKEN = "t" * 43


class SetClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


def keeper(limits: GatewayLimits | None = None, clock: SetClock | None = None) -> Authenticator:
    return Authenticator({"gateway": secret_digests(Secret(TOKEN))}, clock or SetClock(), limits)


async def guess(
    authenticator: Authenticator, address: str = "127.0.0.1", token: str = "wrong"
) -> str:
    try:
        await authenticator.check(address, PresentedSecrets(token))
    except Unauthorized:
        return "wrong"
    except TooManyGuesses:
        return "dropped"
    return "in"


async def waited(
    authenticator: Authenticator, address: str = "127.0.0.1", token: str = "wrong"
) -> float:
    began = anyio.current_time()
    await guess(authenticator, address, token)
    return round(anyio.current_time() - began, 3)


async def test_each_wrong_secret_is_answered_later_than_the_one_before_up_to_a_second() -> None:
    authenticator = keeper()

    pauses = [await waited(authenticator) for _ in range(50)]

    assert pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(pauses[6:]) == {1.0}
    assert await waited(authenticator, "192.0.2.1") == 0.05


async def test_wrong_secrets_of_others_never_keep_the_right_one_waiting() -> None:
    authenticator, answers = keeper(), list[str]()

    async def wrong() -> None:
        answers.append(await guess(authenticator))

    async with anyio.create_task_group() as tasks:
        for _ in range(1000):
            tasks.start_soon(wrong)
        await anyio.wait_all_tasks_blocked()
        assert answers.count("dropped") == 1000 - GatewayLimits().pauses_per_address_max
        assert await waited(authenticator, token=TOKEN) == 0
        assert await guess(authenticator, token=TOKEN) == "in"

    assert answers.count("wrong") == GatewayLimits().pauses_per_address_max


async def test_wrong_secrets_that_wait_are_numbered_also_from_many_addresses() -> None:
    authenticator, answers = keeper(), list[str]()

    async def wrong(number: int) -> None:
        answers.append(await guess(authenticator, f"10.0.{number // 250}.{number % 250}"))

    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(wrong, number)

    assert answers.count("wrong") == GatewayLimits().pauses_max
    assert await guess(authenticator) == "wrong"  # the places are free again


async def test_a_network_of_ipv6_addresses_is_one_guesser() -> None:
    authenticator = keeper()

    pauses = [await waited(authenticator, f"2001:db8::{number:x}") for number in range(3)]
    mapped = [await waited(authenticator, each) for each in ("::ffff:192.0.2.7", "192.0.2.7")]

    assert pauses == [0.05, 0.1, 0.2]
    assert mapped == [0.05, 0.1]


async def test_wrong_secrets_are_forgotten_after_a_while() -> None:
    clock = SetClock()
    authenticator = keeper(clock=clock)
    for _ in range(10):
        await guess(authenticator)

    clock.ms += 61_000
    assert await waited(authenticator) == 0.05
    clock.ms -= 1_000_000  # a clock that is set back forgives nothing
    assert await waited(authenticator) == 0.1


async def test_remembered_addresses_are_bounded() -> None:
    authenticator = keeper(GatewayLimits(addresses_max=10))

    for number in range(500):
        await guess(authenticator, f"198.51.100.{number % 250}")

    assert len(authenticator._pauses._guessers) == 10


async def test_one_attempt_is_one_guess_whatever_it_carries() -> None:
    authenticator = keeper()

    with pytest.raises(Unauthorized):
        await authenticator.check("127.0.0.1", PresentedSecrets("wrong", TOKEN))


async def test_new_secrets_end_the_old_ones() -> None:
    authenticator = keeper()
    before = authenticator.credential_ref()

    authenticator.rotate({"gateway": secret_digests(Secret("n" * 43))})

    assert not authenticator.credentials.stands([before])
    assert authenticator.credentials.stands([authenticator.credential_ref()])
    assert await guess(authenticator, token=TOKEN) == "wrong"
    assert await guess(authenticator, token="n" * 43) == "in"


@pytest.mark.spec("G3")
def test_a_password_opens_in_password_mode_and_so_does_the_token() -> None:
    auth = GatewayAuth(mode="password", password=Secret("hunter2"))
    lock = gateway_digests(auth, Secret(TOKEN), "127.0.0.1")

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
        gateway_digests(auth, Secret(token), "127.0.0.1")
    assert "safer" in caplog.text
    assert token not in caplog.text

    with pytest.raises(ConfigInvalid, match="could be guessed from the network"):
        gateway_digests(auth, Secret(token), "0.0.0.0")


async def test_no_mode_of_the_config_opens_the_gateway_without_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = gateway_digests(GatewayAuth(mode="none"), Secret(TOKEN), "127.0.0.1")

    assert "not supported" in caplog.text
    with pytest.raises(Unauthorized):
        await Authenticator({"gateway": lock}, SetClock()).check("127.0.0.1", PresentedSecrets())


def test_password_mode_needs_a_password() -> None:
    with pytest.raises(ConfigInvalid, match=r"gateway\.auth\.password"):
        gateway_digests(GatewayAuth(mode="password"), Secret(TOKEN), "127.0.0.1")

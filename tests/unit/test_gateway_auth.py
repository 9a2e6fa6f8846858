"""Secrets and the budget of guesses."""

import logging

import pytest

from crossclaw.config.gateway import Auth
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret
from crossclaw.gateway.auth import (
    Gatekeeper,
    Offer,
    TooManyAttempts,
    Unauthorized,
    gateway_lock,
    lock_for,
)
from crossclaw.gateway.limits import Limits

TOKEN = "t" * 43


class SetClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


def keeper(limits: Limits | None = None, clock: SetClock | None = None) -> Gatekeeper:
    return Gatekeeper({"gateway": lock_for(Secret(TOKEN))}, clock or SetClock(), limits)


def guess(gatekeeper: Gatekeeper, address: str = "127.0.0.1", token: str = "wrong") -> str:
    try:
        gatekeeper.check(address, Offer(token))
    except Unauthorized:
        return "wrong"
    except TooManyAttempts:
        return "not looked at"
    return "in"


def test_guesses_are_numbered_before_they_are_looked_at() -> None:
    gatekeeper = keeper()

    results = [guess(gatekeeper) for _ in range(10_000)]

    assert results.count("wrong") == Limits().attempts_per_address == gatekeeper.verified
    assert guess(gatekeeper, token=TOKEN) == "not looked at"
    assert guess(gatekeeper, "192.0.2.1", TOKEN) == "in"


def test_many_addresses_share_one_budget() -> None:
    gatekeeper = keeper()

    for number in range(10_000):
        guess(gatekeeper, f"10.0.{number // 250}.{number % 250}")

    assert gatekeeper.verified == Limits().attempts_overall


def test_a_network_of_ipv6_addresses_is_one_guesser() -> None:
    gatekeeper = keeper()

    for number in range(1000):
        guess(gatekeeper, f"2001:db8::{number:x}")
        guess(gatekeeper, "::ffff:192.0.2.7")
        guess(gatekeeper, "192.0.2.7")

    assert gatekeeper.verified == 2 * Limits().attempts_per_address


def test_the_right_secret_costs_nothing() -> None:
    gatekeeper = keeper()

    assert {guess(gatekeeper, token=TOKEN) for _ in range(1000)} == {"in"}


def test_the_budget_comes_back_with_time() -> None:
    clock = SetClock()
    gatekeeper = keeper(clock=clock)
    while guess(gatekeeper) != "not looked at":
        pass

    clock.ms += 2_100

    assert guess(gatekeeper, token=TOKEN) == "in"
    clock.ms -= 1_000_000  # a clock that is set back gives nothing and takes nothing
    assert guess(gatekeeper, token=TOKEN) == "in"


def test_remembered_addresses_are_bounded() -> None:
    gatekeeper = keeper(Limits(addresses_max=10, attempts_overall=1_000))

    for number in range(500):
        guess(gatekeeper, f"198.51.100.{number % 250}")

    assert len(gatekeeper._guesses._by_address) == 10


def test_one_attempt_is_one_guess_whatever_it_carries() -> None:
    gatekeeper = keeper()

    with pytest.raises(Unauthorized):
        gatekeeper.check("127.0.0.1", Offer("wrong", TOKEN))


def test_new_secrets_end_the_old_ones() -> None:
    gatekeeper = keeper()
    before = gatekeeper.epoch

    gatekeeper.rotate({"gateway": lock_for(Secret("n" * 43))})

    assert gatekeeper.epoch > before
    assert guess(gatekeeper, token=TOKEN) == "wrong"
    assert guess(gatekeeper, token="n" * 43) == "in"


@pytest.mark.spec("G3")
def test_a_password_opens_in_password_mode_and_so_does_the_token() -> None:
    auth = Auth(mode="password", password=Secret("hunter2"))
    lock = gateway_lock(auth, Secret(TOKEN), "127.0.0.1")

    assert lock.opened_by("hunter2")
    assert lock.opened_by(TOKEN)
    assert not lock.opened_by("hunter")
    assert lock.kind == "password"


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    ("auth", "token"),
    [(Auth(), "tiny-9f3"), (Auth(mode="password", password=Secret("p" * 50)), TOKEN)],
)
def test_what_could_be_guessed_is_for_loopback_only(
    auth: Auth, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        gateway_lock(auth, Secret(token), "127.0.0.1")
    assert "safer" in caplog.text
    assert token not in caplog.text

    with pytest.raises(ConfigInvalid, match="could be guessed from the network"):
        gateway_lock(auth, Secret(token), "0.0.0.0")


def test_no_mode_of_the_config_opens_the_gateway_without_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lock = gateway_lock(Auth(mode="none"), Secret(TOKEN), "127.0.0.1")

    assert "not supported" in caplog.text
    with pytest.raises(Unauthorized):
        Gatekeeper({"gateway": lock}, SetClock()).check("127.0.0.1", Offer())


def test_password_mode_needs_a_password() -> None:
    with pytest.raises(ConfigInvalid, match=r"gateway\.auth\.password"):
        gateway_lock(Auth(mode="password"), Secret(TOKEN), "127.0.0.1")

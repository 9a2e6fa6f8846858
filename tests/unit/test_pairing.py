"""The limits of pairing, and who is on the way in while a token is taken away."""

from pathlib import Path

import pytest

from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.credentials import DeviceDescription
from crossclaw.domain.errors import Busy
from crossclaw.domain.ids import RandomIds
from crossclaw.door.principal import person_principal
from crossclaw.gateway.auth import DeviceTokenMismatch
from crossclaw.gateway.pairing import (
    DEVICES_MAX,
    PENDING_MAX,
    PENDING_MS,
    TOKENS_KEPT,
    PairingRequest,
    PairingRequired,
    Pairings,
)
from crossclaw.ledger.opening import open_ledger
from tests.wire.serving import RememberingLedger

OWNER = person_principal("token", {"operator.admin"})


class Clock:
    def __init__(self) -> None:
        self.now = 1_767_268_800_000

    def now_ms(self) -> int:
        self.now += 1
        return self.now


def wish(name: str, *, trusted: bool = False, token_epoch: int | None = None) -> PairingRequest:
    return PairingRequest(
        device_id=name,
        role="operator",
        scopes=("operator.read",),
        particulars=DeviceDescription(public_key="key"),
        trusted=trusted,
        token_epoch=token_epoch,
    )


def pairings(clock: Clock | None = None) -> Pairings:
    ledger = RememberingLedger().as_ledger()
    return Pairings(ledger, lambda _name, _payload: None, clock or Clock(), RandomIds())


async def asked(run_store: Pairings, name: str) -> str:
    with pytest.raises(PairingRequired) as refused:
        await run_store.admit(wish(name))
    return str(refused.value.details["requestId"])


async def test_so_many_may_wait_and_no_more_until_their_time_is_over() -> None:
    clock = Clock()
    run_store = pairings(clock)
    for number in range(PENDING_MAX):
        await asked(run_store, f"device {number}")
    with pytest.raises(Busy):
        await run_store.admit(wish("one more"))

    clock.now += PENDING_MS
    await asked(run_store, "one more")

    assert [each.subject for each in run_store.pending] == ["one more"]


async def test_when_there_are_too_many_the_longest_silent_of_the_unasked_goes() -> None:
    run_store = pairings()
    request_id = await asked(run_store, "approved")
    await run_store.approve(request_id, OWNER)
    for number in range(DEVICES_MAX):
        await run_store.admit(wish(f"device {number}", trusted=True))

    assert len(run_store.devices) == DEVICES_MAX
    assert run_store.find("device 0", "operator") is None
    assert run_store.find("approved", "operator") is not None


async def test_programs_of_one_device_that_come_in_together_all_keep_a_good_token() -> None:
    run_store = pairings()
    given = [await run_store.admit(wish("one", trusted=True)) for _ in range(TOKENS_KEPT + 1)]
    lock = run_store.lock("one", "operator")

    assert [lock.opened_by(each.token.reveal()) for each in given if each.token] == [
        False,
        *[True] * TOKENS_KEPT,
    ]


@pytest.mark.spec("G1")
@pytest.mark.parametrize("taken_by", ["remove", "rotate", "revoke"])
async def test_a_token_that_is_taken_away_on_the_way_in_opens_nothing(taken_by: str) -> None:
    run_store = pairings()
    epoch = (await run_store.admit(wish("one", trusted=True))).credential.epoch
    match taken_by:
        case "remove":
            await run_store.remove("one", OWNER)
            await run_store.admit(wish("one", trusted=True))
        case "rotate":
            await run_store.rotate("one", "operator", None, OWNER)
        case "revoke":
            await run_store.revoke("one", "operator", OWNER)

    assert not run_store._credentials.stands([CredentialRef("device:operator:one", epoch)])
    with pytest.raises(DeviceTokenMismatch):
        await run_store.admit(wish("one", token_epoch=epoch))


async def test_what_another_gateway_has_revoked_is_not_undone_by_a_device_that_comes_back(
    tmp_path: Path,
) -> None:
    """The hour of its last visit is written with the whole row: it was read before the revocation."""
    ledger, clock = open_ledger(tmp_path / "l.sqlite", inline=True), Clock()
    one, other = (
        Pairings(ledger, lambda _name, _payload: None, clock, RandomIds()) for _ in range(2)
    )
    paired = await one.admit(wish("phone", trusted=True))
    await other.load()
    await other.revoke("phone", "operator", OWNER)

    with pytest.raises(Busy, match="changed by another gateway"):
        await one.admit(wish("phone", token_epoch=paired.credential.epoch))

    (stored,) = await ledger.list_credentials()
    assert stored.revoked_at is not None
    assert one.find("phone", "operator") == stored  # and now it knows
    with pytest.raises(DeviceTokenMismatch):
        await one.admit(wish("phone", token_epoch=paired.credential.epoch))
    await ledger.close()

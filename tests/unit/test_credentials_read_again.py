"""Credentials are read again each second where gateways share a ledger: what is changed here meanwhile stays changed."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.credentials import Credential, DeviceDescription
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.ids import RandomIds
from crossclaw.door.principal import Principal, person_principal
from crossclaw.gateway.auth import SecretDigests
from crossclaw.gateway.door_secrets import DoorSecrets
from crossclaw.gateway.pairing import PairingRequest, Pairings
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.policy.credentials import Credentials
from crossclaw.sessions.guest_names import GuestNames

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B3")]
OWNER = person_principal("owner", {"operator.admin"})


class FarLedger:
    """Answers what was true when it was asked, when it is let."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.go = ledger, anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def list_credentials(self) -> list[Credential]:
        found = await self._ledger.list_credentials()
        await self.go.wait()
        return list(found)


async def meanwhile(
    far: FarLedger,
    load: Callable[[], Coroutine[Any, Any, None]],
    change: Callable[[], Coroutine[Any, Any, Any]],
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(load)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(change)
        await anyio.wait_all_tasks_blocked()
        far.go.set()


def phone(principal_of: Credential) -> Principal:
    return person_principal("device:phone", {"operator.read"}, [principal_of.ref])


async def test_a_device_that_is_revoked_or_paired_while_they_are_read_stays_so(
    tmp_path: Path,
) -> None:
    ledger, credentials, clock = (
        open_ledger(tmp_path / "l.sqlite", inline=True),
        Credentials(),
        SystemClock(),
    )
    far = FarLedger(ledger)
    pairings = Pairings(far, lambda *_: None, clock, RandomIds(), credentials)
    wish = PairingRequest(
        device_id="phone",
        role="operator",
        scopes=("operator.read",),
        particulars=DeviceDescription(public_key="k"),
        trusted=True,
    )
    await meanwhile(far, pairings.load, lambda: pairings.admit(wish))
    found = pairings.find("phone", "operator")
    assert found is not None, "it was let in"
    assert credentials.stands(phone(found).authority.made_by)
    far.go = anyio.Event()
    await meanwhile(far, pairings.load, lambda: pairings.revoke("phone", "operator", OWNER))
    assert not credentials.stands(phone(found).authority.made_by), "it stays out"
    await ledger.close()


async def test_a_guest_that_has_just_come_to_another_gateway_comes_to_this_one_too(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    one, other = [GuestNames(ledger, Credentials(), SystemClock()) for _ in "ab"]
    assert await one.hold(OWNER, "bob") == "bob"
    assert await other.hold(OWNER, "bob") == "bob", "though it had not heard of it"
    stranger = person_principal(
        "device:x", {"operator.read"}, [CredentialRef("device:x:operator", 1)]
    )
    await one.hold(OWNER, "eve")
    other._credentials.put("device:x:operator", 1)
    with pytest.raises(Forbidden, match="another client is here under the name eve"):
        await other.hold(stranger, "eve")
    await ledger.close()


async def test_a_guest_that_is_removed_while_they_are_read_stays_away(tmp_path: Path) -> None:
    ledger, credentials = open_ledger(tmp_path / "l.sqlite", inline=True), Credentials()
    far = FarLedger(ledger)
    names = GuestNames(far, credentials, SystemClock())
    token = await names.add("bob")
    await meanwhile(far, names.load, lambda: names.remove("bob"))
    assert names.find_token(token.reveal()) is None
    await ledger.close()


async def test_of_two_gateways_that_take_the_same_new_secret_at_once_neither_sends_anybody_away(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "l.sqlite", inline=True)
    far = FarLedger(ledger)
    here, there = Credentials(), Credentials()
    here.put("hooks", 1_000)
    there.put("hooks", 2_000)
    lock = SecretDigests((b"d" * 32,), "token")
    late: Any = far
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(DoorSecrets(late, there, SystemClock()).keep, "hooks", lock)
        await anyio.lowlevel.checkpoint()
        await DoorSecrets(ledger, here, SystemClock()).keep("hooks", lock)
        far.go.set()
    (kept,) = await ledger.list_credentials()
    assert kept.epoch == here.epoch_of("hooks") == there.epoch_of("hooks") == 1_000
    await ledger.close()

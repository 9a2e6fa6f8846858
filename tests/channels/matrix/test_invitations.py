"""Invitations that were not followed: they wait, within limits, for their sender to be let in."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.channels.http import HttpClients
from crossclaw.channels.matrix.events import InvitedRoom, RawEvents, SyncedRooms
from crossclaw.channels.matrix.invitations import KEPT_MAX, Invitations, RoomInvitation
from crossclaw.channels.matrix.settings import MatrixSettings
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.testing import VirtualClock, open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.matrix.fake import BOT, TOKEN, FakeHomeserver
from tests.channels.matrix.test_hostile_rooms import InvitedRecording
from tests.flows.talking import call
from tests.flows.test_runs_keep_their_order import Recording

pytestmark = pytest.mark.spec("N7")


@pytest.mark.anyio
@pytest.mark.spec("N8")
@pytest.mark.parametrize("meanwhile", ["nothing", "restart", "withdrawn"])
async def test_an_invitation_that_was_refused_is_followed_once_its_sender_is_approved(
    tmp_path: Path, meanwhile: str
) -> None:
    homeserver = FakeHomeserver()
    section = {
        "homeserver": "https://fake.example",
        "accessToken": TOKEN,
        "dmPolicy": "pairing",
        "autoJoin": "allowlist",
    }
    config = Config(channels=Loose.of({"matrix": section}))
    transport = FakeTransport({"fake.example": homeserver})

    def opened() -> Any:
        return open_gateway(
            tmp_path, Recording(), config=config, http=lambda: HttpClients(transport)
        )

    async with AsyncExitStack() as gateways:
        gateway = await gateways.enter_async_context(opened())
        await homeserver.followed.wait()
        homeserver.invite("!hers", "@eve:fake.example")
        homeserver.invite("!others", "@bob:fake.example")
        homeserver.say(homeserver.room_with("@eve:fake.example"), "@eve:fake.example", "hello")
        await anyio.sleep(60)
        (asked,) = (await call(gateway, "chat.pairing.list"))["requests"]
        assert "!hers" not in homeserver.members
        if meanwhile == "restart":
            await gateways.aclose()
            gateway = await gateways.enter_async_context(opened())
        if meanwhile == "withdrawn":
            homeserver.withdraw("!hers")
        await call(gateway, "chat.pairing.approve", channel="matrix", code=asked["code"])
        await anyio.sleep(60)
    assert ("!hers" in homeserver.members) is (meanwhile != "withdrawn")
    assert "!others" not in homeserver.members


def invited(room_id: str, *senders: str) -> SyncedRooms:
    events = [
        {
            "type": "m.room.member",
            "sender": sender,
            "state_key": BOT,
            "content": {"membership": "invite", "is_direct": True},
        }
        for sender in senders
    ]
    raw = [msgspec.Raw(msgspec.json.encode(event)) for event in events]
    return SyncedRooms(invite={room_id: InvitedRoom(RawEvents(raw))})


async def test_who_invites_without_end_pushes_out_no_other_invitation() -> None:
    host = InvitedRecording("matrix", FakeTransport({}), VirtualClock())
    host.drops = {"@ann:fake.example", "@eve:fake.example"}
    settings = MatrixSettings(homeserver="https://fake.example", dm_policy="allowlist")
    nobody_joins: Any = None
    invitations = Invitations(nobody_joins, host, settings, BOT)
    await invitations.take(invited("!ann", "@ann:fake.example"))
    for number in range(KEPT_MAX + 5):
        await invitations.take(invited(f"!eve{number}", "@eve:fake.example"))
    await invitations.take(invited("!ann", "@ann:fake.example"))
    kept = msgspec.json.decode(host.cursors[f"invitations {BOT}"], type=list[RoomInvitation])
    assert len(kept) == KEPT_MAX
    assert [each.room_id for each in kept if each.sender == "@ann:fake.example"] == ["!ann"]


async def test_an_invitation_in_two_names_is_followed_for_neither() -> None:
    """What is told of a room before it is joined comes from the server that invites, and goes before the invitation itself:
    it may say that somebody else has invited."""
    host = InvitedRecording("matrix", FakeTransport({}), VirtualClock())
    host.drops = {"@eve:evil.example"}
    settings = MatrixSettings(homeserver="https://fake.example", dm_policy="allowlist")

    joined: list[str] = []

    class Joining:
        async def join(self, room_id: str) -> None:
            joined.append(room_id)

    client: Any = Joining()
    invitations = Invitations(client, host, settings, BOT)
    await invitations.take(invited("!hers", "@ann:fake.example"))
    await invitations.take(invited("!trap", "@ann:fake.example", "@eve:evil.example"))
    assert joined == ["!hers"]

"""What failed is shown as failed: in the table, on the map, in the list of exchanges and to a parent."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import ToolUse
from crossclaw.providers.contract import ModelRequest
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.crashing import crashed_copy
from tests.flows.spawning import announces_in, family, reported
from tests.flows.talking import call, say, two_agents
from tests.flows.test_exchanges import settled
from tests.flows.test_guests import ASK, Guest
from tests.flows.test_guests import two_agents as with_guests

pytestmark = pytest.mark.spec("B7")

BOB = "agent:main:mcp:bob"


async def standing(gateway: object, key: str) -> dict[str, object]:
    (row,) = (await call(gateway, "sessions.table", key=key))["rows"]  # type: ignore[arg-type]
    found: dict[str, object] = row["standing"]
    return found


async def test_a_session_says_how_its_last_run_ended_until_the_next_one(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, "main", "fail: the model has no key", "r1")
        failed = await standing(gateway, "agent:main:main")
        async with open_gateway(
            crashed_copy(tmp_path, f"{tmp_path.name} later"), RehearsalProvider()
        ) as again:
            after = await standing(again, "agent:main:main")
        await call(gateway, "chat.send", sessionKey="main", message="/status", idempotencyKey="r2")
        commanded = await standing(gateway, "agent:main:main")
        await say(gateway, "main", "say: well", "r3")
        well = await standing(gateway, "agent:main:main")
        await call(gateway, "sessions.reset", key="agent:main:main")
        anew = await standing(gateway, "agent:main:main")

    assert (failed["name"], failed["runId"]) == ("failed", "r1")
    assert "the model has no key" in str(failed["why"])
    assert failed == after
    assert (commanded["name"], commanded["why"]) == ("failed", failed["why"])
    assert well["name"] == "ok"
    assert anew == {"name": "idle"}


async def test_a_failed_exchange_says_so_and_why(tmp_path: Path) -> None:
    send = 'tool: sessions_send {"agentId": "librarian", "message": "fail: no shelf", "timeoutSeconds": 60}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await say(gateway, "main", f"{send}\nthen:\nsay: sad", "r1")
        await settled(gateway)
        (listed,) = (await call(gateway, "exchanges.list"))["exchanges"]
        trace = await call(gateway, "exchanges.trace", id=listed["id"])
        seen = await call(gateway, "map.get", sinceMs=0)
        history = await call(gateway, "chat.history", sessionKey="main")

    assert listed["standing"]["name"] == trace["standing"]["name"] == "failed"
    assert "no shelf" in listed["standing"]["why"]
    assert [run.get("standing", {}).get("name") for run in seen["runs"]] == [None, "failed"]
    (result,) = [each for each in history["messages"] if each["role"] == "toolResult"]
    assert (result["isError"], result["standing"]["name"]) == (False, "failed")


async def test_an_exchange_under_way_is_running_and_its_requester_waits(tmp_path: Path) -> None:
    send = 'tool: sessions_send {"agentId": "librarian", "message": "wait: 60\\nsay: so", "timeoutSeconds": 90}'
    async with open_gateway(tmp_path, RehearsalProvider(), config=two_agents()) as gateway:
        await call(gateway, "chat.send", sessionKey="main", message=send, idempotencyKey="r1")
        await anyio.sleep(5)
        (listed,) = (await call(gateway, "exchanges.list"))["exchanges"]
        waiting = await standing(gateway, "agent:main:main")

    assert listed["standing"]["name"] == "running"
    assert waiting["name"] == "waiting"
    assert waiting["waitsFor"] == ["agent:librarian:main"]


async def test_a_guest_that_is_away_is_waited_for_and_not_running(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=with_guests()) as gateway:
        bob = Guest(gateway, "bob")
        await bob.wait(0)
        await call(gateway, "chat.send", sessionKey="main", message=ASK, idempotencyKey="r1")
        await anyio.sleep(1)
        here = await standing(gateway, BOB)
        killed = crashed_copy(tmp_path, f"{tmp_path.name} killed")
        await bob.wait(0)
    async with open_gateway(killed, RehearsalProvider(), config=with_guests()) as gateway:
        await anyio.sleep(1)
        away = await standing(gateway, BOB)

    assert (here["name"], here["why"]) == ("waiting", "the guest bob")
    assert (away["name"], away["why"]) == ("waiting", "the guest bob, which is away")


@pytest.mark.spec("P5", "P6")
async def test_why_a_child_failed_reaches_its_parent_though_it_announces_nothing(
    tmp_path: Path,
) -> None:
    def work(_: ModelRequest) -> list[ToolUse]:
        raise ProviderError("the model has no key")

    async with open_gateway(tmp_path, family(work=work, announce="ANNOUNCE_SKIP")) as gateway:
        await say(gateway, "main", "go", "r1")
        spawn = await reported(gateway)
        (note,) = await announces_in(gateway)
        child = await standing(gateway, spawn.child_key)
        seen = await call(gateway, "map.get", sinceMs=0)

    assert "Status: error. Reason:" in note
    assert "the model has no key" in note
    assert child["name"] == "failed"  # though its announce ended well
    assert seen["spawns"][0]["standing"]["name"] == "failed"

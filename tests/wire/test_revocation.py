"""A credential that ends takes everything with it that came by it: connections, requests, streams, runs."""

from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.wire.revoked import NEW, asking, come_in, http, patch, say, serve_file
from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway
from tests.wire.serving import Peer, SignedDevice
from tests.wire.test_pairing import ADMIN, knocking, paired

pytestmark = pytest.mark.spec("B3")

ENDED = "the credential that this came by was revoked, removed or changed"
SLOW = "wait: 3000\nsay: too late"


async def outcome(peer: Peer, run_id: str) -> dict[str, Any]:
    waited = await peer.ask("agent.wait", {"runId": run_id, "timeoutMs": 20_000})
    found: dict[str, Any] = waited["payload"]
    return found


async def words_of(peer: Peer, key: str = "main") -> str:
    return str((await peer.ask("chat.history", {"sessionKey": key}))["payload"]["messages"])


async def test_another_token_ends_what_came_by_the_old_one_while_a_run_is_under_way(
    tmp_path: Path,
) -> None:
    async with (
        serve_file(tmp_path) as served_gateway,
        come_in(served_gateway) as owner,
        come_in(served_gateway) as thief,
    ):
        await say(thief, "r1", SLOW)
        answer = await patch(owner, {"gateway": {"auth": {"token": NEW}}})
        assert answer["ok"], "who changes it hears that it is done"
        assert (await thief.closed())[0] == (await owner.closed())[0] == 1008
        async with http(served_gateway) as old:
            assert (await old.get("/v1/models")).status_code == 401
        async with come_in(served_gateway, NEW) as again:
            ended = await outcome(again, "r1")
            said = await words_of(again)

    assert ended["error"] == ENDED, ended
    assert ended["stopReason"] == "aborted", ended
    assert "too late" in said, "the message stays in the transcript"


async def test_a_stream_over_http_ends_with_the_token_that_began_it(tmp_path: Path) -> None:
    heard, begun = list[bytes](), anyio.Event()

    async def listen(served_gateway: ServedGateway) -> None:
        body = asking(SLOW, stream=True)
        try:
            async with (
                http(served_gateway) as old,
                old.stream("POST", "/v1/chat/completions", json=body) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    heard.append(piece)
                    begun.set()
        except httpx2.RemoteProtocolError:
            heard.append(b"cut off")

    async with serve_file(tmp_path) as served_gateway, come_in(served_gateway) as owner:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen, served_gateway)
                await begun.wait()
                assert (await patch(owner, {"gateway": {"auth": {"token": NEW}}}))["ok"]

    assert heard[-1] == b"cut off"


async def test_a_request_over_http_that_waits_is_refused_when_its_token_ends(
    tmp_path: Path,
) -> None:
    answers: list[int] = []

    async def ask(served_gateway: ServedGateway) -> None:
        async with http(served_gateway) as old:
            body = asking(SLOW, stream=False)
            answers.append((await old.post("/v1/chat/completions", json=body)).status_code)

    async with serve_file(tmp_path) as served_gateway, come_in(served_gateway) as owner:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                assert (await owner.ask("sessions.subscribe", {}))["ok"]
                tasks.start_soon(ask, served_gateway)
                await owner.event("agent")  # its run has begun
                assert (await patch(owner, {"gateway": {"auth": {"token": NEW}}}))["ok"]

    assert answers == [401]


@pytest.mark.parametrize("by", ["its own token", "the gateway's token"])
@pytest.mark.parametrize("method", ["device.pair.remove", "device.token.revoke"])
async def test_a_device_that_is_taken_away_takes_its_runs_with_it(
    tmp_path: Path, method: str, by: str
) -> None:
    device = SignedDevice()
    async with serve_gateway(tmp_path) as served_gateway:
        own = await paired(served_gateway, device, scopes=[ADMIN])
        token = own if by == "its own token" else TOKEN
        async with (
            knocking(served_gateway) as (owner, _hello),
            knocking(served_gateway, device, token=token, scopes=[ADMIN]) as (thief, hello),
        ):
            assert hello["ok"], hello
            await say(thief, "r1", SLOW)
            await say(thief, "r2", "say: queued behind it")
            await say(owner, "mine", "wait: 1\nsay: in time", "agent:main:mine")
            which = {"deviceId": device.id}
            if method == "device.token.revoke":
                which["role"] = "operator"
            answer = (await owner.ask(method, which))["payload"]
            assert sorted(answer["endedRuns"]) == ["r1", "r2"]
            ends = [await outcome(owner, each) for each in ("r1", "r2", "mine")]
            said = await words_of(owner)

    assert [ENDED in str(each) for each in ends] == [True, True, False]
    assert ends[2]["status"] == "ok"
    assert "too late" in said
    assert "queued behind it" in said


async def test_a_token_that_was_changed_while_nobody_served_ends_what_the_old_one_left(
    tmp_path: Path,
) -> None:
    async with serve_file(tmp_path) as served_gateway, come_in(served_gateway) as peer:
        await say(peer, "r1", SLOW)
    (tmp_path / "openclaw.json").unlink()  # the same token comes from the environment now
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (same, _hello),
    ):
        kept = await same.ask("agent.wait", {"runId": "r1", "timeoutMs": 100})
        assert kept["payload"]["status"] == "timeout", "the same token again: it goes on"

    async with serve_file(tmp_path) as served_gateway, come_in(served_gateway) as owner:
        assert (await patch(owner, {"gateway": {"auth": {"token": NEW}}}))["ok"]
    async with (
        serve_gateway(tmp_path) as served_gateway,
        knocking(served_gateway) as (owner, _hello),
    ):
        ended = await outcome(owner, "r1")
    assert ENDED in str(ended)

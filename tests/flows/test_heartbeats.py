"""Heartbeats: an agent looks around by itself; HEARTBEAT_OK is silence."""

import os
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.events import FeedEvent, HeartbeatNews
from crossclaw.domain.jobs import beyond_heartbeat
from crossclaw.sandbox.files import PLACEHOLDER
from crossclaw.testing import OPEN_TO_ALL, MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call

MINUTES = 60


def config(**heartbeat: Any) -> Config:
    return msgspec.convert({"agents": {"defaults": {"heartbeat": heartbeat}}}, Config)


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_nobody_is_set_to_work_by_silence(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        await anyio.sleep(120 * MINUTES)
        assert await call(gateway, "last-heartbeat") is None


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_heartbeat_comes_every_so_often_and_speaks_only_when_there_is_something(
    tmp_path: Path,
) -> None:
    channel, heard = MemoryChannel(settings=OPEN_TO_ALL), list[FeedEvent]()
    script = ["hello", "HEARTBEAT_OK", "**HEARTBEAT_OK** is not the whole: the oven is on"]
    provider = ScriptedProvider(script)
    async with open_gateway(
        tmp_path, provider, channels=[channel], config=config(every="10m", prompt="Look around.")
    ) as gateway:
        gateway.feed.subscribe(heard.append)
        await channel.say("ana", "hi")
        await anyio.sleep(21 * MINUTES)
        assert provider.left == 0
        assert "Look around." in str(provider.seen[1].turns[-1])
        assert [text for _, text in channel.sent] == [script[0], script[2]]
        told = [news.status for news in heard if isinstance(news, HeartbeatNews)]
        assert told == ["ok-token", "sent"]
        assert (await call(gateway, "cron.list", includeDisabled=True))["jobs"] == []
        last = await call(gateway, "last-heartbeat")
        assert last["status"] == "sent"
        assert (await call(gateway, "health"))["heartbeatSeconds"] == 600


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_heartbeats_keep_quiet_hours_and_wait_for_what_is_being_said(tmp_path: Path) -> None:
    heard: list[FeedEvent] = []
    night = {"start": "22:00", "end": "06:00", "timezone": "UTC"}  # the tests begin at noon
    async with open_gateway(
        tmp_path, ScriptedProvider([]), config=config(every="10m", activeHours=night)
    ) as gateway:
        gateway.feed.subscribe(heard.append)
        await anyio.sleep(11 * MINUTES)
    assert [news.reason for news in heard if isinstance(news, HeartbeatNews)] == ["quiet-hours"]


@pytest.mark.anyio
@pytest.mark.spec("K3")
@pytest.mark.parametrize(
    ("text", "runs"), [("# Tasks\n\n- [ ]\n", 0), ("# Tasks\n- water the plants\n", 1)]
)
async def test_a_list_without_anything_on_it_needs_no_look(
    tmp_path: Path, text: str, runs: int
) -> None:
    workspace = tmp_path / "state" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "HEARTBEAT.md").write_text(text)
    provider = ScriptedProvider(lambda _: "HEARTBEAT_OK")
    async with open_gateway(tmp_path, provider, config=config(every="10m")):
        await anyio.sleep(11 * MINUTES)
    assert len(provider.seen) == runs


@pytest.mark.anyio
@pytest.mark.spec("K3", "V4")
@pytest.mark.parametrize("kind", ["pipe", "link out", "folder", "kept free"])
async def test_a_heartbeat_file_that_is_none_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    """A sandboxed agent can make a pipe: opening it would wait for ever."""
    workspace = tmp_path / "state" / "workspace"
    workspace.mkdir(parents=True)
    file = workspace / "HEARTBEAT.md"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "link out":
            (tmp_path / "empty").touch()
            file.symlink_to(tmp_path / "empty")
        case "folder":
            file.mkdir()
        case "kept free":
            file.write_text(PLACEHOLDER)
    provider = ScriptedProvider(lambda _: "HEARTBEAT_OK")
    async with open_gateway(tmp_path, provider, config=config(every="10m")):
        await anyio.sleep(11 * MINUTES)
    assert len(provider.seen) == 1


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_heartbeats_can_be_stopped_and_a_wake_gets_through_all_the_same(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(lambda _: "HEARTBEAT_OK")
    async with open_gateway(tmp_path, provider, config=config(every="10m")) as gateway:
        assert await call(gateway, "set-heartbeats", enabled=False) == {
            "ok": True,
            "enabled": False,
        }
        await anyio.sleep(11 * MINUTES)
        assert not provider.seen
        assert await call(gateway, "wake", mode="now", text="the door opened") == {"ok": True}
        await anyio.sleep(1)
        await call(gateway, "system-event", text="it rains")
        await call(gateway, "system-event", text="Node: phone is here")
        assert len(provider.seen) == 1
        history = await call(gateway, "chat.history", sessionKey="main")
        said = [m["content"][0]["text"] for m in history["messages"] if m["role"] == "user"]
        assert said == ["the door opened", "it rains"]


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_heartbeat_that_the_config_no_longer_has_is_gone(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda _: "HEARTBEAT_OK")
    async with open_gateway(tmp_path, provider, config=config(every="10m")):
        pass
    async with open_gateway(tmp_path, provider) as gateway:
        assert await gateway.ledger.list_jobs() == []


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("HEARTBEAT_OK", ""),
        ("  HEARTBEAT_OK\n", ""),
        ("**HEARTBEAT_OK**", ""),
        ("`HEARTBEAT_OK`.", ""),
        ("_HEARTBEAT_OK_", ""),
        ("heartbeat_ok", "heartbeat_ok"),
        ("HEARTBEAT_OK all is well", ""),
        ("all is well HEARTBEAT_OK", ""),
        ("HEARTBEAT_OK " + "x" * 301, "x" * 301),
        ("the word HEARTBEAT_OK in the middle", "the word HEARTBEAT_OK in the middle"),
        ("news", "news"),
        ("", ""),
    ],
)
def test_what_of_a_reply_is_worth_telling(reply: str, told: str) -> None:
    assert beyond_heartbeat(reply, 300) == told

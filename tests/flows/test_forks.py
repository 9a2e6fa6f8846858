"""Forks over the wire, and the titles that conversations get by how they began."""

from pathlib import Path

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolUse
from crossclaw.door.principal import person_principal, session_principal
from crossclaw.gateway.methods.table import TITLE_CHARS_MAX, title_of
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say


@pytest.mark.spec("B8")
async def test_a_fork_goes_on_by_itself_and_its_source_stays_as_it_was(tmp_path: Path) -> None:
    model = ScriptedProvider(["one", "two", "three"])

    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "garden", "first words", "r1")
        await say(gateway, "garden", "second words", "r2")
        history = (await call(gateway, "sessions.entries", key="garden"))["entries"]
        asked = next(
            each for each in history if each["message"]["role"] == "user" and each["seq"] > 1
        )
        forked = await call(gateway, "sessions.fork", sessionKey="garden", entryId=asked["entryId"])
        run = await say(gateway, forked["sessionKey"], "other words", "r3")
        rows = (await call(gateway, "sessions.table"))["rows"]
        after = (await call(gateway, "sessions.entries", key="garden"))["entries"]

    assert forked["editorText"] == "second words"
    assert run.reply == "three"
    said = str(model.seen[-1].turns)
    assert "first words" in said
    assert "other words" in said
    assert "second words" not in said
    assert after == history
    titles = {row["key"]: row.get("title") for row in rows}
    assert titles[forked["sessionKey"]] == "first words"
    assert titles["agent:main:garden"] is None


@pytest.mark.spec("B8", "B3")
async def test_only_operators_fork(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["one"])) as gateway:
        await say(gateway, "garden", "first words", "r1")
        reader = person_principal("device:r", {"operator.read"})
        agent = session_principal(SessionKey.main("main"), Authority())
        for who in (reader, agent):
            with pytest.raises(CrossclawError):
                await call(gateway, "sessions.fork", who, sessionKey="agent:main:garden")
        with pytest.raises(NotFound):
            await call(gateway, "sessions.fork", sessionKey="agent:main:nobody")


@pytest.mark.spec("B8")
async def test_a_fork_in_the_middle_of_work_closes_the_open_call(tmp_path: Path) -> None:
    model = ScriptedProvider([ToolUse("c1", "sessions_list", {}), "done", "on we go"])

    async with open_gateway(tmp_path, model) as gateway:
        await say(gateway, "garden", "look", "r1")
        entries = (await call(gateway, "sessions.entries", key="garden"))["entries"]
        calls = next(each for each in entries if each["message"]["role"] == "assistant")
        forked = await call(gateway, "sessions.fork", sessionKey="garden", entryId=calls["entryId"])
        run = await say(gateway, forked["sessionKey"], "and now?", "r2")

    assert run.reply == "on we go"
    assert "interrupted: the conversation was forked here" in str(model.seen[-1].turns)


def test_a_title_is_the_first_line_cut_between_words() -> None:
    assert title_of("\n  Plan   the garden\nwith lavender") == "Plan the garden"
    long = title_of("word " * 40)
    assert len(long) <= TITLE_CHARS_MAX + 1
    assert long.endswith("word…")
    assert title_of("") == ""

"""Tools called from outside: as a session, with its rights, and only those that are offered."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import Principal, person_principal
from crossclaw.ledger.operations import ArchiveSession, PatchSession
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from crossclaw.tools.invoke import Invoker, ToolNotAvailable
from tests.flows.talking import OWNER, say
from tests.stores import look_into

NOTES = SessionKey.named("main", "notes")
READER = person_principal("reader", {"operator.read"})


async def invoke(
    folder: Path, tool: str, arguments: dict[str, Any], *, session: str = "main", who: Principal = OWNER,
    raw: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    config = msgspec.convert(raw or {}, Config)
    failure: CrossclawError | None = None
    async with open_gateway(folder, RehearsalProvider(), config=config) as gateway:
        await say(gateway, "agent:main:notes", "say: hi", "r1")
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, config, lambda agent_id: "x/y"
        )
        try:
            return await invoker.invoke(who, tool, arguments, session)
        except CrossclawError as error:
            failure = error  # raised below: inside, a task group would wrap it
    raise failure


async def test_rules_for_the_sessions_own_model_hold_from_outside_too(tmp_path: Path) -> None:
    raw = {"tools": {"byProvider": {"rehearsal/strict": {"deny": ["sessions_list"]}}}}
    config = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=config) as gateway:
        await say(gateway, NOTES.text, "say: hi", "r1")
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, config, lambda agent_id: "x/y"
        )
        assert await invoker.invoke(OWNER, "sessions_list", {}, NOTES.text)
        await gateway.ledger.commit(
            PatchSession(key=NOTES, changes={"model": "rehearsal/strict"}, at=2)
        )
        with pytest.raises(ToolNotAvailable):
            await invoker.invoke(OWNER, "sessions_list", {}, NOTES.text)
        assert await invoker.invoke(OWNER, "sessions_list", {}, "main")


async def test_a_tool_acts_as_the_session_that_is_named(tmp_path: Path) -> None:
    result = await invoke(
        tmp_path, "sessions_send", {"sessionKey": "agent:main:notes", "message": "say: yes"}
    )

    assert (result.status, result.reply) == ("ok", "yes")


async def test_a_session_that_is_not_there_is_unknown_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="unknown session"):
        await invoke(tmp_path, "sessions_list", {}, session="agent:main:new")


async def test_a_denied_tool_and_an_unknown_one_are_the_same(tmp_path: Path) -> None:
    with pytest.raises(ToolNotAvailable, match="Tool not available: nope"):
        await invoke(tmp_path / "1", "nope", {})
    with pytest.raises(ToolNotAvailable, match="Tool not available: sessions_send"):
        await invoke(
            tmp_path / "2",
            "sessions_send",
            {},
            raw={"gateway": {"tools": {"deny": ["sessions_send"]}}},
        )


@pytest.mark.spec("V1")
async def test_a_sandboxed_session_stays_restricted(tmp_path: Path) -> None:
    """It has spawned nothing, so it sees nothing, its own session included."""
    boxed = msgspec.convert({"agents": {"defaults": {"sandbox": {"mode": "non-main"}}}}, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=boxed) as gateway:
        await say(gateway, "agent:main:notes", "say: hi", "r1")
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, boxed, lambda agent_id: "x/y"
        )
        locked_in = await invoker.invoke(OWNER, "sessions_list", {}, "agent:main:notes")
        free = await invoker.invoke(OWNER, "sessions_list", {}, "main")

    assert (locked_in.count, free.count) == (0, 1)


async def test_reading_needs_the_right_to_read_and_sending_the_right_to_write(
    tmp_path: Path,
) -> None:
    listed = await invoke(tmp_path / "1", "sessions_list", {}, who=READER)
    assert listed.count == 1
    with pytest.raises(Forbidden, match="operator"):
        await invoke(
            tmp_path / "2", "sessions_send", {"sessionKey": "main", "message": "x"}, who=READER
        )


@pytest.mark.parametrize("tool", ["exec", "write", "edit"])
async def test_tools_that_change_the_machine_are_closed_until_they_are_opened(
    tmp_path: Path, tool: str
) -> None:
    with pytest.raises(ToolNotAvailable, match=f"Tool not available: {tool}"):
        await invoke(tmp_path / "1", tool, {})
    with pytest.raises(Invalid, match="it takes"):
        await invoke(tmp_path / "2", tool, {}, raw={"gateway": {"tools": {"allow": [tool]}}})


async def test_the_sessions_own_policy_holds_outside_too(tmp_path: Path) -> None:
    with pytest.raises(ToolNotAvailable, match="Tool not available: read"):
        await invoke(tmp_path, "read", {"path": "a"}, raw={"tools": {"deny": ["group:fs"]}})


@pytest.mark.spec("V1", "P7")
async def test_no_tool_acts_as_a_session_that_was_archived(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        await say(gateway, NOTES.text, "say: hello", "r1")
        await gateway.ledger.do(ArchiveSession(key=NOTES, at=1))
        invoker = Invoker(
            gateway.door, gateway.toolsets, gateway.resolver, Config(), lambda agent_id: "x/y"
        )
        with pytest.raises(NotFound, match="unknown session: agent:main:notes"):
            await invoker.invoke(OWNER, "sessions_list", {}, NOTES.text)


@pytest.mark.spec("B3")
async def test_refusals_from_outside_are_in_the_audit_as_those_of_methods_are_and_once(
    tmp_path: Path,
) -> None:
    raw = {"tools": {"agentToAgent": {"enabled": False}}, "agents": {"list": [{"id": "main"}, {"id": "ops"}]}}  # fmt: skip
    to_ops = {"sessionKey": "agent:ops:main", "message": "hi"}
    with pytest.raises(Forbidden, match=r"^missing scope: operator\.write$"):
        await invoke(tmp_path, "sessions_send", to_ops, who=READER)
    answer = await invoke(tmp_path, "sessions_send", to_ops, raw=raw, session="agent:main:notes")

    assert answer.status == "forbidden"
    db = look_into(tmp_path / "state" / "crossclaw.sqlite")
    rows = list(db.execute("SELECT principal, action, reason FROM audit ORDER BY id"))
    db.close()
    assert rows[0] == ("reader", "tool.sessions_send", "missing scope: operator.write")
    assert [row[:2] for row in rows[1:]] == [("agent:main:notes", "tool.sessions_send")]

"""Sight, every kind of principal: what each sees of one world, by lists, by counts and by name, against the
table in docs/visibility.md."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, NotFound
from crossclaw.domain.exchanges import Exchange
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.domain.sight import EVERYTHING
from crossclaw.door.principal import Principal, SightKind, person_principal, session_principal
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.edge import NOBODY
from crossclaw.gateway.handshake import ClientSays, ConnectParams, _principal
from crossclaw.ledger.operations import EnsureSession, PutExchange
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.route import route
from crossclaw.sessions.run_builder import RunBuilder

MAIN, NOTES, HELPER = "agent:main:main", "agent:main:notes", "agent:helper:main"
PHONE, WATCH, BELL = "node-phone", "node-watch", "hook:bell"
BOB, CHILD, CHAT = "agent:main:mcp:bob", "agent:main:subagent:c", "agent:main:memory:group:g1"
WORLD = (MAIN, NOTES, HELPER, PHONE, WATCH, BELL, BOB, CHILD, CHAT)

RAW: dict[str, Any] = {
    "agents": {"list": [{"id": "main"}, {"id": "helper"}]},
    "gateway": {
        "nodes": {"sessions": {"phone": [NOTES], "watch": []}},
        "guests": {"sessions": {"bob": [HELPER], "ann": ["*"]}},
    },
}


def node(name: str) -> Principal:
    says = ClientSays(id="node-host", version="1", platform="ios", mode="node", instance_id=name)
    params = ConnectParams(min_protocol=4, max_protocol=4, client=says, role="node")
    return _principal(params, "node", frozenset({"node"}), frozenset())


def chat(config: Config, key: str = CHAT) -> Principal:
    group = "g1" if key == CHAT else None
    inbound = Inbound(
        address=Address("memory", group or "ana"), sender="ana", text="hi", message_id="1",
        chat_type="group" if group else "direct", chat_id=group,
    )  # fmt: skip
    nothing: Any = None
    builder = RunBuilder(config, nothing, nothing)
    intake = Intake(builder, nothing, nothing, nothing, nothing, nothing)
    assert route(config, inbound) == SessionKey.parse(key)
    return intake.sender(inbound, SessionKey.parse(key)).principal


def hook(resolver: Resolver) -> Principal:
    bell = msgspec.structs.replace(NOBODY, name="http:hooks", scopes=frozenset({"hook"}))
    return resolver.given(bell, SessionKey.parse(BELL))


def session(key: str) -> Principal:
    return session_principal(SessionKey.parse(key), Authority())


def everybody(config: Config, resolver: Resolver) -> list[tuple[str, Principal, set[str]]]:
    """Every line of the table: its name there, the principal as the gateway makes it, what it must see."""
    every = set(WORLD)
    return [
        ("a person's client", person_principal("token", {"operator.read"}), every),
        ("a node", node("phone"), {PHONE, NOTES}),
        ("a node", node("watch"), {WATCH}),
        ("a node", node("stranger"), set()),
        ("a hook", hook(resolver), {BELL}),
        ("somebody on a chat", chat(config), {CHAT}),
        ("somebody on a chat", chat(config, MAIN), {MAIN}),
        ("an MCP guest", session(BOB), {BOB, HELPER, MAIN, CHILD}),
        ("an MCP guest", session("agent:main:mcp:ann"), every),
        ("an MCP guest", session("agent:main:mcp:new"), set()),
        ("a session", session(MAIN), every),
        ("nobody", NOBODY, set()),
    ]


async def world(folder: Path) -> SqliteLedger:
    """The main session has sent to bob, and bob has spawned a child."""
    ledger = SqliteLedger(folder / "ledger.sqlite", inline=True)
    for number, text in enumerate(WORLD):
        key = SessionKey.parse(text)
        new = NewSession(
            key=key,
            session_id=f"00000000-0000-4000-8000-{number:012}",
            label=f"label-{number}",
            spawned_by=BOB if text == CHILD else None,
        )
        await ledger.do(EnsureSession(new=new, at=number + 1))
    sent = Exchange(
        exchange_id="x", agent_id="main", requester_key=MAIN, target_key=BOB, run_id="x",
        request="hello", turns_max=0, created_at=1,
    )  # fmt: skip
    await ledger.do(PutExchange(exchange=sent, runs_max=200))
    return ledger


async def named(resolver: Resolver, who: Principal, reference: str) -> bool:
    try:
        return (await resolver.resolve(who, reference, "read")).session is not None
    except (NotFound, Forbidden):
        return False


async def by_label(resolver: Resolver, who: Principal, label: str) -> bool:
    try:
        return (await resolver.resolve_label(who, label, None, "read")).session is not None
    except NotFound:
        return False


@pytest.mark.spec("V2", "V3", "B3", "L7")
async def test_every_kind_of_principal_sees_what_was_given_to_it_and_nothing_else(
    tmp_path: Path,
) -> None:
    ledger = await world(tmp_path)
    config = CurrentConfig.of(msgspec.convert(RAW, Config))
    resolver = Resolver(ledger, config)
    for line, who, expected in everybody(config, resolver):
        sight = resolver.sight(who)
        listed = {each.key.text for each in await ledger.list_sessions(limit=99, sight=sight)}
        assert listed == expected, (line, who)
        assert await ledger.count_sessions(sight=sight) == len(expected), (line, who)
        for number, text in enumerate(WORLD):
            session_id = f"00000000-0000-4000-8000-{number:012}"
            asked = [
                await named(resolver, who, text),
                await named(resolver, who, session_id),
                await by_label(resolver, who, f"label-{number}"),
                await resolver.sees(who, SessionKey.parse(text)),
            ]
            assert asked == [text in expected] * 4, (line, who, text)
    await ledger.close()


async def test_a_changed_config_changes_what_is_seen_at_once(tmp_path: Path) -> None:
    ledger = await world(tmp_path)
    config = CurrentConfig.of(msgspec.convert(RAW, Config))
    resolver = Resolver(ledger, config)
    config.take_rules(msgspec.convert({"agents": RAW["agents"]}, Config))
    for who, expected in ((node("phone"), {PHONE}), (session(BOB), {BOB, MAIN, CHILD})):
        found = await ledger.list_sessions(limit=99, sight=resolver.sight(who))
        assert {each.key.text for each in found} == expected
    await ledger.close()


def test_the_table_has_a_line_for_every_kind_of_principal() -> None:
    page = (Path(__file__).parents[2] / "docs" / "visibility.md").read_text("utf-8")
    nothing: Any = None
    config = msgspec.convert(RAW, Config)
    lines = everybody(config, Resolver(nothing, config))
    for line, _who, _expected in lines:
        assert f"| {line}" in page, line
    assert {who.sight for _line, who, _expected in lines} == set(get_args(SightKind))


def test_nothing_is_everything_unless_it_says_so() -> None:
    """There is no sight, and no principal, that sees by saying nothing."""
    required = {field.name for field in msgspec.structs.fields(Principal) if field.required}
    assert {"sight", "authority"} <= required
    assert EVERYTHING.everything

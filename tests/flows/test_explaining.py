"""sessions.explain: the owner hears why, also what an agent never hears."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import session_principal
from crossclaw.ledger.operations import EnsureSession
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import MemoryChannel, open_gateway
from tests.flows.talking import call, say
from tests.flows.test_who_sees_whom import CHILD, COUSIN, MAIN, archive, settle


def config(**tools: Any) -> Config:
    agents = {"list": [{"id": "main", "subagents": {"allowAgents": ["ops"]}}, {"id": "ops"}]}
    return msgspec.convert({"agents": agents, "tools": tools}, Config)


async def explain(gateway: Gateway, source: str, verb: str, to: str) -> dict[str, Any]:
    params: dict[str, Any] = {"from": source, "verb": verb, "to": to}
    answer: dict[str, Any] = await call(gateway, "sessions.explain", **params)
    return answer


def refusals(answer: dict[str, Any]) -> list[str]:
    assert answer["allowed"] is all(reason["allowed"] for reason in answer["reasons"])
    return [reason["about"] for reason in answer["reasons"] if not reason["allowed"]]


@pytest.mark.spec("V2", "S8")
@pytest.mark.parametrize(
    ("tools", "verb", "to", "refused", "setting"),
    [
        ({}, "read", COUSIN.text, [], None),
        ({}, "send", "agent:main:notes", [], None),
        ({}, "read", "agent:main:none", ["existence"], None),
        ({}, "send", "agent:main:main", ["itself"], None),
        ({"sessions": {"visibility": "tree"}}, "see", CHILD.text, [], None),
        ({"sessions": {"visibility": "tree"}}, "read", "agent:main:notes", ["visibility"],
         "tools.sessions.visibility"),
        ({"agentToAgent": {"enabled": False}}, "send", "agent:ops:main",
         ["agent-to-agent", "visibility"], "tools.agentToAgent"),
    ],
)  # fmt: skip
async def test_each_decision_is_told_with_the_setting_that_would_change_it(
    tmp_path: Path, tools: dict[str, Any], verb: str, to: str, refused: list[str], setting: str | None
) -> None:  # fmt: skip
    async with open_gateway(tmp_path, RehearsalProvider(), config=config(**tools)) as gateway:
        await settle(gateway)
        answer = await explain(gateway, "main", verb, to)

    assert refusals(answer) == refused
    if setting:
        assert setting in {reason.get("setting") for reason in answer["reasons"]}


@pytest.mark.spec("V1")
async def test_a_sandboxed_session_is_called_so(
    tmp_path: Path,
) -> None:
    raw = {"agents": {"defaults": {"sandbox": {"mode": "all"}}}}
    boxed = msgspec.convert(raw, Config)
    async with open_gateway(tmp_path, RehearsalProvider(), config=boxed) as gateway:
        await settle(gateway)
        child = await explain(gateway, "main", "read", CHILD.text)
        own = await explain(gateway, "main", "read", "main")

    assert (child["sandboxed"], child["allowed"]) == (True, True)
    assert refusals(own) == ["visibility"]
    assert "sandbox.mode is all" in own["reasons"][-1]["reason"]


@pytest.mark.spec("P7")
async def test_an_archived_session_may_be_read_and_nothing_else(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        archive(tmp_path, CHILD)
        told = {
            verb: refusals(await explain(gateway, "main", verb, CHILD.text))
            for verb in ("see", "read", "send")
        }

    assert told == {"see": ["archive"], "read": [], "send": ["archive"]}


@pytest.mark.spec("Y1", "Y2")
async def test_the_send_policy_is_explained_for_sends_and_deliveries(tmp_path: Path) -> None:
    group = SessionKey.group("main", "discord", "1")
    new = NewSession(key=group, session_id="g", address=Address("discord", "1"))
    rules = {
        "session": {"sendPolicy": {"rules": [{"action": "deny", "match": {"channel": "discord"}}]}}
    }
    model, policy = RehearsalProvider(), msgspec.convert(rules, Config)
    chat = MemoryChannel("discord")
    async with open_gateway(tmp_path, model, config=policy, channels=[chat]) as gateway:
        await gateway.ledger.do(EnsureSession(new=new, at=1))
        denied = [await explain(gateway, "main", verb, group.text) for verb in ("send", "deliver")]
        await call(gateway, "sessions.patch", key=group.text, sendPolicy="allow")
        allowed = await explain(gateway, "main", "deliver", group.text)

    assert [refusals(each) for each in denied] == [["send policy"]] * 2
    assert allowed["allowed"]
    assert "sessions.patch" in str(allowed["reasons"])

    async with open_gateway(tmp_path, model, config=policy) as gateway:
        nowhere = await explain(gateway, "main", "deliver", group.text)
    assert refusals(nowhere) == ["address"]
    assert "not set up" in nowhere["reasons"][-1]["reason"]


async def test_what_is_not_there_is_explained_in_the_resolvers_words(tmp_path: Path) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        answer = await explain(gateway, "main", "read", nobody)
        await say(gateway, "main", "say: hi", "r1")
        there = [(await explain(gateway, "main", "send", to))["exists"] for to in ("main", "later")]

    assert there == [True, False]
    assert (answer["allowed"], answer["exists"], answer["to"]) == (False, False, nobody)
    assert answer["reasons"] == [
        {"about": "existence", "allowed": False, "reason": f"unknown session: {nobody}"}
    ]


@pytest.mark.spec("Y4")
@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (NewSession(key=MAIN, session_id="m", channel="webchat"), "its chat is on webchat"),
        (NewSession(key=MAIN, session_id="m", channel="discord"), "it has no chat that a reply could go to"),
        (NewSession(key=SessionKey.group("main", "memory", "1"), session_id="g"), "its chat is on memory"),
        (
            NewSession(key=MAIN, session_id="m", channel="webchat", address=Address("signal", "1")),
            "its chat is on signal, which is not set up here",
        ),
    ],
)  # fmt: skip
async def test_where_a_reply_would_go_is_explained(
    tmp_path: Path, new: NewSession, reason: str
) -> None:
    async with open_gateway(
        tmp_path, RehearsalProvider(), channels=[MemoryChannel("memory")]
    ) as gateway:
        await gateway.ledger.do(EnsureSession(new=new, at=1))
        answer = await explain(gateway, "main", "deliver", new.key.text)

    (address,) = [each for each in answer["reasons"] if each["about"] == "address"]
    assert address["reason"] == reason
    assert address["allowed"] is (reason in ("its chat is on webchat", "its chat is on memory"))


@pytest.mark.spec("P3", "P4")
@pytest.mark.parametrize(
    ("source", "to", "refused"),
    [
        ("main", "main", []),
        ("main", "ops", []),
        ("main", "agent:ops:main", []),
        ("agent:ops:main", "main", ["sub-agents"]),
        ("main", "nobody", ["agent"]),
        (CHILD.text, "main", ["sub-agents"]),
    ],
)
async def test_who_may_spawn_whom(tmp_path: Path, source: str, to: str, refused: list[str]) -> None:
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        await settle(gateway)
        assert refusals(await explain(gateway, source, "spawn", to)) == refused


@pytest.mark.spec("V3")
async def test_a_session_is_not_told(tmp_path: Path) -> None:
    """Its tools do not offer the method; should it come by another way, it is refused."""
    params: dict[str, Any] = {"from": "main", "verb": "read", "to": "agent:ops:main"}
    for authority in (Authority(), Authority(sandboxed=True)):
        refusal: CrossclawError | None = None
        async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
            try:
                await call(
                    gateway, "sessions.explain", session_principal(MAIN, authority), **params
                )
            except CrossclawError as error:
                refusal = error
        assert isinstance(refusal, Forbidden)


async def test_a_verb_that_is_none_is_refused_with_the_verbs_there_are(tmp_path: Path) -> None:
    refusal: CrossclawError | None = None
    async with open_gateway(tmp_path, RehearsalProvider(), config=config()) as gateway:
        try:
            await explain(gateway, "main", "fly", "main")
        except CrossclawError as error:
            refusal = error

    assert isinstance(refusal, Invalid)
    assert "at /verb" in str(refusal)

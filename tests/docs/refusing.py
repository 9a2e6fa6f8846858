"""Refusals of docs/tools.md: what has to be said to the main session to hear each of them."""

import json
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import anyio
import msgspec

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import ToolResultMessage
from crossclaw.domain.sessions import NewSession
from crossclaw.domain.sight import EVERYTHING
from crossclaw.ledger.operations import EnsureSession
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.flows.talking import say

AGENTS = {"list": [{"id": "main", "default": True}, {"id": "librarian"}]}
LABELLED = ("agent:main:notes", "agent:librarian:notes")
"""Both are called `notes`."""


class Case(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    config: dict[str, Any] | None = None
    times: int = 1


def send(**arguments: Any) -> Case:
    return Case("sessions_send", {"message": "say: hi", **arguments})


def spawn(**arguments: Any) -> Case:
    return Case("sessions_spawn", {"task": "say: done", **arguments})


def within(config: dict[str, Any], case: Case) -> Case:
    return case._replace(config=config)


def by_the_librarian(case: Case) -> Case:
    """Main asks the librarian to do it, and waits."""
    script = f"tool: {case.tool} {json.dumps(case.arguments)}"
    asked = {"agentId": "librarian", "message": script}
    return Case("sessions_send", asked, case.config)


def by_a_child(case: Case) -> Case:
    script = f"tool: {case.tool} {json.dumps(case.arguments)}"
    return Case("sessions_spawn", {"task": script}, case.config)


async def texts_heard(folder: Path, case: Case) -> set[str]:
    """All refusals that any tool has answered with, in whichever session."""
    raw = {"agents": AGENTS, **(case.config or {})}
    config = msgspec.convert(raw, Config)
    async with open_gateway(folder, RehearsalProvider(), config=config) as gateway:
        for key in LABELLED:
            new = NewSession(
                key=SessionKey.parse(key), session_id=str(uuid5(NAMESPACE_URL, key)), label="notes"
            )
            await gateway.ledger.do(EnsureSession(new=new, at=1))
        script = f"tool: {case.tool} {json.dumps(case.arguments)}"
        await say(gateway, "main", "\n".join([script] * case.times), "r1")
        await anyio.sleep(600)
        return await _results(gateway)


async def _results(gateway: Gateway) -> set[str]:
    heard: set[str] = set()
    for session in await gateway.ledger.list_sessions(limit=100, sight=EVERYTHING):
        entries = await gateway.ledger.list_entries(session.session_id, limit=100)
        contents = [e.message.content for e in entries if isinstance(e.message, ToolResultMessage)]
        heard |= {each if isinstance(each, str) else str(each.get("error")) for each in contents}
    return heard - {"None"}


def _policy(prefix: str) -> dict[str, Any]:
    rule = {"action": "deny", "match": {"keyPrefix": prefix}}
    return {"session": {"sendPolicy": {"rules": [rule]}}}


REACH_OFF = {"tools": {"agentToAgent": {"enabled": False}}}
REACH_MAIN = {"tools": {"agentToAgent": {"allow": ["main"]}}}
ONE_HOP = {"session": {"agentToAgent": {"maxHops": 1}}}
SIX_RUNS = {"session": {"agentToAgent": {"maxRuns": 6}}}
ONE_CHILD = {"agents": {**AGENTS, "defaults": {"subagents": {"maxChildrenPerAgent": 1}}}}
NO_SENDING = {"tools": {"deny": ["sessions_send"]}}

CASES: dict[str, Case] = {
    "unknown session: agent:main:nowhere": Case(
        "sessions_history", {"sessionKey": "agent:main:nowhere"}
    ),
    "'MAIN' is neither a session nor an agent here; …": Case(
        "sessions_history", {"sessionKey": "MAIN"}
    ),
    "sessions_list: Object contains unknown field `colour`; …": Case(
        "sessions_list", {"colour": "red"}
    ),
    "the tool 'sessions_send' is not available here: tools denies sessions_send; …": within(
        NO_SENDING, send(agentId="librarian")
    ),
    "unknown kind mail; the kinds are main, group, cron, hook, node, other": Case(
        "sessions_list", {"kinds": ["mail"]}
    ),
    "limit must be a number from 1 to 200": Case("sessions_list", {"limit": 0}),
    "activeMinutes must be more than 0 and at most 10000000": Case(
        "sessions_list", {"activeMinutes": -1}
    ),
    "message required": send(agentId="librarian", message=" "),
    "say where to: sessionKey, label or agentId": send(),
    "Provide either sessionKey or label (not both).": send(sessionKey="main", label="notes"),
    "a session cannot send to itself; answer in your own reply instead": send(sessionKey="main"),
    "several sessions have the label 'notes': …": send(label="notes"),
    'there is no agent "nobody"; …': send(agentId="nobody"),
    "timeoutSeconds must be 0 (do not wait) or more": send(agentId="librarian", timeoutSeconds=-1),
    "agent-to-agent messaging is switched off; set tools.agentToAgent.enabled=true to allow it": within(
        REACH_OFF, send(agentId="librarian")
    ),
    "agent-to-agent messaging is denied: tools.agentToAgent.allow does not name librarian": within(
        REACH_MAIN, send(agentId="librarian")
    ),
    "send blocked by session policy": within(
        _policy("agent:librarian:"), send(agentId="librarian")
    ),
    "this chain of sends has used its 1 hops (session.agentToAgent.maxHops)": within(
        ONE_HOP, by_the_librarian(send(sessionKey="agent:main:notes"))
    ),
    "what one message brings about is limited to 6 runs, and this would be more "
    "(session.agentToAgent.maxRuns); answer with what there is": within(
        SIX_RUNS, send(agentId="librarian")
    ),
    "this session has 1 sub-agents at work, and may not have more "
    "(agents.defaults.subagents.maxChildrenPerAgent); wait until one has reported": within(
        ONE_CHILD, spawn(task="wait: 60")._replace(times=2)
    ),
    "no answer within 5 s; the run goes on, read sessions_history later": send(
        agentId="librarian", message="wait: 60", timeoutSeconds=5
    ),
    "waiting would never end: main → agent:main:main → main wait for each other; the message is queued": (
        by_the_librarian(send(agentId="main"))
    ),
    "task required": spawn(task=" "),
    "label has at most 64 characters": spawn(label="x" * 65),
    "cleanup is delete or keep": spawn(cleanup="burn"),
    "runTimeoutSeconds must be from 0 (no limit) to 2592000 (a month)": spawn(runTimeoutSeconds=-1),
    "invalid thinking 'very hard'; the levels are off, minimal, low, medium, high, xhigh": spawn(
        thinking="very hard"
    ),
    "invalid model 'nobody/knows': …": spawn(model="nobody/knows"),
    "model not allowed: rehearsal/dear; …": within(
        {"agents": {**AGENTS, "defaults": {"models": {"rehearsal/rehearsal": {}}}}},
        spawn(model="rehearsal/dear"),
    ),
    "agent main may not spawn librarian; it may spawn: main. …": spawn(agentId="librarian"),
    "the tool 'sessions_spawn' is not available here: being a sub-agent …": by_a_child(spawn()),
    "unrecognized model 'nope': …": Case("session_status", {"model": "nope"}),
}
"""By the text that is heard; `…` stands for the rest of a long one."""

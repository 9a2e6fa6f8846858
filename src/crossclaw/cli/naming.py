"""Naming sessions: what a person types becomes a full key. A name that is not there yet is a new one."""

import re
from typing import Any

from crossclaw.cli.exits import CommandFailed, UsageError
from crossclaw.cli.peer import Peer, Refusal
from crossclaw.cli.place import find_served_place
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.keys import MAIN, SessionKey

_SESSION_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


async def name_session(peer: Peer, session: str | None, agent: str | None) -> str:
    """The full key for `--session` and `--agent`; both may be left out."""
    agent_id = await _configured(peer, agent) if agent else None
    text = (session or MAIN).strip()
    if _SESSION_ID.fullmatch(text):
        return await _of_id(peer, text, agent_id)
    key = parse_reference(text, agent_id or peer.defaults.agent_id)
    _refuse_other_agent(key, agent_id)
    if key.text == f"agent:{peer.defaults.agent_id}:{MAIN}":
        return peer.defaults.main_key
    if agent_id is None and key.text.startswith("agent:"):
        await _configured(peer, key.agent_id)
    return key.text


async def find_session(peer: Peer, reference: str) -> str:
    """The full key of a session that must exist, by key, name or session id."""
    text = reference.strip()
    if _SESSION_ID.fullmatch(text):
        return await _of_id(peer, text, None)
    key = parse_reference(text, peer.defaults.agent_id)
    found = await peer.call("sessions.resolve", {"key": key.text})
    return str(found["key"])


def parse_reference(text: str, agent_id: str) -> SessionKey:
    try:
        return SessionKey.parse(text, agent_id=agent_id)
    except InvalidKey as error:
        if ":" in text or not text:
            raise UsageError(str(error)) from None
    try:
        return SessionKey.named(agent_id, text)
    except InvalidKey as error:
        raise UsageError(str(error)) from None


async def _of_id(peer: Peer, session_id: str, agent_id: str | None) -> str:
    try:
        found = await peer.call("sessions.resolve", {"sessionId": session_id.lower()})
    except Refusal as refusal:
        if refusal.code != "INVALID_REQUEST":
            raise
        raise CommandFailed(
            f"there is no session with the id {session_id}",
            hint="crossclaw sessions list shows the sessions. A new one is named by a word.",
        ) from None
    key = str(found["key"])
    if key.startswith("agent:"):
        _refuse_other_agent(SessionKey.parse(key), agent_id)
    return key


async def _configured(peer: Peer, agent: str) -> str:
    wanted = normalize_agent_id(agent)
    listed: dict[str, Any] = await peer.call("agents.list", {})
    known = [str(entry["id"]) for entry in listed["agents"]]
    if wanted not in known:
        place = find_served_place()
        there = place.config.agents.find(wanted) is not None
        raise CommandFailed(
            f'there is no agent "{wanted}"; configured: {", ".join(known)}',
            hint=f"It is in the config file. {place.when_a_change_counts}"
            if there
            else f"To add it: crossclaw agents add {wanted}",
        )
    return wanted


def _refuse_other_agent(key: SessionKey, agent_id: str | None) -> None:
    if agent_id and key.text.startswith("agent:") and key.agent_id != agent_id:
        raise UsageError(f"{key} belongs to the agent {key.agent_id}, not to {agent_id}")

"""Naming sessions: turns what a person types into a full key. It may be a key, a session id, the name of a
session, a label, the id of an agent (its main session); anything else is a new name."""

import difflib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from crossclaw.cli.exits import CommandFailed, UsageError
from crossclaw.cli.peer import failed_by
from crossclaw.cli.place import find_served_place
from crossclaw.cli.say import cleaned, note
from crossclaw.client.errors import CallRefused
from crossclaw.client.naming import key_of_id, refuse_other_agent
from crossclaw.client.peer import GatewayPeer
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.ids import is_session_id
from crossclaw.domain.keys import MAIN, SessionKey
from crossclaw.domain.sessions import LABEL_CHARS_MAX

_LISTED = 500  # sessions among which a misspelt one is looked for: the newest
_NEAR_MAX = 3  # more would be the list itself
_PIECE_CHARS = 3  # of a name, to be taken for it: less is in all of them


async def name_session(peer: GatewayPeer, session: str | None, agent: str | None) -> str:
    """The full key for `--session` and `--agent`; both may be left out. A word that is no session's
    name, but somebody's label, means that one."""
    agent_id = await _configured(peer, agent) if agent else None
    text = (session or MAIN).strip()
    if is_session_id(text):
        return await _of_id(peer, text, agent_id)
    try:
        key = parse_reference(text, agent_id or peer.defaults.agent_id)
    except UsageError:
        if labelled := await _labelled(peer, text, agent_id):
            return labelled
        raise
    with _as_usage():
        refuse_other_agent(key, agent_id)
    if key.text == f"agent:{peer.defaults.agent_id}:{MAIN}":
        return peer.defaults.main_key
    if agent_id is None and key.text.startswith("agent:"):
        await _configured(peer, key.agent_id)
    if text == MAIN or ":" in text or await is_there(peer, key.text):
        return key.text
    labelled = await _labelled(peer, text, agent_id)
    return labelled or await _main_of(peer, text, agent_id) or key.text


async def find_session(peer: GatewayPeer, reference: str) -> str:
    """The full key of a session that must exist, by key, name, session id or label."""
    text = reference.strip()
    if is_session_id(text):
        return await _of_id(peer, text, None)
    try:
        key = parse_reference(text, peer.defaults.agent_id)
        return await _resolve(peer, {"key": key.text})
    except (UsageError, CallRefused) as error:
        if isinstance(error, CallRefused) and not _is_unknown(error):
            raise
        if meant := await _labelled(peer, text, None) or await _main_of(peer, text, None):
            return meant
        if ":" not in text and (meant := await _imported(peer, text)):
            return meant
        code = error.exit_code if isinstance(error, UsageError) else failed_by(error).exit_code
        raise CommandFailed(str(error), code, hint=error.hint or await _near(peer, text)) from None


async def mean_session(peer: GatewayPeer, reference: str) -> str:
    """Finds like `find_session`; but what does not exist yet stays as it was typed, with a hint at what does."""
    try:
        return await find_session(peer, reference)
    except (CommandFailed, CallRefused) as failed:
        if ":" not in reference and reference.strip() != MAIN and failed.hint:
            note(failed.hint)
        return reference


async def _near(peer: GatewayPeer, text: str) -> str:
    """A suggestion of what was meant: among the sessions that the caller may list, and no others."""
    everywhere = "crossclaw sessions list shows them"
    word = (text.removesuffix(f":{MAIN}").rpartition(":")[2] or text).strip().lower()
    try:
        rows = (await peer.call("sessions.list", {"limit": _LISTED}))["sessions"]
    except CallRefused:
        return everywhere
    names = {str(row["key"]): _names_of(row) for row in rows}
    inside = [key for key, those in names.items() if _has(those, word)]
    alike = difflib.get_close_matches(word, {name for those in names.values() for name in those})
    close = [key for key, those in names.items() if set(alike) & set(those)]
    meant = list(dict.fromkeys([*inside, *close]))[:_NEAR_MAX]
    if not meant:
        return everywhere
    labels = {str(row["key"]): row.get("label") for row in rows}
    shown = [f"{key} ({labels[key]})" if labels[key] else key for key in meant]
    return f"Did you mean {' or '.join(map(cleaned, shown))}? {everywhere}"


def _has(names: list[str], word: str) -> bool:
    return len(word) >= _PIECE_CHARS and any(word in name for name in names)


def _names_of(row: dict[str, Any]) -> list[str]:
    """The words by which a person may remember it."""
    said = [row.get("label"), row.get("displayName")]
    words = [word for word in str(row["key"]).split(":") if word not in ("agent", MAIN)]
    return [word.lower() for word in [*words, *(text for text in said if text)]]


async def find_transcript(peer: GatewayPeer, reference: str) -> str:
    """Finds like `find_session`; but the id of a transcript that a reset has closed stays what it is."""
    text = reference.strip()
    if ":" in text or text == MAIN:
        return await find_session(peer, text)
    is_id = is_session_id(text)
    try:
        found = await peer.call("sessions.entries", {"key": text, "limit": 1})
    except CallRefused as refusal:
        if is_id:
            raise _no_such_id(refusal, text) from None
        return await find_session(peer, text)
    known = str(found.get("sessionId"))
    return known if is_id or known == text else await find_session(peer, text)


async def _imported(peer: GatewayPeer, text: str) -> str | None:
    """The session of an imported transcript, whose id may be any word; None if there is none."""
    try:
        return await _resolve(peer, {"sessionId": text})
    except CallRefused:
        return None


async def is_there(peer: GatewayPeer, key: str) -> bool:
    try:
        return bool(await _resolve(peer, {"key": key}))
    except CallRefused as refusal:
        if _is_unknown(refusal):
            return False
        raise


async def _labelled(peer: GatewayPeer, text: str, agent_id: str | None) -> str | None:
    """The session with this label; None if there is none."""
    if not 0 < len(text) <= LABEL_CHARS_MAX:
        return None
    try:
        return await _resolve(peer, {"label": text} | ({"agentId": agent_id} if agent_id else {}))
    except CallRefused as refusal:
        if _is_unknown(refusal):
            return None
        raise


async def _main_of(peer: GatewayPeer, text: str, agent_id: str | None) -> str | None:
    """The main session of the agent with this id; None if there is none."""
    wanted = text.lower()
    if agent_id is not None or wanted == MAIN or ":" in text:
        return None
    listed: dict[str, Any] = await peer.call("agents.list", {})
    known = {str(entry["id"]) for entry in listed["agents"]}
    return SessionKey.main(wanted).text if wanted in known else None


async def _resolve(peer: GatewayPeer, by: dict[str, Any]) -> str:
    return str((await peer.call("sessions.resolve", by))["key"])


def _is_unknown(refusal: CallRefused) -> bool:
    """Whether a refusal means an unknown session; several sessions with one label are refused too."""
    return str(refusal).startswith("No session found")


def parse_reference(text: str, agent_id: str) -> SessionKey:
    with _as_usage():
        try:
            return SessionKey.parse(text, agent_id=agent_id)
        except InvalidKey:
            if ":" in text or not text:
                raise
        return SessionKey.named(agent_id, text)


@contextmanager
def _as_usage() -> Generator[None]:
    """Ends the command with a usage error where what was typed can be no session, or not that agent's."""
    try:
        yield
    except InvalidKey as error:
        raise UsageError(str(error)) from None


async def _of_id(peer: GatewayPeer, session_id: str, agent_id: str | None) -> str:
    try:
        with _as_usage():
            return await key_of_id(peer, session_id, agent_id)
    except CallRefused as refusal:
        raise _no_such_id(refusal, session_id) from None


def _no_such_id(refusal: CallRefused, session_id: str) -> Exception:
    if refusal.code != "INVALID_REQUEST":
        return refusal
    return CommandFailed(
        f"there is no session with the id {session_id}",
        hint="crossclaw sessions list shows the sessions. A new one is named by a word.",
    )


async def _configured(peer: GatewayPeer, agent: str) -> str:
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

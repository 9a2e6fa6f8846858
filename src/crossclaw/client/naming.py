"""Naming sessions: what a caller writes for a session, and an agent beside it, becomes what the gateway is asked for."""

from crossclaw.client.errors import CallRefused
from crossclaw.client.peer import GatewayPeer
from crossclaw.domain.agents import is_agent_id
from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.ids import is_session_id
from crossclaw.domain.keys import MAIN, SessionKey


async def name_for_gateway(peer: GatewayPeer, session: str | None, agent: str | None) -> str:
    """The session that a program names. Without an agent the gateway decides what a word means. With one, a key
    or a session id is what it is and must be that agent's, and any other word is a name of that agent's."""
    if agent is None:
        return peer.defaults.main_key if session is None else session
    try:
        return await _of_agent(peer, (session or MAIN).strip(), agent.strip().lower())
    except InvalidKey as error:
        raise CallRefused(str(error), error.code) from None


async def _of_agent(peer: GatewayPeer, text: str, agent_id: str) -> str:
    if not is_agent_id(agent_id):
        raise InvalidKey(f"{agent_id!r} is not an agent id (letters, digits, - and _)")
    if is_session_id(text):
        return await key_of_id(peer, text, agent_id)
    key = SessionKey.parse(text if text.startswith("agent:") else f"agent:{agent_id}:{text}")
    refuse_other_agent(key, agent_id)
    return key.text if key.text.startswith("agent:") else f"agent:{agent_id}:{key}"


async def key_of_id(peer: GatewayPeer, session_id: str, agent_id: str | None) -> str:
    """The key of the session with this id, which must be the agent's if one is named."""
    wanted = {"sessionId": session_id.lower()}
    key = str((await peer.call("sessions.resolve", wanted, repeat=True))["key"])
    if key.startswith("agent:"):
        refuse_other_agent(SessionKey.parse(key), agent_id)
    return key


def refuse_other_agent(key: SessionKey, agent_id: str | None) -> None:
    """Raises for a key of another agent than the one that is named. Keys of jobs and hooks do not tell theirs."""
    if agent_id and key.text.startswith("agent:") and key.agent_id != agent_id:
        raise InvalidKey(f"{key} belongs to the agent {key.agent_id}, not to {agent_id}")

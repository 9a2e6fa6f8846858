"""The one resolver: turns a key, a session id or a label, and the caller, into a handle.

Nothing else in the gateway turns a caller's text into a session. What a caller may not see and what does not
exist give the same answer, after the same reads.
"""

from typing import Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import Forbidden, Invalid, InvalidKey, NotFound, StoreDamaged
from crossclaw.domain.ids import is_session_id
from crossclaw.domain.keys import MAIN, SHARED, SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.domain.sight import EVERYTHING, NOTHING, Sight
from crossclaw.door.principal import Principal
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.agent_to_agent import decide_reach
from crossclaw.policy.answering import decide_answers
from crossclaw.policy.visibility import (
    Viewer,
    decide_visible,
    given_to_node,
    sight_of,
    viewer_of,
)

Right = Literal["see", "read", "send", "change", "create", "talk"]
"""The right that is asked for. To `create` is to name what may not exist yet; to `talk` is that, and wants an
answer. To `change` is more than to see: not every session may change what it sees."""

LABELLED_MAX = 8  # named in an error; whoever has more of one label needs another way to find one
_INSIDE_KINDS = ("cron", "hook", "node")


class SessionHandle(msgspec.Struct, frozen=True):
    """A session that a principal may use, and for what. `session` is None for one that may be
    created and is not there yet."""

    key: SessionKey
    session: Session | None
    right: Right


_VERBS: dict[Right, str] = {
    "see": "listing",
    "read": "history",
    "send": "messaging",
    "change": "changes",
    "create": "messaging",
    "talk": "messaging",
}


class Resolver:
    def __init__(self, ledger: Ledger, config: Config) -> None:
        self._ledger = ledger
        self._config = config

    async def resolve(
        self, principal: Principal, reference: str, right: Right, agent_id: str | None = None
    ) -> SessionHandle:
        """Finds a session by a key or a session id, or by the id of an agent, which means its main session.
        With the rights `create` and `talk`, a person may name what does not exist yet. `agent_id` is the
        agent that the caller names beside it: a bare key is that agent's, and a session of another one is not
        what was meant."""
        text = reference.strip()
        agent = normalize_agent_id(agent_id) if agent_id else None
        key, session = None, await self._of_id(principal, text, right)
        if session is None and (":" in text or not is_session_id(text)):
            key = await self._named(principal, text, agent)
            agent = agent or (key.agent_id if text.startswith("agent:") else None)
            if key.text != SHARED:  # which is everybody's own main session
                self._refuse_unreachable(principal, key.agent_id, right)
            session = await self._ledger.find_session(key)
        visible = await self._sees(principal, session.key if session else key or _NOBODY, session)
        if visible and session is None and key and self._may_begin(principal, key, right):
            return SessionHandle(key, None, right)
        handle = self._handle(principal, session if visible else None, text, right)
        _refuse_another_agents(handle.key, agent, text)
        return handle

    async def resolve_transcript(self, principal: Principal, reference: str) -> SessionHandle:
        """Finds a transcript to read: also one that a reset has closed, by its id. A session that does not
        exist is an empty one."""
        try:
            return await self.resolve(principal, reference, "read")
        except NotFound:
            return await self.resolve(principal, reference, "create")

    async def resolve_label(
        self, principal: Principal, label: str, agent_id: str | None, right: Right
    ) -> SessionHandle:
        agent = normalize_agent_id(agent_id) if agent_id else None
        if agent is not None:
            self._refuse_unreachable(principal, agent, right)
        found = await self._ledger.find_sessions_by_label(
            label.strip(), agent_id=agent, sight=self.sight(principal)
        )
        if len(found) > 1:
            names = [session.key.display(principal.agent_id) for session in found]
            more = " and more" if len(names) > LABELLED_MAX else ""
            keys = ", ".join(names[:LABELLED_MAX]) + more
            raise Invalid(f"several sessions have the label {label!r}: {keys}; say which key")
        if not found and agent is not None:
            self._refuse_unconfigured(principal, agent)
        return self._handle(principal, found[0] if found else None, label, right)

    async def find_own(self, principal: Principal, reference: str | None) -> Session | None:
        """The caller's own session, when that is what it names or leaves out. A session may know its own
        state, however little it sees of others."""
        if principal.session is None:
            return None
        own = await self._ledger.find_session(principal.session)
        if own is None or not reference or reference.strip().lower() == own.session_id:
            return own
        try:
            return own if self._key(principal, reference.strip()) == own.key else None
        except InvalidKey:
            return None

    async def get_session(
        self, principal: Principal, reference: str | None, right: Right
    ) -> Session:
        """The session for a tool that works on one: the caller's own if none is named, and `main` for a
        caller that is no session. Its own it may always see and change; for every other one it needs the
        right."""
        if own := await self.find_own(principal, reference):
            return own
        mine = principal.session
        named = reference or (mine.display(mine.agent_id) if mine else "main")
        session = (await self.resolve(principal, named, right)).session
        if session is None:
            raise Invalid(f"session {named} has not begun yet; there is nothing to tell")
        return session

    async def find(self, principal: Principal, reference: str) -> SessionHandle | None:
        try:
            return await self.resolve(principal, reference, "see")
        except NotFound:
            return None

    async def resolve_whole_or_damaged(
        self, principal: Principal, reference: str, right: Right
    ) -> SessionHandle:
        """Resolves like `resolve`, for what is done to a session without reading it. Whoever sees everything
        may name one whose row is damaged: for others it cannot be decided whether they may see it."""
        try:
            return await self.resolve(principal, reference, right)
        except StoreDamaged:
            if not self.sees_everything(principal):
                raise
            key = self._key(principal, reference.strip())
            session = await self._ledger.find_damaged_session(key)
            if session is None:
                raise
            return SessionHandle(key, session, right)

    def check_agent(self, principal: Principal, agent_id: str, right: Right) -> None:
        """Refuses an agent that the caller may not reach, by its name alone."""
        agent = normalize_agent_id(agent_id)
        self._refuse_unreachable(principal, agent, right)
        self._refuse_unconfigured(principal, agent)

    def viewer(self, principal: Principal) -> Viewer | None:
        """The session that looks, if a session does."""
        if principal.sight != "session" or principal.session is None:
            return None
        return viewer_of(self._config, principal.session, principal.authority)

    def sight(self, principal: Principal) -> Sight:
        """The sessions that may be listed, counted and searched."""
        match principal.sight:
            case "everything":
                return EVERYTHING
            case "session":
                viewer = self.viewer(principal)
                return NOTHING if viewer is None else sight_of(viewer)
            case "named" | "node":
                return Sight(keys=self._given(principal))
            case _:
                return NOTHING

    def shown(self, stored: str) -> str:
        """The key that clients see for a stored one, and may name it by: the shared session is the default agent's
        main one."""
        if stored != SHARED:
            return stored
        return SessionKey.shared(self._config.agents.default_id).shown

    def knows_paths(self, principal: Principal) -> bool:
        """Whether an answer may hold paths of this machine: to people's clients, and to sessions that work on it."""
        viewer = self.viewer(principal)
        return principal.sight == "everything" or (viewer is not None and viewer.knows_paths)

    def sees_everything(self, principal: Principal) -> bool:
        """Whether it is a person's client, and not a session, a node, a hook or a chat."""
        return principal.sight == "everything"

    def given(self, principal: Principal, key: SessionKey) -> Principal:
        """The same caller, with this one session added by the config that gives it."""
        sees = frozenset({self._config.meant_key(key).text})
        return msgspec.structs.replace(principal, sight="named", sees=sees)

    def _given(self, principal: Principal) -> frozenset[str]:
        if principal.sight == "node":
            node_id = principal.node_id
            return given_to_node(self._config, node_id) if node_id else frozenset()
        return principal.sees

    async def sees(self, principal: Principal, key: SessionKey) -> bool:
        return await self._sees(principal, key, await self._ledger.find_session(key))

    async def _sees(self, principal: Principal, key: SessionKey, session: Session | None) -> bool:
        if principal.sight != "session":
            return principal.sight == "everything" or key.text in self._given(principal)
        viewer = self.viewer(principal)
        if viewer is None:
            return False
        line = await self._ledger.list_line(key) if viewer.needs_line else frozenset[str]()
        spawned_by = session.spawned_by if session else None
        talked = viewer.mode == "partners" and await self._ledger.have_talked(viewer.key, key)
        return decide_visible(viewer, key, spawned_by, line, talked).allowed

    def _refuse_unreachable(self, principal: Principal, agent_id: str, right: Right) -> None:
        """Refuses what can be refused by the spelled key alone, before it is looked up."""
        if principal.agent_id is None:
            return
        rules = self._config.tools.agent_to_agent
        decision = decide_reach(rules, principal.agent_id, agent_id, _VERBS[right])
        if not decision.allowed:
            raise Forbidden(decision.reason)

    def _refuse_unconfigured(self, principal: Principal, agent_id: str) -> None:
        """Raises for an unknown agent. Names the configured ones, but to a session only if it may see the
        sessions of all."""
        viewer = self.viewer(principal)
        if viewer is None or viewer.sees_every_agent:
            self._config.agents.get(agent_id)

    async def _of_id(self, principal: Principal, text: str, right: Right) -> Session | None:
        """The session of a session id. What a reset has closed can still be read by its old id, and nothing
        else. An imported transcript may have any file's name as its id: whoever sees everything may name it."""
        if ":" in text:  # a key
            return None
        former = right == "read"
        if is_session_id(text):
            return await self._ledger.find_session_by_id(text.lower(), former=former)
        if text.lower() == MAIN or not self.sees_everything(principal):
            return None
        return await self._ledger.find_session_by_id(text, former=former)

    async def _named(self, principal: Principal, text: str, agent: str | None) -> SessionKey:
        """The key of a name: a person's own session of that name goes before an agent of that name."""
        if principal.role == "operator" and self._main_of(text, agent) is not None:
            own = SessionKey.named(self._config.agents.default_id, text)
            if await self._ledger.find_session(own) is not None:
                return own
        return self._key(principal, text, agent)

    def _main_of(self, text: str, agent: str | None) -> SessionKey | None:
        """The main session of the agent with this id; `main` is everybody's own."""
        if agent is not None or ":" in text or text.lower() == MAIN:
            return None
        if not self._config.agents.has(text.lower()):
            return None
        return SessionKey.main(text)

    def _key(self, principal: Principal, text: str, agent: str | None = None) -> SessionKey:
        agents = self._config.agents
        agent_id = agent or principal.agent_id or agents.default_id
        try:
            key = SessionKey.parse(text, agent_id=agent_id)
        except InvalidKey:
            if (main := self._main_of(text, agent)) is not None:
                key = main
            elif ":" in text:
                raise
            elif principal.role != "operator":
                raise InvalidKey(
                    f"{text[:80]!r} is neither a session nor an agent here; use an agent's id as agents_list "
                    "shows it, main, agent:<agent>:<name>, cron:<job>, hook:<id> or node-<id>"
                ) from None
            else:
                key = SessionKey.named(agent or agents.default_id, text)
        _refuse_another_agents(key, agent, text)
        # Asked with every message; only a main session can be another.
        return self._config.meant_key(key) if key.kind == "main" else key

    def _may_begin(self, principal: Principal, key: SessionKey, right: Right) -> bool:
        """Whether a session may be begun: a person's client may name a new one; an agent only the main one of
        a configured agent."""
        if key.kind not in _INSIDE_KINDS:
            self._refuse_unconfigured(principal, key.agent_id)
        if right in ("create", "talk"):
            return principal.role == "operator"
        configured = self._config.agents.find(key.agent_id) is not None
        return right == "send" and key.kind == "main" and configured

    def _handle(
        self, principal: Principal, session: Session | None, reference: str, right: Right
    ) -> SessionHandle:
        if session is None or (right == "send" and session.archived_at is not None):
            raise NotFound(f"unknown session: {reference}")
        answers = decide_answers(self._config.agents, session.key)
        if right in ("send", "talk") and not answers.allowed:
            raise NotFound(answers.reason)
        if right == "change" and not self.sees_everything(principal):
            _refuse_anothers(principal, session)
        return SessionHandle(session.key, session, right)


def _refuse_anothers(principal: Principal, session: Session) -> None:
    """Refuses to change another's session. To see it, and to send to it, is not to change it: a guest, or an
    agent with somebody else's words before it, changes itself and its children. What the owner says to a free
    agent it does wherever it sees."""
    own = principal.session
    if own is None or own == session.key or session.spawned_by == own.text:
        return
    if own.is_guest or not principal.authority.owner:
        raise Forbidden(
            f"{session.key.display(own.agent_id)} is not yours to change: its settings are the owner's (such as /model there);"
            " send to the session and ask"
        )


def _refuse_another_agents(key: SessionKey, agent: str | None, text: str) -> None:
    """Refuses a key of another agent than the one that is named. Keys of jobs and hooks do not tell their
    agent, and neither does a session id."""
    if agent is not None and key.agent_id != agent and key.text != SHARED:
        raise Invalid(f"session {text} belongs to agent {key.agent_id}, not to agent {agent}")


_NOBODY = SessionKey.named("main", "nobody")
"""A key that is looked up in place of a session that does not exist, so that both answers take the same reads."""

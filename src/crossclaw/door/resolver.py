"""The one resolver: from a key, a session id or a label, and the one who asks, to a handle.

Nothing else in the house turns a caller's text into a session. What a caller may not see and what is
not there give the same answer.
"""

import re
from typing import Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.errors import Forbidden, Invalid, InvalidKey, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.door.principal import Principal
from crossclaw.ledger.contract import Ledger
from crossclaw.policy.agent_to_agent import decide_reach
from crossclaw.policy.decision import Decision

Right = Literal["see", "read", "send", "change", "create"]

_INSIDE_KINDS = ("cron", "hook", "node")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


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
}


class Resolver:
    def __init__(self, ledger: Ledger, config: Config) -> None:
        self._ledger = ledger
        self._config = config

    async def resolve(self, principal: Principal, reference: str, right: Right) -> SessionHandle:
        """A key or a session id. With the right `create`, a person may name what is not there yet."""
        text = reference.strip()
        if _UUID.fullmatch(text):
            found = await self._ledger.find_session_by_id(text.lower())
            if found is None and right == "read":
                found = await self._find_former(text.lower())
            return self._handle(principal, found, text, right)
        key = self._key(principal, text)
        self._refuse_unreachable(principal, key, right)
        session = await self._ledger.find_session(key)
        if session is None and self._may_begin(principal, key, right):
            return SessionHandle(key, None, right)
        return self._handle(principal, session, text, right)

    async def resolve_label(
        self, principal: Principal, label: str, agent_id: str | None, right: Right
    ) -> SessionHandle:
        agent = normalize_agent_id(agent_id) if agent_id else None
        listed = await self._ledger.find_sessions_by_label(label.strip(), agent_id=agent)
        found = [session for session in listed if self.reaches(principal, session.key, right)]
        if len(found) > 1:
            keys = ", ".join(session.key.display(principal.agent_id) for session in found)
            raise Invalid(f"several sessions have the label {label!r}: {keys}; say which key")
        return self._handle(principal, found[0] if found else None, label, right)

    async def find(self, principal: Principal, reference: str) -> SessionHandle | None:
        try:
            return await self.resolve(principal, reference, "see")
        except NotFound:
            return None

    def reaches(self, principal: Principal, key: SessionKey, right: Right) -> bool:
        return self._decide(principal, key, right).allowed

    def reachable_agents(self, principal: Principal) -> list[str] | None:
        """Whose sessions may be listed; None is everybody's."""
        own, rules = principal.agent_id, self._config.tools.agent_to_agent
        if own is None or (rules.enabled and "*" in rules.allow):
            return None
        others = self._config.agents.ids()
        return [
            own,
            *(each for each in others if decide_reach(rules, own, each, "listing").allowed),
        ]

    def _decide(self, principal: Principal, key: SessionKey, right: Right) -> Decision:
        if principal.agent_id is None:
            return Decision(True, "a person's client")
        rules = self._config.tools.agent_to_agent
        return decide_reach(rules, principal.agent_id, key.agent_id, _VERBS[right])

    def _refuse_unreachable(self, principal: Principal, key: SessionKey, right: Right) -> None:
        """What the spelled key alone tells is refused before anybody looks whether it is there."""
        decision = self._decide(principal, key, right)
        if not decision.allowed:
            raise Forbidden(decision.reason)

    def _key(self, principal: Principal, text: str) -> SessionKey:
        agents = self._config.agents
        agent_id = principal.agent_id or agents.default_id
        try:
            key = SessionKey.parse(text, agent_id=agent_id)
        except InvalidKey:
            if principal.role != "operator" or ":" in text:
                raise
            key = SessionKey.named(agents.default_id, text)
        if self._config.session.scope == "global" and key.kind == "main":
            return SessionKey.shared(agents.default_id)
        return key

    def _may_begin(self, principal: Principal, key: SessionKey, right: Right) -> bool:
        """A person's client may name a new session; an agent only the main one of a configured
        agent."""
        if self._config.agents.find(key.agent_id) is None and key.kind not in _INSIDE_KINDS:
            self._config.agents.get(key.agent_id)  # raises, and says which agents there are
        if right == "create":
            return principal.role == "operator"
        return right == "send" and key.kind == "main"

    async def _find_former(self, session_id: str) -> Session | None:
        """A session as it was before a reset: it can be read by its old id, and nothing else."""
        former = await self._ledger.find_export(session_id)
        if former is None:
            return None
        session = await self._ledger.find_session(SessionKey(former.key, former.agent_id))
        return session and msgspec.structs.replace(session, session_id=session_id)

    def _handle(
        self, principal: Principal, session: Session | None, reference: str, right: Right
    ) -> SessionHandle:
        if session is None or not self.reaches(principal, session.key, right):
            raise NotFound(f"unknown session: {reference}")
        return SessionHandle(session.key, session, right)

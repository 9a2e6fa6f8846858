"""The one resolver: from a key, a session id or a label, and the one who asks, to a handle.

Nothing else in the house turns a caller's text into a session. What a caller may not see and what is
not there give the same answer.
"""

import re
from typing import Literal

import msgspec

from crossclaw.config import Config
from crossclaw.domain.errors import Invalid, InvalidKey, NotFound
from crossclaw.domain.keys import MAIN, SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.door.principal import Principal
from crossclaw.ledger.contract import Ledger

Right = Literal["see", "read", "send", "change", "create"]

_INSIDE_KINDS = ("cron", "hook", "node")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


class SessionHandle(msgspec.Struct, frozen=True):
    """A session that a principal may use, and for what. `session` is None for one that may be
    created and is not there yet."""

    key: SessionKey
    session: Session | None
    right: Right


class Resolver:
    def __init__(self, ledger: Ledger, config: Config) -> None:
        self._ledger = ledger
        self._config = config

    async def resolve(self, principal: Principal, reference: str, right: Right) -> SessionHandle:
        """A key or a session id. With the right `create`, a person may name what is not there yet."""
        text = reference.strip()
        if _UUID.fullmatch(text):
            return self._handle(await self._ledger.find_session_by_id(text.lower()), text, right)
        key = self._key(principal, text, right)
        session = await self._ledger.find_session(key)
        if session is None and self._may_begin(principal, key, right):
            return SessionHandle(key, None, right)
        return self._handle(session, text, right)

    async def resolve_label(
        self, principal: Principal, label: str, agent_id: str | None, right: Right
    ) -> SessionHandle:
        found = await self._ledger.find_sessions_by_label(label.strip(), agent_id=agent_id)
        if len(found) > 1:
            keys = ", ".join(str(session.key) for session in found)
            raise Invalid(f"several sessions have the label {label!r}: {keys}; say which key")
        return self._handle(found[0] if found else None, label, right)

    async def find(self, principal: Principal, reference: str) -> SessionHandle | None:
        try:
            return await self.resolve(principal, reference, "see")
        except NotFound:
            return None

    def _key(self, principal: Principal, text: str, right: Right) -> SessionKey:
        agents = self._config.agents
        agent_id = principal.agent_id or agents.default_id
        try:
            key = SessionKey.parse(text, agent_id=agent_id)
        except InvalidKey:
            if principal.role != "operator" or ":" in text:
                raise
            key = SessionKey.named(agents.default_id, text)
            if key.name.casefold() == MAIN:
                raise
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

    def _handle(self, session: Session | None, reference: str, right: Right) -> SessionHandle:
        if session is None:
            raise NotFound(f"unknown session: {reference}")
        return SessionHandle(session.key, session, right)

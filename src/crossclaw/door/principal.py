"""Principals: who asks, and what they may ask for. Made from a credential, never from a frame's words."""

from typing import Literal

import msgspec

from crossclaw.domain.authority import Authority
from crossclaw.domain.keys import SessionKey

Scope = Literal[
    "operator.read",
    "operator.write",
    "operator.admin",
    "operator.approvals",
    "operator.pairing",
    "node",
    "hook",
]
Role = Literal["operator", "node", "session"]

# What a scope includes beside itself. `operator.admin` includes every operator scope.
_INCLUDES: dict[str, frozenset[str]] = {
    "operator.write": frozenset({"operator.read"}),
    "operator.admin": frozenset(
        {"operator.read", "operator.write", "operator.approvals", "operator.pairing"}
    ),
}


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """Who, for the audit: `token`, `device:<id>`, a session's key."""
    role: Role
    scopes: frozenset[str]
    session: SessionKey | None = None
    """The session that acts, when a tool calls."""
    authority: Authority = Authority(owner=True)
    """What it begins may no more; the credentials it came in by are in `made_by`."""

    def has(self, scope: Scope) -> bool:
        return scope in self.scopes or any(scope in _INCLUDES.get(each, ()) for each in self.scopes)

    @property
    def agent_id(self) -> str | None:
        return self.session.agent_id if self.session else None


def session_principal(key: SessionKey, authority: Authority) -> Principal:
    """A session acting through its tools: it may read and write, and administers nothing."""
    return Principal(
        name=key.text,
        role="session",
        scopes=frozenset({"operator.read", "operator.write"}),
        session=key,
        authority=authority,
    )

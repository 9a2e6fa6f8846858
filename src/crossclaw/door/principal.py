"""Principals: who asks, and what they may ask for. Made from a credential, never from a frame's content."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from crossclaw.domain.authority import Authority, CredentialRef
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

SightKind = Literal["everything", "session", "named", "node", "nothing"]
"""everything: a person's client, all that its scopes let it ask for. session: a session acting through its
tools, by the settings of visibility. named: the sessions in `sees`. node: its own session and those that the
owner bound to it. nothing: nobody's."""

# What a scope includes beside itself. `operator.admin` includes every operator scope.
_INCLUDES: dict[str, frozenset[str]] = {
    "operator.write": frozenset({"operator.read"}),
    "operator.admin": frozenset(
        {"operator.read", "operator.write", "operator.approvals", "operator.pairing"}
    ),
}


def includes(scopes: frozenset[str], scope: str) -> bool:
    """Whether a caller with these scopes may do what needs that scope: it is among them, or included in one of
    them."""
    return scope in scopes or any(scope in _INCLUDES.get(each, ()) for each in scopes)


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """The name in the audit: `token`, `device:<id>`, a session's key."""
    role: Role
    scopes: frozenset[str]
    sight: SightKind
    """The sessions it sees. Everybody who makes a principal sets it: there is no default."""
    authority: Authority
    """The bound of what it begins; the credentials it came in by are in `made_by`."""
    session: SessionKey | None = None
    """The session that acts, when a tool calls."""
    sees: frozenset[str] = frozenset()
    """The sessions' keys, if the sight is `named`."""
    node_id: str | None = None
    """The node whose sight it is, if that is `node`."""

    def has(self, scope: Scope) -> bool:
        return includes(self.scopes, scope)

    @property
    def agent_id(self) -> str | None:
        return self.session.agent_id if self.session else None


def session_principal(key: SessionKey, authority: Authority) -> Principal:
    """A session acting through its tools: it may read and write, and administers nothing."""
    return Principal(
        name=key.text,
        role="session",
        scopes=frozenset({"operator.read", "operator.write"}),
        sight="session",
        session=key,
        authority=authority,
    )


def person_principal(
    name: str, scopes: Iterable[str], made_by: Iterable[CredentialRef] = (), *, owner: bool = True
) -> Principal:
    """A person's client: it may do what its scopes say, in every session."""
    return Principal(
        name=name,
        role="operator",
        scopes=frozenset(scopes),
        sight="everything",
        authority=Authority(owner=owner, made_by=frozenset(made_by)),
    )

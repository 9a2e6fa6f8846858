"""Authority: what a queued message may do. It is stored with the row and only shrinks on its way.

A set that is None means "no limit of this kind". There is one way to make a child's authority:
`parent.meet(limits)`. Nothing adds a right. Money is limited beside it, by the account that a run's cause
carries (`domain/budgets`): a child spends from its parent's.
"""

from typing import Literal

import msgspec

HOPS_UNLIMITED = 1_000_000  # until the config is met
HOOKS = "hooks"
"""The credential of programs elsewhere, which call hooks: their runs, and all that follows, go back to this one."""


class CredentialRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A credential that something was begun by."""

    credential_id: str
    epoch: int | None = None
    """The credential's epoch; None: any, as long as the credential exists. So it is with the runs of a job:
    replacing the token that it was made with does not end it."""


class Delegator(msgspec.Struct, frozen=True, omit_defaults=True):
    """The agent and model on whose behalf something is done. Its rules are asked when they are used, beside
    those of whoever does it."""

    agent_id: str
    model: str = ""
    sandboxed: bool = False


class ChatPlace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The group that a message was written in, and its writer: what the config says about tools there is
    asked when they are used."""

    channel: str
    account_id: str
    chat_id: str
    senders: tuple[str, ...]
    """The writer's ids, in the spelling of the lists."""
    parent_id: str | None = None
    guild_id: str | None = None
    thread_id: str | None = None


WorkspaceAccess = Literal["none", "ro", "rw"]
_ACCESS: tuple[WorkspaceAccess, ...] = ("none", "ro", "rw")


class Authority(msgspec.Struct, frozen=True, omit_defaults=True):
    owner: bool = False
    """Whether it may do what only the person who owns the gateway may."""
    sandboxed: bool = False
    may_spawn: bool = True
    tools: frozenset[str] | None = None
    denied_tools: frozenset[str] = frozenset()
    roots: frozenset[str] | None = None
    """Sessions whose trees it may see."""
    hops_left: int = HOPS_UNLIMITED
    """Sends and spawns that may still follow; `session.agentToAgent.maxHops` at the beginning."""

    network: bool = True
    """Whether commands may reach the network."""
    workspace: WorkspaceAccess = "rw"
    """What commands may do with the files of a workspace."""
    workspaces: frozenset[str] | None = None
    """The agents whose workspaces commands may see."""
    models: frozenset[str] | None = None
    """The models that may be asked, as `provider/model`; `provider/*` stands for all of one."""
    arms: frozenset[Delegator] = frozenset()
    """The agents on whose behalf it acts: all that they are denied, it is denied."""
    chats: frozenset[ChatPlace] = frozenset()
    """Groups that it was asked in, if the config limits tools by group: what is denied there, it is denied."""
    made_by: frozenset[CredentialRef] = frozenset()
    """The credentials that it goes back to; when one of them ends, so does this."""

    def meet(self, other: "Authority") -> "Authority":
        """The authority that both allow."""
        return Authority(
            owner=self.owner and other.owner,
            sandboxed=self.sandboxed or other.sandboxed,
            may_spawn=self.may_spawn and other.may_spawn,
            tools=_both(self.tools, other.tools),
            denied_tools=self.denied_tools | other.denied_tools,
            roots=_both(self.roots, other.roots),
            hops_left=min(self.hops_left, other.hops_left),
            network=self.network and other.network,
            workspace=min(self.workspace, other.workspace, key=_ACCESS.index),
            workspaces=_both(self.workspaces, other.workspaces),
            models=_both(self.models, other.models),
            arms=self.arms | other.arms,
            chats=self.chats | other.chats,
            made_by=self.made_by | other.made_by,
        )

    @property
    def is_of_hooks(self) -> bool:
        return any(maker.credential_id == HOOKS for maker in self.made_by)

    def allows_model(self, reference: str) -> bool:
        provider = reference.partition("/")[0]
        return self.models is None or bool({reference, f"{provider}/*"} & self.models)

    def allows_tool(self, name: str, *also: str) -> bool:
        """Whether a tool is allowed. `also`: its other names, by any of which it may be given or denied."""
        names = {name, *also}
        given = self.tools is None or not names.isdisjoint(self.tools)
        return given and names.isdisjoint(self.denied_tools)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other

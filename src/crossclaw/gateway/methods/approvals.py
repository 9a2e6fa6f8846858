"""exec.approval.*: calls that wait for a person's approval, as OpenClaw's clients ask for them; approvals.*:
what was allowed for good. Ours: OpenClaw keeps that in a file."""

from collections.abc import Callable, Sequence
from typing import Any

from crossclaw.domain.aliases import NameText
from crossclaw.domain.approvals import Approval, ApprovalAnswer, StandingGrant
from crossclaw.domain.events import ApprovalAsked, ApprovalSettled, FeedEvent
from crossclaw.door.dispatch import MissingScope
from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.gateway.client import Client
from crossclaw.gateway.frames import event
from crossclaw.runs.approvals import Approvals


class ApprovalParams(Params, frozen=True):
    id: NameText


class AnswerParams(Params, frozen=True):
    id: NameText
    decision: ApprovalAnswer
    reviewer: dict[str, Any] | None = None
    """A field of OpenClaw's channels; it decides nothing."""


class Resolved(Result, frozen=True):
    ok: bool
    id: str


class ApprovalShown(Result, frozen=True):
    id: str
    command_text: str
    command_preview: str | None
    allowed_decisions: list[str]
    host: str | None
    node_id: str | None
    agent_id: str | None
    expires_at_ms: int


class Decided(Result, frozen=True):
    id: str
    decision: str | None
    created_at_ms: int
    expires_at_ms: int


class Allowed(Result, frozen=True):
    """What was allowed for good, or a rule that was imported."""

    id: str
    agent_id: str
    tool: str
    created_at_ms: int
    counts: bool
    """Whether it is still in force; not if the credential that allowed it is gone: then it is asked about again."""
    program: str | None = None
    is_pattern: bool = False
    """Whether `program` is a glob of paths."""
    arguments: tuple[str, ...] | None = None
    """The arguments that were allowed; None: any."""
    folder: str | None = None
    """The folder it may be run in; elsewhere it is asked about."""
    sandboxed: bool = False
    """Whether that folder is one within a sandbox."""
    security: str | None = None
    ask: str | None = None
    """The least strictness of an imported rule: commands are treated at least so strictly."""
    granted_by: str = ""


class AllowedResult(Result, frozen=True):
    allowed: list[Allowed]


class RevokeParams(Params, frozen=True):
    id: NameText


class RevokedResult(Result, frozen=True):
    ok: bool
    revoked: Allowed


class ApprovalMethods:
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @method(
        "exec.approval.list", "operator.approvals", "read", "Calls that wait for a person's yes."
    )
    async def list_waiting(self, caller: Caller, params: NoParams) -> list[dict[str, Any]]:
        return [request_of(each) for each in await self._approvals.waiting()]

    @method("exec.approval.get", "operator.approvals", "read", "One call that waits for a yes.")
    async def get_waiting(self, caller: Caller, params: ApprovalParams) -> ApprovalShown:
        found = await self._approvals.find(params.id)
        return ApprovalShown(
            id=found.approval_id,
            command_text=found.wish.shown,
            command_preview=None,
            allowed_decisions=list(found.answers),
            host=_host(found),
            node_id=None,
            agent_id=found.key.agent_id,
            expires_at_ms=found.expires_at,
        )

    @method(
        "exec.approval.resolve",
        "operator.approvals",
        "change",
        "Answer a call that waits: allow-once, allow-always or deny. The first answer counts.",
    )
    async def resolve(self, caller: Caller, params: AnswerParams) -> Resolved:
        who = caller.principal
        makers = tuple(who.authority.made_by)
        settled = await self._approvals.answer(params.id, params.decision, who.name, makers)
        return Resolved(ok=True, id=settled.approval_id)

    @method(
        "exec.approval.waitDecision",
        "operator.approvals",
        "read",
        "Wait until a call was answered, or was not in time.",
    )
    async def wait_decision(self, caller: Caller, params: ApprovalParams) -> Decided:
        settled = await self._approvals.wait(params.id)
        decision = (
            settled.status if settled.status in ("allow-once", "allow-always", "deny") else None
        )
        return Decided(
            id=settled.approval_id,
            decision=decision,
            created_at_ms=settled.asked_at,
            expires_at_ms=settled.expires_at,
        )

    @method(
        "approvals.allowed",
        "operator.read",
        "read",
        "Ours: what was allowed for good, agent by agent, and rules that were imported.",
    )
    async def allowed(self, caller: Caller, params: NoParams) -> AllowedResult:
        found = await self._approvals.grants()
        return AllowedResult(allowed=[self._allowed(each) for each in found])

    @method(
        "approvals.revoke",
        "operator.approvals",
        "change",
        "Ours: take back what was allowed for good. An imported rule needs operator.admin.",
    )
    async def revoke(self, caller: Caller, params: RevokeParams) -> RevokedResult:
        named = [each for each in await self._approvals.grants() if each.grant_id == params.id]
        if any(each.rule is not None for each in named) and not caller.principal.has(
            "operator.admin"
        ):
            raise MissingScope("operator.admin")
        revoked = await self._approvals.revoke(params.id)
        return RevokedResult(ok=True, revoked=self._allowed(revoked))

    def _allowed(self, grant: StandingGrant) -> Allowed:
        rule = grant.rule
        return Allowed(
            id=grant.grant_id,
            agent_id=grant.agent_id,
            tool=grant.tool,
            program=grant.program,
            is_pattern=grant.pattern,
            arguments=grant.arguments,
            folder=grant.folder,
            sandboxed=grant.sandboxed,
            security=rule.security if rule else None,
            ask=rule.ask if rule else None,
            created_at_ms=grant.created_at,
            granted_by=grant.granted_by,
            counts=self._approvals.lasts(grant),
        )


def telling_approvals(clients: Callable[[], Sequence[Client]]) -> Callable[[FeedEvent], None]:
    """A listener of the feed: news of approvals are for those who may answer them."""

    def on_event(heard: FeedEvent) -> None:
        match heard:
            case ApprovalAsked(approval=approval):
                frame = event("exec.approval.requested", request_of(approval))
            case ApprovalSettled(approval=approval):
                frame = event("exec.approval.resolved", resolution_of(approval))
            case _:
                return
        for client in clients():
            if client.admitted and client.admitted.principal.has("operator.approvals"):
                client.push(frame)

    return on_event


def request_of(approval: Approval) -> dict[str, Any]:
    """An approval in OpenClaw's shape, with our fields beside it."""
    wish = approval.wish
    request = {
        "command": wish.shown,
        "commandArgv": [wish.program, *wish.arguments] if wish.program is not None else None,
        "cwd": wish.folder,
        "nodeId": None,
        "host": _host(approval),
        "security": None,
        "ask": None,
        "warningText": wish.warning,
        "allowedDecisions": list(approval.answers),
        "agentId": approval.key.agent_id,
        "resolvedPath": wish.program,
        "sessionKey": approval.key.shown,
        "runId": approval.run_id,
        "toolCallId": approval.tool_use_id,
        "tool": wish.tool,
        "whyOnce": wish.why_unlisted,
    }
    return {
        "id": approval.approval_id,
        "request": {name: value for name, value in request.items() if value is not None},
        "createdAtMs": approval.asked_at,
        "expiresAtMs": approval.expires_at,
        "approvalKind": "exec",
    }


def resolution_of(approval: Approval) -> dict[str, Any]:
    fields = {
        "id": approval.approval_id,
        "decision": approval.status if approval.allowed else "deny",
        "outcome": approval.status,
        "resolvedBy": approval.answered_by,
        "ts": approval.answered_at,
        "request": request_of(approval)["request"],
    }
    return {name: value for name, value in fields.items() if value is not None}


def _host(approval: Approval) -> str | None:
    if approval.wish.tool != "exec":
        return None
    return "sandbox" if approval.wish.sandboxed else "gateway"

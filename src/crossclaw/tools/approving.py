"""Approving: the check before every tool call. Most pass at once; some wait for a person's approval, some may
not pass."""

from collections.abc import Sequence
from typing import Any

from crossclaw.config.current import CurrentConfig
from crossclaw.domain.approvals import Approval, ExecRule, ProposedCall, StandingGrant
from crossclaw.domain.errors import Forbidden
from crossclaw.domain.tools import ToolDeclaration, built_in
from crossclaw.policy.approvals import (
    EVERYBODY,
    EXEC,
    CallDecision,
    agents_of,
    decide_call,
    exec_rule,
)
from crossclaw.policy.tools import rule_that_asks
from crossclaw.runs.approvals import Approvals
from crossclaw.tools.contract import Tool, ToolContext

NOT_DONE = (
    "Nothing was done. Do not try to reach the same in another way; say what you wanted it for."
)


class ApprovalGate:
    """Decides whether calls may be made. `can_ask`: a person can answer while this process runs."""

    def __init__(
        self, config: CurrentConfig, approvals: Approvals, *, can_ask: bool = True
    ) -> None:
        self._can_ask = can_ask
        self._config = config
        self._approvals = approvals

    async def admit(
        self, context: ToolContext, tool: Tool[Any], params: Any, *, waits: bool = False
    ) -> Any:
        """The parameters with which the call is made, once it may be. Raises if it may not, and without
        `waits` also if a person would have to be asked."""
        agents = agents_of(context.key.agent_id, context.authority)
        also = [built_in(name) for name in tool.also_needs(params)]
        grants = await self._looked_up(agents, tool, also)
        if grants is None:
            return params
        wish = await tool.propose(context, params)
        need = decide_call(self._config, agents, tool.declared, wish, grants, also)
        if need.verdict == "refuse":
            raise Forbidden(need.why)
        if need.verdict == "ask":
            if not self._can_ask:
                raise Forbidden(
                    f"{need.why}: it needs a person's yes, for which a gateway must run"
                )
            if not waits or context.in_run is None or context.tool_use_id is None:
                raise Forbidden(
                    f"{need.why}: it needs a person's yes, and only a run can wait for one"
                )
            await self._ask(context, tool, params, wish, need)
        return tool.as_approved(params, wish)

    async def _looked_up(
        self, agents: Sequence[str], tool: Tool[Any], also: Sequence[ToolDeclaration]
    ) -> list[StandingGrant] | None:
        """The grants that were given for good and still count; None if nothing has to be asked."""
        parts = (tool.declared, *also)
        is_named = any(rule_that_asks(self._config, agents, each) is not None for each in parts)
        if tool.name != EXEC and not is_named:
            return None
        found = await self._approvals.grants((*agents, EVERYBODY))
        grants = [each for each in found if self._approvals.lasts(each)]
        rules = [exec_rule(self._config, each, grants) for each in agents]
        if not is_named and all(rule == ExecRule() for rule in rules):
            return None
        return grants

    async def _ask(
        self,
        context: ToolContext,
        tool: Tool[Any],
        params: Any,
        wish: ProposedCall,
        need: CallDecision,
    ) -> None:
        assert context.tool_use_id is not None
        answer = await self._approvals.ask(
            context.run, context.tool_use_id, wish, need.agents, context.tell
        )
        if not self._approvals.counts(answer):
            raise Forbidden(f"{_why_not(answer)} {NOT_DONE}")
        if answer.wish != wish or await tool.propose(context, params) != wish:
            raise Forbidden(f"What would be run now is not what was shown. {NOT_DONE}")


def _why_not(answer: Approval) -> str:
    match answer.status:
        case "deny":
            return f"Denied by {answer.answered_by or 'the owner'}."
        case "timeout":
            minutes = (answer.expires_at - answer.asked_at) / 60_000
            return f"Denied: nobody answered within {minutes:g} minutes."
        case "withdrawn":
            return "Denied: the request was withdrawn."
        case _:
            return "Denied: the credential that it was allowed by has been taken away."

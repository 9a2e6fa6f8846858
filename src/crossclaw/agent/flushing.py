"""Flushing: before older turns become a summary, the model may write lasting notes.

It is one model call and its calls of `read`, `write` and `edit`, published to nobody and stored in
no transcript; its cost is counted with the compaction. After a crash in the middle it happens
again, with the compaction.
"""

import logging

import msgspec

from crossclaw.agent.origin import CLOSE, OPEN
from crossclaw.agent.run_setup import RunSetup
from crossclaw.config.agents import MemoryFlush
from crossclaw.config.current import CurrentConfig
from crossclaw.domain.errors import CrossclawError, ProviderError
from crossclaw.domain.exchanges import NO_REPLY
from crossclaw.domain.messages import Text, ToolUse, Usage
from crossclaw.domain.runs import Run
from crossclaw.policy.sandbox import confined, sandbox_of
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.tools.approving import ApprovalGate
from crossclaw.tools.contract import context_of
from crossclaw.tools.toolset import Toolset

log = logging.getLogger(__name__)

TOOLS = ("read", "write", "edit")
CALLS_MAX = 8  # of the one turn; a model that writes more files has lost its way
WORDS = (
    "The older part of this conversation is about to be summarised. Write what should last beyond it into "
    "MEMORY.md or memory/YYYY-MM-DD.md now, with write or edit: facts, preferences, decisions, open promises. "
    f"Nobody reads your words in this turn. If nothing needs to be kept, reply with exactly {NO_REPLY}."
)


class Flusher:
    def __init__(self, settings: MemoryFlush, config: CurrentConfig, gate: ApprovalGate) -> None:
        self._gate = gate
        self._settings = settings
        self._config = config

    async def flush(self, run: Run, setup: RunSetup, request: ModelRequest) -> Usage | None:
        """Lets the model write its notes; returns what that cost, or None if it was not
        possible."""
        if not self._settings.enabled or not self._may_write(run, setup):
            return None
        words = f"{OPEN}runtime\n{self._settings.prompt or WORDS}{CLOSE}"
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        asked = UserTurn(last.results, [*last.content, Text(words)])
        turns = [*request.turns[:-1], asked]
        try:
            answer = await setup.provider.complete(
                msgspec.structs.replace(request, turns=turns), lambda piece: None
            )
        except ProviderError as error:
            log.warning(
                "run %s: nothing was written down before the summary: %s", run.run_id, error
            )
            return None
        for call in [each for each in answer.tool_calls if each.name in TOOLS][:CALLS_MAX]:
            await self._call(run, setup.tools_for(answer), call)
        return answer.usage

    def _may_write(self, run: Run, setup: RunSetup) -> bool:
        """Whether the run may write notes: not a child, whose memory goes with it, nor in a
        read-only workspace."""
        authority = confined(self._config.agents, run.key, run.authority)
        access = sandbox_of(self._config.agents, run.key).workspace_access
        return (
            "write" in setup.tools
            and not setup.tools.is_taken_away("write")
            and not run.key.is_subagent
            and (not authority.sandboxed or access == "rw")
        )

    async def _call(self, run: Run, tools: Toolset, call: ToolUse) -> None:
        tool = tools.get(call.name)
        if tool is None or tools.is_taken_away(call.name):
            return
        authority = confined(self._config.agents, run.key, run.authority)
        try:
            context = context_of(run, call.id, authority)
            params = await self._gate.admit(context, tool, tool.read(call.input))
            await tool.call(context, params)
        except CrossclawError as error:
            log.warning("run %s: %s failed before the summary: %s", run.run_id, call.name, error)

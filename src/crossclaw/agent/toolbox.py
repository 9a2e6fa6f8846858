"""The toolbox: runs a model's tool calls side by side and stores each result as it comes."""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import anyio
import msgspec

from crossclaw.agent.continuation import CUT_CALL
from crossclaw.agent.view import INTERRUPTED
from crossclaw.domain.aliases import Tell
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import (
    Busy,
    CredentialEnded,
    CrossclawError,
    Fenced,
    StoreError,
)
from crossclaw.domain.events import ToolEnded, ToolProgress, ToolStarted
from crossclaw.domain.messages import Image, Text, ToolResultMessage, ToolUse, well_formed
from crossclaw.domain.runs import CALLS_AT_ONCE, Run
from crossclaw.domain.sessions import NewEntry
from crossclaw.domain.states import call_state
from crossclaw.domain.texts import text_or_json
from crossclaw.policy.sandbox import confined
from crossclaw.providers.calls import raw_arguments
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.run_store import RunStore
from crossclaw.tools.approving import ApprovalGate
from crossclaw.tools.contract import RESULT_CHARS_MAX, Tool, ToolContext, context_of
from crossclaw.tools.toolset import Toolset

log = logging.getLogger(__name__)

ARGUMENTS_CHARS = 200  # shown of arguments that cannot be read
IMAGES_MAX = 8  # of one result; a model looks at few at once
IMAGES_CHARS_MAX = 8_000_000  # of them together, in base64: two of the largest that `read` shows


class Toolbox:
    def __init__(self, context: ServiceContext, run_store: RunStore, gate: ApprovalGate) -> None:
        self._run_store = run_store
        self._gate = gate
        self._credentials = context.credentials
        self._config = context.config
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids
        self._in_hand: set[_OpenCall] = set()
        context.config.listen(self._heed_rules)

    async def run(self, run: Run, tools: Toolset, calls: Sequence[ToolUse]) -> None:
        places = anyio.Semaphore(CALLS_AT_ONCE)
        lost: list[CrossclawError] = []

        async def run_one(call: ToolUse) -> None:
            try:
                async with places:
                    await self._run_one(run, tools, call)
            except (CredentialEnded, Fenced, StoreError, Busy) as error:
                lost.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for call in calls:
                tasks.start_soon(run_one, call, name=f"tool {call.name}")
        if lost:
            raise lost[0]

    async def _run_one(self, run: Run, tools: Toolset, call: ToolUse) -> None:
        began = self._clock.now_ms()
        self._feed.publish(ToolStarted(run.run_id, run.key, call.id, call.name, call.input))
        content, is_error = await self._answer(run, tools, call)
        ended = self._clock.now_ms()
        result = ToolResultMessage(
            call.id, call.name, content, is_error, duration_ms=ended - began, timestamp=ended
        )
        entry = NewEntry(entry_id=self._ids.short(), message=well_formed(result))
        await self._run_store.append(run, entry)
        self._feed.publish(
            ToolEnded(
                run.run_id,
                run.key,
                call.id,
                call.name,
                is_error,
                ended - began,
                call_state(call.name, content, is_error=is_error),
            )
        )

    async def _answer(self, run: Run, tools: Toolset, call: ToolUse) -> tuple[Any, bool]:
        self._credentials.require(run.authority)
        tool = tools.get(call.name)
        if tool is None or tools.is_taken_away(call.name):
            return tools.why_not(call.name), True
        if (written := raw_arguments(call.input)) is not None:
            return unreadable(written), True
        try:
            if await self._was_begun(run, tool, call):
                return INTERRUPTED, True
            context, asked = self._context(run, call), tool.read(call.input)
            needed = (call.name, *tool.also_needs(asked))
            if (refusal := self._refused(run, tools, needed)) is not None:
                return refusal, True
            params = await self._gate.admit(context, tool, asked, waits=True)
            if (refusal := self._refused(run, tools, needed)) is not None:
                return refusal, True
            if tool.effect == "effects":
                fresh = await self._run_store.start_tool(run, call.id, call.name)
                if not fresh:
                    return INTERRUPTED, True
            context = self._context(run, call)
            in_hand = _OpenCall(run, tools, call.name, context.authority)
            return await self._call(tool, context, params, in_hand)
        except (CredentialEnded, Fenced, StoreError):
            raise
        except CrossclawError as error:
            return _bounded(str(error)), True
        except Exception as error:
            log.exception("tool %s failed in run %s", call.name, run.run_id)
            return _bounded(f"{call.name} failed: {type(error).__name__}: {error}"), True

    async def _was_begun(self, run: Run, tool: Tool[Any], call: ToolUse) -> bool:
        """Whether the call had begun before a crash: then nobody is asked to approve it again."""
        if tool.effect != "effects" or run.epoch <= 1:
            return False
        return await self._run_store.tool_was_started(run, call.id)

    def _refused(self, run: Run, tools: Toolset, needed: Sequence[str]) -> str | None:
        """Why the call may not run. Checked before somebody is asked for approval and after: that
        may take long, and the rules may have changed."""
        self._credentials.require(run.authority)
        gone = (name for name in needed if name not in tools or tools.is_taken_away(name))
        return next(map(tools.why_not, gone), None)

    def _context(self, run: Run, call: ToolUse) -> ToolContext:
        authority = confined(self._config.agents, run.key, run.authority)
        return context_of(run, call.id, authority, self._telling(run, call))

    async def _call(
        self, tool: Tool[Any], context: ToolContext, params: Any, in_hand: "_OpenCall"
    ) -> tuple[Any, bool]:
        self._in_hand.add(in_hand)
        try:
            with in_hand.scope:
                return _bounded(await tool.call(context, params)), False
        finally:
            self._in_hand.discard(in_hand)
        return (
            f"{tool.name} was stopped: what it may do has changed; nobody knows how far it came",
            True,
        )

    def _heed_rules(self) -> None:
        """Stops calls under way that the new rules would not allow to begin."""
        for each in list(self._in_hand):
            now = confined(self._config.agents, each.run.key, each.run.authority)
            if now != each.authority or each.tools.is_taken_away(each.name):
                each.scope.cancel()

    def _telling(self, run: Run, call: ToolUse) -> Tell:
        return lambda text: self._feed.publish(
            ToolProgress(run.run_id, run.key, call.id, call.name, text)
        )


class _OpenCall:
    """A call under way, and the rights it began with."""

    def __init__(self, run: Run, tools: Toolset, name: str, authority: Authority) -> None:
        self.run, self.tools, self.name, self.authority = run, tools, name, authority
        self.scope = anyio.CancelScope()


def unreadable(written: str) -> str:
    """The error for a call whose arguments cannot be read: the reason first, the beginning of the
    arguments last."""
    begun = written.removeprefix(CUT_CALL)[:ARGUMENTS_CHARS]
    if written.startswith(CUT_CALL):
        return (
            "Not run: your answer reached its length limit before the arguments of this call were whole."
            " The same call would be cut again. Do it in smaller parts: write the first part of a long"
            f" text, then add the rest with further calls. The arguments began: {begun}"
        )
    return f"the arguments are no JSON object: {begun}"


def _bounded(result: Any) -> Any:
    if isinstance(result, list) and any(isinstance(block, Image) for block in result):
        return msgspec.to_builtins(list(_bounded_blocks(result)))
    plain = msgspec.to_builtins(result)
    text = text_or_json(plain)
    return plain if len(text) <= RESULT_CHARS_MAX else _cut(text, RESULT_CHARS_MAX)


def _bounded_blocks(blocks: Sequence[Text | Image]) -> Iterator[Text | Image]:
    """The blocks within the limits: all texts together have one text's limit; an image stays whole
    or is left out."""
    kept = list(_with_few_images(blocks))
    room = RESULT_CHARS_MAX
    for are_images, group in groupby(kept, lambda block: isinstance(block, Image)):
        if are_images:
            yield from group
            continue
        text = "\n".join(block.text for block in group if isinstance(block, Text))
        yield Text(text if len(text) <= room else _cut(text, room))
        room = max(0, room - len(text))
    if left_out := len(blocks) - len(kept):
        yield Text(f"[{left_out} more images were left out: too many, or too large]")


def _with_few_images(blocks: Sequence[Text | Image]) -> Iterator[Text | Image]:
    count, room = IMAGES_MAX, IMAGES_CHARS_MAX
    for block in blocks:
        if isinstance(block, Image):
            size = len(block.source.data or "") + len(block.source.url or "")
            if not count or size > room:
                continue
            count, room = count - 1, room - size
        yield block


def _cut(text: str, chars_max: int) -> str:
    return f"{text[:chars_max]}\n[{len(text) - chars_max} more characters were left out]"

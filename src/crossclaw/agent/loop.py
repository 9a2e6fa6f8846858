"""The agent loop: ask the model, run its tool calls, until it answers in words.

Where to go on is read from the ledger in every round, so a run that was cut off continues from its
last stored step, and a crash repeats at most the one call in flight.
"""

import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from crossclaw.agent.caching import ttl_of
from crossclaw.agent.compaction import OVERFLOWS_MAX, Compactor
from crossclaw.agent.continuation import (
    CONTINUATIONS_MAX,
    STILL_CUT,
    joined,
    open_pieces,
    piece_entry,
    with_cut_call,
)
from crossclaw.agent.describing import Describing
from crossclaw.agent.files import ModelAbilities
from crossclaw.agent.history import History, View
from crossclaw.agent.insisting import all_spent, twice_cut, with_words
from crossclaw.agent.origin import CLOSE, OPEN
from crossclaw.agent.pictures import Pictures
from crossclaw.agent.refusals import NAMED_MAX, Refusal
from crossclaw.agent.request_preparation import RequestPreparation
from crossclaw.agent.run_setup import RunSetup
from crossclaw.agent.toolbox import Toolbox
from crossclaw.domain.compactions import Compaction
from crossclaw.domain.errors import ContextOverflow, KeyRefused, ProviderRefused, TurnsExhausted
from crossclaw.domain.events import CallRepeated, ReplyPiece, ThoughtPiece
from crossclaw.domain.exchanges import NO_REPLY
from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    Text,
    Thinking,
    ToolResultMessage,
    ToolUse,
    Usage,
    UserMessage,
    well_formed,
)
from crossclaw.domain.runs import EndStatus, Run
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.providers.contract import (
    CacheMarks,
    CallRestarted,
    LostSpending,
    ModelPiece,
    ModelRequest,
    TextPiece,
    ThinkingPiece,
    ToolPiece,
    UserTurn,
)
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.feed import Feed
from crossclaw.runs.handling import PartialReply
from crossclaw.runs.run_store import RunStore

# Model calls in one run. Real work ends far below; a model that calls tools for ever must end too.
TURNS_MAX = 100

REFUSALS_MAX = NAMED_MAX + 2
"""How often a refused request is repeated: without the pictures that are named, then without the
new ones, then without all."""

NOTHING_SAID = (
    "Your turn ended without a word. Give your answer now. If there is nothing to say, reply with exactly "
    f"{NO_REPLY}."
)

log = logging.getLogger(__name__)


class Loop:
    def __init__(
        self,
        context: ServiceContext,
        run_store: RunStore,
        history: History,
        compactor: Compactor,
        toolbox: Toolbox,
        before: RequestPreparation,
    ) -> None:
        self._config = context.config
        self._run_store = run_store
        ledger = context.ledger
        self._pictures = Pictures(ledger.find_media, ledger.find_media_words)
        self._describing = Describing(run_store, ledger, self._pictures, context.clock, context.ids)
        self._before = before
        self._history = history
        self._compactor = compactor
        self._toolbox = toolbox
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids

    async def run(self, run: Run, setup: RunSetup, progress: PartialReply) -> AssistantMessage:
        """The run's final message. It is not stored yet: it belongs into the step that ends the run."""
        between_calls = progress.last_words
        if setup.refused:
            # Told as any other model that could not be had: the default answers in its place.
            self._feed.publish(CallRepeated(run.run_id, run.key, setup.refused, 0, setup.model))
        cut: str | None = None
        for _turn in range(TURNS_MAX):
            entries = await self._history.read(run.session_id)
            said, calls = unanswered_calls(entries, run.run_id)
            if said is not None and calls:
                await self._toolbox.run(run, setup.tools_for(said), calls)
                await self._run_store.take_along(run)
                await self._before.write_down(run, await self._history.read(run.session_id))
            else:
                await self._before.write_down(run, entries)
            pieces = open_pieces(entries, run.run_id)
            if not pieces:
                await self._before.tell_changes(run)
            answer = await self._ask(run, setup, pieces, progress)
            if is_silent(answer) and not pieces:
                spent = answer.usage
                answer = await self._ask(run, setup, pieces, progress, NOTHING_SAID)
                answer = with_usage_of(spent, answer)
            answer = with_own_ids(answer, entries, run.run_id)
            whole = joined(pieces, answer)
            cut = twice_cut(cut, answer)
            if answer.tool_calls:
                await self._run_store.append(run, self._entry(setup, whole))
                progress.last_words = between_calls
            elif answer.stop_reason != "max_tokens":
                return whole
            elif len(pieces) == CONTINUATIONS_MAX:
                return _with_words(whole, STILL_CUT)
            else:
                progress.last_words = partial(self._cut_between, setup, whole)
                piece = piece_entry(self._ids.short(), answer)
                await self._run_store.append(run, settling(setup, piece))
        raise TurnsExhausted(f"no answer after {TURNS_MAX} model calls; the run was ended")

    async def _ask(
        self,
        run: Run,
        setup: RunSetup,
        pieces: Sequence[AssistantMessage],
        progress: PartialReply,
        note: str = "",
    ) -> AssistantMessage:
        """Asks the model. A request that is too long, by our estimate or by the model's error, is
        made shorter first; one that is refused for its content is repeated without that content."""
        request, view = await self._request(run, setup)
        request = with_last_words(request, note)
        if await self._compactor.is_full(run, setup, request) and await self._compactor.make_room(
            run, setup, request
        ):
            request, view = await self._request(run, setup)
        for overflows in range(OVERFLOWS_MAX + 1):
            try:
                answer = await self._complete(run, setup, request, pieces, progress)
                return bound_to(view, answer)
            except ContextOverflow:
                if overflows == OVERFLOWS_MAX or not await self._compactor.make_room(
                    run, setup, request, overflows + 1
                ):
                    raise
            except KeyRefused:
                raise  # no message is to blame
            except ProviderRefused as error:
                refusal = Refusal(error, request.turns, view.turns)
                return await self._ask_without(run, setup, refusal, pieces, progress)
            request, view = await self._request(run, setup)
        raise AssertionError("unreachable")

    async def _ask_without(
        self,
        run: Run,
        setup: RunSetup,
        refusal: Refusal,
        pieces: Sequence[AssistantMessage],
        progress: PartialReply,
    ) -> AssistantMessage:
        trial = None
        for _try in range(REFUSALS_MAX):
            trial = await self._compactor.without_refused(run, refusal, trial)
            if trial is None:
                break
            request, view = await self._request(run, setup, trial)
            try:
                answer = await self._complete(run, setup, request, pieces, progress)
            except ProviderRefused as again:
                refusal = Refusal(again, request.turns, view.turns, refusal.times + 1)
                continue
            log.warning("run %s goes on without what was refused: %s", run.run_id, refusal.error)
            await self._compactor.put(run, trial)
            return bound_to(view, answer)
        raise refusal.error

    async def _request(
        self, run: Run, setup: RunSetup, trial: Compaction | None = None
    ) -> tuple[ModelRequest, View]:
        """Builds the model request; returns it with the history view it was built from."""
        view = await self._history.view(run, setup.thinking_origin, trial)
        turns = view.turns
        if view.pictures:
            reader = ModelAbilities(setup.documents, setup.window)
            if setup.image_model is not None:
                await self._describing.describe(run, setup, turns)
            turns = await self._pictures.shown(
                turns,
                can_see=setup.can_see,
                reader=reader,
                why_not=partial(self._describing.why_not, run),
            )
        retention = self._config.agents.defaults.cache_retention
        request = ModelRequest(
            model=setup.model,
            system=setup.system,
            turns=turns,
            tools=setup.specs,
            output_tokens_max=setup.output_tokens_max,
            thinking=setup.thinking,
            cache=CacheMarks(ttl=ttl_of(self._history.held(run.session_id), retention)),
            session=run.session_id,
            patient=run.patient,
            outside=run.authority.is_of_hooks,
            params=setup.params,
        )
        return request, view

    async def _complete(
        self,
        run: Run,
        setup: RunSetup,
        request: ModelRequest,
        pieces: Sequence[AssistantMessage],
        progress: PartialReply,
    ) -> AssistantMessage:
        publisher = _TurnPublisher(self._feed, run, "".join(piece.text for piece in pieces))
        progress.last_words = partial(self._cut_within, setup, pieces, publisher)
        answer = await with_words(setup.provider, request, publisher)
        at, usage = self._clock.now_ms(), all_spent(answer.usage, publisher.lost)
        stamped = msgspec.structs.replace(answer, timestamp=at, usage=usage)
        return well_formed(with_cut_call(stamped))

    def _cut_within(
        self,
        setup: RunSetup,
        pieces: Sequence[AssistantMessage],
        publisher: "_TurnPublisher",
        status: EndStatus,
        error: str,
    ) -> list[NewEntry]:
        """What a run has said that is cut off while its model speaks."""
        said = cut_off(publisher.text, status, error, publisher.lost)
        return [self._entry(setup, joined(pieces, said))]

    def _cut_between(
        self, setup: RunSetup, said: AssistantMessage, status: EndStatus, error: str
    ) -> list[NewEntry]:
        """What it has said when it is cut off before the model goes on."""
        return [self._entry(setup, joined([said], cut_off("", status, error)))]

    def _entry(self, setup: RunSetup, message: AssistantMessage) -> NewEntry:
        """The entry of a message. One that was cut off gets the name of the model that was asked,
        whose failure it is."""
        if message.model is None:
            asked = {"provider": setup.provider.name, "model": setup.model}
            message = msgspec.structs.replace(message, **asked)
        return settling(setup, NewEntry(entry_id=self._ids.short(), message=message))


def unanswered_calls(
    entries: Sequence[Entry], run_id: str
) -> tuple[AssistantMessage | None, list[ToolUse]]:
    """The tool calls of this run that have no result yet, and the answer that asks for them: what a
    resumed run must do first."""
    answered: set[str] = set()
    for entry in reversed(entries):
        if entry.run_id != run_id:
            continue
        said = entry.message
        if isinstance(said, ToolResultMessage):
            answered.add(said.tool_use_id)
        if isinstance(said, AssistantMessage):
            return said, [call for call in said.tool_calls if call.id not in answered]
        if isinstance(said, UserMessage):
            break  # the run's own beginning
    return None, []


def with_own_ids(
    answer: AssistantMessage, entries: Sequence[Entry], run_id: str
) -> AssistantMessage:
    """The answer with call ids that are unique in its run. Some models repeat ids, but results,
    started tools and sends are told apart by them."""
    if not answer.tool_calls:
        return answer
    earlier = [entry.message for entry in entries if entry.run_id == run_id]
    used = {
        call.id
        for message in earlier
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    blocks: list[AssistantBlock] = []
    for block in answer.blocks:
        if isinstance(block, ToolUse):
            own = _unused(block.id or "call", used)
            used.add(own)
            block = msgspec.structs.replace(block, id=own)
        blocks.append(block)
    return msgspec.structs.replace(answer, content=blocks)


def _unused(wanted: str, used: set[str]) -> str:
    own, number = wanted, 1
    while own in used:
        number += 1
        own = f"{wanted}_{number}"
    return own


def is_silent(answer: AssistantMessage) -> bool:
    """Whether the model has ended its turn without a word or a call."""
    ended = answer.stop_reason == "end_turn"
    return ended and not answer.tool_calls and not answer.text.strip()


def with_usage_of(before: Usage | None, answer: AssistantMessage) -> AssistantMessage:
    """The answer, with the cost of an earlier one added that is stored nowhere."""
    if before is None or answer.usage is None:
        return answer
    total = msgspec.structs.replace(before + answer.usage, filled=answer.usage.window)
    return msgspec.structs.replace(answer, usage=total)


def with_last_words(request: ModelRequest, note: str) -> ModelRequest:
    """The request with a note of the gateway at its end: for this one request, stored nowhere."""
    last = request.turns[-1]
    if not note or not isinstance(last, UserTurn):
        return request
    turn = UserTurn(last.results, [*last.content, Text(f"{OPEN}runtime\n{note}{CLOSE}")])
    return msgspec.structs.replace(request, turns=[*request.turns[:-1], turn])


def bound_to(view: View, answer: AssistantMessage) -> AssistantMessage:
    """The answer with a reference to what it answered. Its thinking is sent back only after the
    same beginning."""
    after = view.through or None
    if not any(isinstance(block, Thinking) for block in answer.blocks):
        return msgspec.structs.replace(answer, after=after)
    return msgspec.structs.replace(answer, beginning=view.beginning, after=after)


def settling(setup: RunSetup, entry: NewEntry) -> NewEntry:
    """The entry, with what the run has spent since the last one."""
    spent = setup.spent()
    return entry if spent is None else msgspec.structs.replace(entry, spent=spent)


class _TurnPublisher:
    """Publishes a turn's pieces, and keeps the text so far. `before` is the text of the same
    message before the output limit cut it: subscribers see one growing text."""

    def __init__(self, feed: Feed, run: Run, before: str) -> None:
        self._feed, self._run, self._before = feed, run, before
        self._begins_anew = run.attempt > 1
        self.text = ""
        self.lost: Usage | None = None
        """The cost of calls that brought no answer."""

    def __call__(self, piece: ModelPiece) -> None:
        match piece:
            case TextPiece(text=text):
                restarted, self._begins_anew = self._begins_anew, False
                self.text = text if restarted else self.text + text
                so_far = self._before + self.text
                self._feed.publish(
                    ReplyPiece(self._run.run_id, self._run.key, text, so_far, restarted)
                )
            case ThinkingPiece(thinking=thinking):
                self._feed.publish(ThoughtPiece(self._run.run_id, self._run.key, thinking))
            case ToolPiece():
                pass  # a call is told when it runs
            case LostSpending(usage=usage):
                self.lost = usage if self.lost is None else self.lost + usage
            case CallRestarted(reason=reason, wait_s=wait_s, model=model):
                # The words so far stay until others come: they are all there is, should none come.
                self._begins_anew = True
                self._feed.publish(
                    CallRepeated(self._run.run_id, self._run.key, reason, wait_s, model)
                )


def _with_words(message: AssistantMessage, words: str) -> AssistantMessage:
    return msgspec.structs.replace(message, content=[*message.blocks, Text(words)])


def cut_off(
    text: str, status: EndStatus, error: str, spent: Usage | None = None
) -> AssistantMessage:
    """A message for a reply that was cut off: its text so far, the reason and the cost."""
    return AssistantMessage(
        [Text(text)] if text else [],
        usage=spent,
        stop_reason="error" if status == "error" else "aborted",
        error=error,
    )

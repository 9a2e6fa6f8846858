"""chat.*: a person talks with a session."""

from collections.abc import Sequence
from typing import Annotated, Any

import anyio.to_thread
import msgspec

from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Filled
from crossclaw.domain.attachments import COUNT_MAX, NAME_CHARS_MAX, attached
from crossclaw.domain.errors import Invalid
from crossclaw.domain.media import SLICE_CHARS, decode_base64
from crossclaw.domain.messages import Document, Image, MediaSource, Provenance
from crossclaw.domain.runs import Run, RunPlan
from crossclaw.domain.sessions import SessionFacts
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.messages import entry_message, short_message
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.run_store import RunStore
from crossclaw.sessions.arrivals import (
    Accepted,
    Arrival,
    Replied,
    RequestId,
    SessionNamed,
)
from crossclaw.sessions.changing import Changing
from crossclaw.sessions.fitting import HistoryPage, PageWanted, read_page
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.stopping import BY_CLIENT, Stopping

FROM_PAGE = Provenance("person", source_channel=WEBCHAT)
HISTORY_BYTES_MAX = 6 * 1024 * 1024  # what a client can show; the rest is a page away

# It becomes a run id, an index entry and part of other ids; the longest that clients make is 64.
RequestKey = Annotated[str, msgspec.Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f]*$")]


class ClientAttachment(Params, frozen=True):
    content: str
    type: str | None = None
    mime_type: str | None = None
    file_name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)] | None = None


Attachments = Annotated[tuple[ClientAttachment, ...], msgspec.Meta(max_length=COUNT_MAX)]


class ChatSendParams(Params, frozen=True):
    session_key: Filled
    message: str
    idempotency_key: RequestKey
    thinking: ThinkingLevel | None = None
    deliver: bool | None = None
    attachments: Attachments = ()
    timeout_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None
    session_id: str | None = None


class ChatSendResult(Result, frozen=True):
    run_id: str | None = None
    status: str | None = None
    ok: bool | None = None
    aborted: bool | None = None
    run_ids: list[str] | None = None


class ChatHistoryParams(Params, frozen=True):
    session_key: Filled
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 200
    max_chars: int | None = None
    before: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    """Ours: only entries before this one, by its number in the transcript."""


class ChatHistoryResult(Result, frozen=True):
    session_key: str
    messages: list[dict[str, Any]]
    session_id: str | None = None
    thinking_level: str | None = None
    verbose_level: str | None = None
    older: int = 0
    """Ours: how many entries of the transcript come before these; `before: older + 1` reads on."""


class ChatAbortParams(Params, frozen=True):
    session_key: Filled
    run_id: str | None = None
    preserve_side_runs: bool | None = None
    """Sent by OpenClaw's terminal page with every abort; there are no side runs here."""


class ChatAbortResult(Result, frozen=True):
    ok: bool
    aborted: bool
    run_ids: list[str]


class InjectParams(Params, frozen=True):
    session_key: Filled
    message: Filled
    label: Annotated[str, msgspec.Meta(max_length=100)] | None = None


class InjectResult(Result, frozen=True):
    ok: bool
    message_id: str


class Chat:
    def __init__(
        self,
        intake: Intake,
        context: ServiceContext,
        resolver: Resolver,
        run_store: RunStore,
        stopping: Stopping,
        changing: Changing,
    ) -> None:
        self._intake = intake
        self._config = context.config
        self._ledger = context.ledger
        self._resolver = resolver
        self._run_store = run_store
        self._stopping = stopping
        self._changing = changing

    @method(
        "chat.send", "operator.write", "run", "Say something in a session; events bring the reply."
    )
    async def send(self, caller: Caller, params: ChatSendParams) -> ChatSendResult:
        if not params.message.strip() and not params.attachments:
            raise Invalid("message or attachment required")
        received = await self._intake.require(await self._arrival(caller, params))
        match received:
            case Replied(stopped=list() as stopped):
                return ChatSendResult(ok=True, aborted=bool(stopped), run_ids=stopped)
            case Replied(known=Run() as known):
                return ChatSendResult(run_id=params.idempotency_key, status=status_word(known))
            case Accepted(duplicate=True):
                before = await self._run_store.find(received.run_id)
                return ChatSendResult(run_id=received.run_id, status=status_word(before))
        return ChatSendResult(run_id=received.run_id, status="started")

    async def _arrival(self, caller: Caller, params: ChatSendParams) -> Arrival:
        run_id, pictures = params.idempotency_key, [each.content for each in params.attachments]
        return Arrival(
            road="chat",
            to=SessionNamed(params.session_key),
            text=params.message,
            attachments=await blocks_of(params.attachments),
            origin=FROM_PAGE,
            caller=caller,
            request=RequestId(id=run_id, words=("chat", params.message, *pictures)),
            run_id=run_id,
            plan=RunPlan(thinking=params.thinking, timeout_ms=params.timeout_ms),
            facts=SessionFacts(channel=WEBCHAT),
            spelled=params.session_key,
        )

    @method(
        "chat.history", "operator.read", "read", "The newest messages of a session, oldest first."
    )
    async def history(self, caller: Caller, params: ChatHistoryParams) -> ChatHistoryResult:
        handle = await self._resolver.resolve_transcript(caller.principal, params.session_key)
        session = handle.session
        if session is None:
            return ChatHistoryResult(session_key=params.session_key, messages=[])
        page = await self._page(session.session_id, params)
        return ChatHistoryResult(
            session_key=params.session_key,
            session_id=session.session_id,
            messages=page.shown,
            thinking_level=session.thinking,
            verbose_level=session.verbose or self._config.agents.verbose_for(session.key.agent_id),
            older=max(0, page.first - 1),
        )

    async def _page(
        self, session_id: str, params: ChatHistoryParams
    ) -> HistoryPage[dict[str, Any]]:
        return await read_page(
            self._ledger,
            session_id,
            entry_message,
            short_message,
            PageWanted(limit=params.limit, bytes_max=HISTORY_BYTES_MAX, before=params.before),
        )

    @method("chat.abort", "operator.write", "change", "Stop one run, or all of a session.")
    async def abort(self, caller: Caller, params: ChatAbortParams) -> ChatAbortResult:
        handle = await self._resolver.resolve(caller.principal, params.session_key, "create")
        if params.run_id is None:
            stopped = await self._stopping.stop(handle.key, BY_CLIENT)
        else:
            stopped = await self._stopping.stop_run(handle.key, params.run_id, BY_CLIENT)
        return ChatAbortResult(ok=True, aborted=bool(stopped), run_ids=stopped)

    @method(
        "chat.inject",
        "operator.admin",
        "change",
        "Put words into a transcript as the assistant's, without a run.",
    )
    async def inject(self, caller: Caller, params: InjectParams) -> InjectResult:
        handle = await self._resolver.resolve(caller.principal, params.session_key, "change")
        entry_id = await self._changing.inject(handle.key, params.message, params.label)
        return InjectResult(ok=True, message_id=entry_id)


def status_word(run: Run | None) -> str:
    """The run's status in the answer to a repeated request."""
    if run is None or not run.ended:
        return "in_flight"
    return "ok" if run.status == "ok" else "error"


async def blocks_of(attachments: Sequence[ClientAttachment]) -> tuple[Image | Document, ...]:
    """The attachments as blocks. Large ones are decoded in a thread: the event loop is everybody's."""
    if sum(len(each.content) for each in attachments) <= SLICE_CHARS:
        return tuple(map(_block, attachments))
    return await anyio.to_thread.run_sync(lambda: tuple(map(_block, attachments)))


def _block(attachment: ClientAttachment) -> Image | Document:
    written = attachment.content.partition("base64,")[2] or attachment.content
    try:
        data = decode_base64(written)
    except ValueError:  # also what is not even ASCII
        raise Invalid("an attachment's content must be base64") from None
    found = attached(data, attachment.mime_type, attachment.file_name)
    return found.block(MediaSource("base64", found.media.media_type, written))

"""A message and its reply, as it is written and when it is whole, over any number of connections.

The message goes out under one idempotency key, which is also the id of its run. When the connection was lost,
the message goes again under that key: one that had arrived is not said twice, and its run is listened to
again. A run that ended meanwhile is asked for its outcome, and its reply is read from the transcript.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from crossclaw.client.errors import GatewayDown, WaitTimeout
from crossclaw.client.peer import MISSED, Event, EventQueue, GatewayPeer
from crossclaw.display.conversation import Words, conversation, message_text
from crossclaw.domain.exchanges import is_silent

ReplyStatus = Literal["ok", "error", "aborted"]
FATE = (
    "If the message had arrived, its run goes on when the gateway is there again, or at once on another "
    "that shares its ledger (--url names it)."
)


@dataclass(frozen=True, slots=True)
class ReplyText:
    """More of the reply: `text` is all of it so far, `delta` what is new. `anew`: it does not continue the text
    before it, because a tool was called in between, or because the gateway was killed and the model asked again."""

    text: str
    delta: str
    anew: bool = False


@dataclass(frozen=True, slots=True)
class ToolStep:
    name: str
    phase: str
    """The phase: start, or failed."""
    arguments: Any = None


@dataclass(frozen=True, slots=True)
class ModelTrouble:
    """A call of the model failed and is made again, perhaps to another one."""

    reason: str
    model: str | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CompactionStep:
    """Older turns become a summary, so that the rest fits the model's window."""


@dataclass(frozen=True, slots=True)
class MessageAccepted:
    """The gateway has stored the message; comes first, and once more after each lost connection."""

    session_key: str
    run_id: str


@dataclass(slots=True)
class RunReply:
    """The outcome of a message."""

    session_key: str
    run_id: str
    status: ReplyStatus = "ok"
    text: str = ""
    error: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False
    """Whether there is nothing to wait for: the run has ended, or the message was a stop word, which begins none."""


StreamPiece = MessageAccepted | ReplyText | ToolStep | ModelTrouble | CompactionStep | RunReply
"""What `reply_pieces` yields; the last one is the `RunReply`."""


async def reply_pieces(
    peer: GatewayPeer, params: dict[str, Any], timeout_s: float
) -> AsyncGenerator[StreamPiece]:
    """Sends a message and yields its pieces. `params` are those of `chat.send`, with its `idempotencyKey`."""
    with peer.listen() as events:
        follower = _Follower(peer, params, events, timeout_s)
        async for piece in follower.pieces():
            yield piece


class _Follower:
    def __init__(
        self, peer: GatewayPeer, params: dict[str, Any], events: EventQueue, timeout_s: float
    ) -> None:
        self._peer = peer
        self._params = params
        self._events = events
        self._timeout_s = timeout_s
        self._until = anyio.current_time() + timeout_s
        self._reply = RunReply(params["sessionKey"], params["idempotencyKey"])
        # The words come by `agent` events, complete and in order with the tools. A `chat` delta may come late,
        # after the next tool has begun: then it is not listened to.
        self._by_agent_events = False

    async def pieces(self) -> AsyncGenerator[StreamPiece]:
        is_new = await self._send()
        if not self._reply.over:
            async for piece in self._until_over(is_new):
                yield piece
        yield self._reply

    async def _until_over(self, is_new: bool) -> AsyncGenerator[StreamPiece]:
        yield self._accepted()
        pieces: list[StreamPiece] = [] if is_new else await self._stored()
        while not self._reply.over:
            for piece in pieces:
                yield piece
            event = await self._next()
            if event.name == MISSED:
                await self._send()
                yield self._accepted()
                pieces = await self._stored()
            else:
                pieces = self._heard(event)
        for piece in pieces:
            yield piece

    async def _send(self) -> bool:
        """Sends the message; says whether it is new to the gateway. Of one that was sent before, the run may have ended."""
        try:
            answer = await self._peer.call("chat.send", self._params, timeout_s=self._left_s(30))
        except GatewayDown as down:
            raise self._away(down) from None
        begun = begun_by(answer, self._params)
        self._reply.run_id, self._reply.over = begun.run_id, begun.over
        return bool(answer.get("status", "started") == "started")

    def _accepted(self) -> MessageAccepted:
        return MessageAccepted(self._reply.session_key, self._reply.run_id)

    async def _next(self) -> Event:
        try:
            with anyio.fail_after(max(0.0, self._until - anyio.current_time())):
                while True:
                    event = await anext(self._events)
                    if event.name == MISSED or event.payload.get("runId") == self._reply.run_id:
                        return event
        except TimeoutError:
            raise self._over() from None
        except GatewayDown as down:
            raise self._away(down) from None
        except StopAsyncIteration:
            raise self._away(GatewayDown("the connection was closed")) from None

    def _left_s(self, most_s: float) -> float:
        return max(0.1, min(most_s, self._until - anyio.current_time()))

    def _over(self) -> WaitTimeout | GatewayDown:
        if self._peer.is_away:
            where = f"the gateway at {self._peer.place} went away and is not back"
            return self._away(GatewayDown(f"{where} after {self._timeout_s:.0f} s"))
        then = (
            "the next call or gateway goes on with it" if self._peer.embedded else "the run goes on"
        )
        return WaitTimeout(
            f"no reply within {self._timeout_s:g} s; {then}",
            run_id=self._reply.run_id,
            hint=how_to_see_later(self._reply.session_key),
        )

    def _away(self, down: GatewayDown) -> GatewayDown:
        return GatewayDown(
            f"{down}. {FATE}", hint=how_to_see_later(self._reply.session_key), may_have_arrived=True
        )

    async def _stored(self) -> list[StreamPiece]:
        """The words from the transcript, if the run ended while nothing was received."""
        ended = await find_end(self._peer, self._reply)
        if ended is None:
            return []
        self._end(ended.status, ended.error)
        return self._text(ended.text)

    def _heard(self, event: Event) -> list[StreamPiece]:
        about = event.payload
        if event.name == "agent":
            return self._agent(about.get("stream"), about.get("data") or {})
        if event.name != "chat":
            return []
        state, text = about.get("state"), message_text(about.get("message"))
        if state == "delta" and self._by_agent_events:
            return []
        if state in ("final", "error", "aborted"):
            stopped = (about.get("stopReason") or state) if state == "aborted" else None
            self._end(*_end_of(state == "final", stopped, about.get("errorMessage")))
        return self._text(text) if state in ("delta", "final", "aborted") else []

    def _agent(self, stream: Any, data: dict[str, Any]) -> list[StreamPiece]:
        match stream:
            case "tool":
                return self._tool(data)
            case "model":
                wait_s = (data.get("waitMs") or 0) / 1000
                return [ModelTrouble(str(data.get("reason")), data.get("model"), wait_s)]
            case "compaction" if data.get("phase") == "start":
                return [CompactionStep()]
            case "assistant" if data.get("text"):
                self._by_agent_events = True
                return self._text(str(data["text"]))
        return []

    def _tool(self, data: dict[str, Any]) -> list[StreamPiece]:
        name = str(data.get("name") or "tool")
        if data.get("phase") == "start":
            self._reply.tools.append({"name": name, "arguments": data.get("args")})
            return [ToolStep(name, "start", data.get("args"))]
        if data.get("phase") == "result" and data.get("isError"):
            return [ToolStep(name, "failed")]
        return []

    def _text(self, text: str) -> list[StreamPiece]:
        before = self._reply.text
        if not text or text == before:
            return []
        self._reply.text = text
        goes_on = text.startswith(before)
        return [ReplyText(text, text[len(before) :] if goes_on else text, not goes_on)]

    def _end(self, status: ReplyStatus, error: str | None) -> None:
        self._reply.status, self._reply.error, self._reply.over = status, error, True


def begun_by(answer: dict[str, Any], params: dict[str, Any]) -> RunReply:
    """The run that a message has begun, from the answer to `chat.send`. A stop word has aborted what ran, and
    begins none."""
    run_id = answer.get("runId")
    return RunReply(params["sessionKey"], run_id or params["idempotencyKey"], over=not run_id)


async def find_end(peer: GatewayPeer, run: RunReply, wait_s: float = 0.0) -> RunReply | None:
    """The end of a run, with its words from the transcript; None if it has not ended within `wait_s`."""
    params = {"runId": run.run_id, "timeoutMs": int(wait_s * 1000)}
    waited = await peer.call("agent.wait", params, timeout_s=wait_s + 30, repeat=True)
    if waited["status"] == "timeout":
        return None
    status, error = _end_of(waited["status"] == "ok", waited.get("stopReason"), waited.get("error"))
    text = await _written_reply(peer, run)
    return RunReply(run.session_key, run.run_id, status, text, error, over=True)


async def _written_reply(peer: GatewayPeer, reply: RunReply) -> str:
    """The last words of a run in its transcript."""
    answer = await peer.call("chat.history", {"sessionKey": reply.session_key}, repeat=True)
    own = [m for m in answer["messages"] if m.get("__openclaw", {}).get("runId") == reply.run_id]
    parts = [part for said in conversation(own) for part in said.parts]
    text = next((part.markdown for part in reversed(parts) if isinstance(part, Words)), "")
    return "" if is_silent(text) else text


def _end_of(ok: bool, stopped: Any, error: Any) -> tuple[ReplyStatus, str | None]:
    """How a run ended, in a program's words. `stopped` says why it was stopped, if it was."""
    if ok:
        return "ok", None
    if stopped == "timeout":
        return "error", "the run was stopped: the time that a run may take was over"
    if stopped:
        return "aborted", "the run was aborted"
    return "error", str(error or "the run failed")


def how_to_see_later(session_key: str) -> str:
    return (
        f"Read the reply then: crossclaw sessions history {session_key}\n"
        f"Or stop the run then: crossclaw sessions abort {session_key}"
    )

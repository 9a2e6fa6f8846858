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
        if not await self._send():
            yield self._reply  # a stop word: it has aborted what ran, and starts nothing
            return
        yield self._accepted()
        ended = False
        while not ended:
            event = await self._next()
            if event.name == MISSED:
                await self._send()
                yield self._accepted()
                pieces, ended = await self._stored()
            else:
                pieces, ended = self._heard(event)
            for piece in pieces:
                yield piece
        yield self._reply

    async def _send(self) -> bool:
        try:
            answer = await self._peer.call("chat.send", self._params, timeout_s=self._left_s(30))
        except GatewayDown as down:
            raise self._away(down) from None
        if not answer.get("runId"):
            return False
        self._reply.run_id = answer["runId"]
        return True

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

    async def _stored(self) -> tuple[list[StreamPiece], bool]:
        """Whether the run ended while nothing was received, and then its words from the transcript."""
        waited = await self._peer.call(
            "agent.wait", {"runId": self._reply.run_id, "timeoutMs": 0}, repeat=True
        )
        if waited["status"] == "timeout":
            return [], False
        if waited["status"] != "ok":
            stopped = waited.get("stopReason")
            self._fail("aborted" if stopped else "error", stopped, waited.get("error"))
        return self._text(await written_reply(self._peer, self._reply)), True

    def _heard(self, event: Event) -> tuple[list[StreamPiece], bool]:
        if event.name == "agent":
            return self._agent(event.payload.get("stream"), event.payload.get("data") or {}), False
        if event.name != "chat":
            return [], False
        state, text = event.payload.get("state"), message_text(event.payload.get("message"))
        if state == "delta" and self._by_agent_events:
            return [], False
        pieces = self._text(text) if state in ("delta", "final", "aborted") else []
        if state in ("error", "aborted"):
            about = event.payload
            self._fail(str(state), about.get("stopReason"), about.get("errorMessage"))
        return pieces, state in ("final", "error", "aborted")

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

    def _fail(self, state: str, stop_reason: Any, error: Any) -> None:
        self._reply.status, self._reply.error = _bad_end(state, stop_reason, error)


async def written_reply(peer: GatewayPeer, reply: RunReply) -> str:
    """The last words of a run in its transcript."""
    answer = await peer.call("chat.history", {"sessionKey": reply.session_key}, repeat=True)
    own = [m for m in answer["messages"] if m.get("__openclaw", {}).get("runId") == reply.run_id]
    parts = [part for said in conversation(own) for part in said.parts]
    text = next((part.markdown for part in reversed(parts) if isinstance(part, Words)), "")
    return "" if is_silent(text) else text


def _bad_end(state: str, stop_reason: Any, error: Any) -> tuple[ReplyStatus, str]:
    if state == "error":
        return "error", str(error or "the run failed")
    if stop_reason == "timeout":
        return "error", "the run was stopped: the time that a run may take was over"
    return "aborted", "the run was aborted"


def how_to_see_later(session_key: str) -> str:
    return (
        f"Read the reply then: crossclaw sessions history {session_key}\n"
        f"Or stop the run then: crossclaw sessions abort {session_key}"
    )

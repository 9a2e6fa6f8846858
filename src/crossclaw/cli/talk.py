"""Talk: one message to a session and the reply as it comes, until the run ends, the wait is over or
the person has had enough."""

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from crossclaw.cli.exits import Exit
from crossclaw.cli.peer import Event, GatewayPeer, Unreachable, plain_errors
from crossclaw.cli.say import problem
from crossclaw.cli.screens import Screen
from crossclaw.display.conversation import Words, conversation, message_text, progress_line
from crossclaw.domain.exchanges import is_silent

Renew = Callable[[float], Awaitable[None]]
"""Another connection in place of the lost one, within so many seconds."""
Status = Literal["ok", "error", "aborted", "timeout"]

ABORT_S_MAX = 5.0  # an abort takes milliseconds; a gateway that hangs must not keep the person
LOST_MAX = 20  # connections in one reply: a gateway that loses more is not one to talk with
_FATE = "If the message had arrived, its run goes on when the gateway is there again."
_EXITS: dict[Status, Exit] = {
    "ok": Exit.OK,
    "error": Exit.FAILED,
    "aborted": Exit.ABORTED,
    "timeout": Exit.TIMEOUT,
}
_SIGNALLED = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@dataclass(slots=True)
class MessageOutcome:
    """What came of a message."""

    session_key: str
    run_id: str
    status: Status = "ok"
    reply: str = ""
    error: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    signalled: signal.Signals | None = None
    by_agent_events: bool = False
    """The words come by `agent` events, complete and in order with the tools. A `chat` delta may
    come late, after the next tool has begun: then it is not listened to."""
    resumed: bool = False
    """On another connection than it began on."""

    @property
    def exit_code(self) -> Exit:
        return _SIGNALLED[self.signalled] if self.signalled else _EXITS[self.status]

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "runId": self.run_id,
            "status": self.status,
            "reply": self.reply,
            "sessionKey": self.session_key,
        }
        if self.tools:
            shown["tools"] = self.tools
        return shown | ({"error": self.error} if self.error else {})


async def talk(
    peer: GatewayPeer,
    key: str,
    message: str,
    screen: Screen,
    timeout_s: float,
    *,
    renew: Renew | None = None,
) -> MessageOutcome:
    """With `renew` a lost connection is taken up again. The message goes once more under its key: one
    that had arrived is not said twice, and its run is listened to again."""
    told = MessageOutcome(key, str(uuid4()))
    words = {"sessionKey": key, "message": message, "idempotencyKey": told.run_id, "deliver": False}
    until = anyio.current_time() + timeout_s
    for left in reversed(range(LOST_MAX)):
        try:
            with plain_errors():
                await _say(peer, words, told, screen, max(0, until - anyio.current_time()))
            break
        except Unreachable:
            if renew is None or not left:
                raise
        await _taken_up(renew, max(0, until - anyio.current_time()), told)
    if told.status == "timeout":
        told.error = _not_in_time(peer, timeout_s)
    return told


async def _taken_up(renew: Renew, within_s: float, told: MessageOutcome) -> None:
    """What the message became is in the gateway's ledger: whoever gives up here is told where to look."""
    try:
        await renew(within_s)
    except Unreachable as away:
        raise Unreachable(f"{away}. {_FATE}", hint=_later(told)) from None
    except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):  # Ctrl-C comes as either
        problem(f"given up while the gateway was away. {_FATE}", _later(told))
        raise
    told.resumed = True


def _later(told: MessageOutcome) -> str:
    return (
        f"Read the reply then: crossclaw sessions history {told.session_key}\n"
        f"Or stop the run then: crossclaw sessions abort {told.session_key}"
    )


async def _say(
    peer: GatewayPeer, words: dict[str, Any], told: MessageOutcome, screen: Screen, timeout_s: float
) -> None:
    with peer.listen() as events:
        answer = await peer.call("chat.send", words)
        if not answer.get("runId"):
            return  # a stop word: it has aborted what ran, and starts nothing
        told.run_id = answer["runId"]
        if told.resumed and await _ended_unheard(peer, told, screen):
            return
        async with anyio.create_task_group() as tasks:
            await tasks.start(_heed_signals, peer, told)
            await _follow(events, told, screen, timeout_s)
            tasks.cancel_scope.cancel()


async def _ended_unheard(peer: GatewayPeer, told: MessageOutcome, screen: Screen) -> bool:
    """Whether the run ended while the connection was lost; its reply is in the transcript then."""
    if told.signalled is not None:
        await _abort(peer, told)  # the first may have been lost
    waited = await peer.call("agent.wait", {"runId": told.run_id, "timeoutMs": 0})
    if waited["status"] == "timeout":
        return False
    told.reply = await _written(peer, told)
    if not is_silent(told.reply):
        screen.words(told.reply)
    screen.close()
    if waited["status"] != "ok":
        stopped = waited.get("stopReason")
        state = "aborted" if stopped else "error"
        about = {"state": state, "stopReason": stopped, "errorMessage": waited.get("error")}
        told.status, told.error = _bad_end(about)
    return True


async def _written(peer: GatewayPeer, told: MessageOutcome) -> str:
    """The last words of the run in its transcript."""
    answer = await peer.call("chat.history", {"sessionKey": told.session_key})
    own = [m for m in answer["messages"] if m.get("__openclaw", {}).get("runId") == told.run_id]
    parts = [part for said in conversation(own) for part in said.parts]
    return next((part.markdown for part in reversed(parts) if isinstance(part, Words)), "")


async def _follow(
    events: MemoryObjectReceiveStream[Event], told: MessageOutcome, screen: Screen, timeout_s: float
) -> None:
    try:
        with anyio.fail_after(timeout_s):
            async for event in events:
                if event.payload.get("runId") == told.run_id and _hear(event, told, screen):
                    return
    except TimeoutError:
        told.status = "timeout"
        return
    finally:
        screen.close()
    raise Unreachable(
        "lost the gateway before the reply was complete; the run goes on when it is there again",
        hint=f"Read it later: crossclaw sessions history {told.session_key}",
    )


def _not_in_time(peer: GatewayPeer, timeout_s: float) -> str:
    then = "the next call or gateway goes on with it" if peer.embedded else "the run goes on"
    return f"no reply within {timeout_s:g} s; {then}"


def _hear(event: Event, told: MessageOutcome, screen: Screen) -> bool:
    """Whether the run has ended with this."""
    if event.name == "agent":
        _hear_agent(event.payload.get("stream"), event.payload.get("data") or {}, told, screen)
    if event.name != "chat":
        return False
    state, text = event.payload.get("state"), message_text(event.payload.get("message"))
    if state == "delta" and told.by_agent_events:
        return False
    if text and state in ("delta", "final", "aborted"):
        told.reply = text
        screen.words(text)
    if state in ("error", "aborted"):
        told.status, told.error = _bad_end(event.payload)
    return state in ("final", "error", "aborted")


def _bad_end(payload: dict[str, Any]) -> tuple[Status, str]:
    if payload.get("state") == "error":
        return "error", str(payload.get("errorMessage") or "the run failed")
    if payload.get("stopReason") == "timeout":
        return "error", "the run was stopped: the time that a run may take was over"
    return "aborted", "the run was aborted"


def _hear_agent(stream: Any, data: dict[str, Any], told: MessageOutcome, screen: Screen) -> None:
    if stream == "tool":
        _hear_tool(data, told, screen)
    elif stream == "model":
        screen.tool(_trouble_line(data))
    elif stream == "compaction" and data.get("phase") == "start":
        screen.tool("→ making room in the model's window: older turns become a summary")
    elif stream == "assistant" and data.get("text"):
        told.reply, told.by_agent_events = str(data["text"]), True
        screen.words(told.reply)


def _hear_tool(data: dict[str, Any], told: MessageOutcome, screen: Screen) -> None:
    name = str(data.get("name") or "tool")
    if data.get("phase") == "start":
        told.tools.append({"name": name, "arguments": data.get("args")})
        screen.tool(progress_line(name, data.get("args")))
    elif data.get("phase") == "result" and data.get("isError"):
        screen.tool(progress_line(name, None, "failed"))


def _trouble_line(data: dict[str, Any]) -> str:
    then = f"asking {data['model']}" if data.get("model") else "trying again"
    wait_s = (data.get("waitMs") or 0) / 1000
    return f"→ {data.get('reason')}; {then}{f' in {wait_s:.0f} s' if wait_s >= 1 else ''}"


async def _heed_signals(
    peer: GatewayPeer,
    told: MessageOutcome,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """The first Ctrl-C aborts the run, which then ends as any other; a second one ends the wait."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if told.signalled is not None:
                raise KeyboardInterrupt
            told.signalled = number
            await _abort(peer, told)


async def _abort(peer: GatewayPeer, told: MessageOutcome) -> None:
    params = {"sessionKey": told.session_key, "runId": told.run_id}
    await peer.call("chat.abort", params, timeout_s=ABORT_S_MAX)

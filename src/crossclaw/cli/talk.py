"""Talk: one message to a session and the reply as it comes, until the run ends, the wait is over or
the person has had enough."""

import signal
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from crossclaw.cli.exits import Exit
from crossclaw.cli.peer import Event, Peer, Unreachable
from crossclaw.cli.screens import Screen
from crossclaw.display.conversation import message_text, progress_line

Status = Literal["ok", "error", "aborted", "timeout"]

ABORT_S_MAX = 5.0  # an abort takes milliseconds; a gateway that hangs must not keep the person
_EXITS: dict[Status, Exit] = {
    "ok": Exit.OK,
    "error": Exit.FAILED,
    "aborted": Exit.ABORTED,
    "timeout": Exit.TIMEOUT,
}
_SIGNALLED = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@dataclass(slots=True)
class Told:
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


async def talk(peer: Peer, key: str, message: str, screen: Screen, timeout_s: float) -> Told:
    told = Told(key, str(uuid4()))
    with peer.listen() as events:
        params = {"sessionKey": key, "message": message, "idempotencyKey": told.run_id}
        answer = await peer.call("chat.send", params | {"deliver": False})
        if not answer.get("runId"):
            return told  # a stop word: it has aborted what ran, and starts nothing
        told.run_id = answer["runId"]
        async with anyio.create_task_group() as tasks:
            await tasks.start(_heed_signals, peer, told)
            await _follow(events, told, screen, timeout_s)
            if told.status == "timeout":
                told.error = _not_in_time(peer, timeout_s)
            tasks.cancel_scope.cancel()
    return told


async def _follow(
    events: MemoryObjectReceiveStream[Event], told: Told, screen: Screen, timeout_s: float
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
        "lost the gateway before the reply was complete; the run goes on there",
        hint=f"Read it later: crossclaw sessions history {told.session_key}",
    )


def _not_in_time(peer: Peer, timeout_s: float) -> str:
    then = "the next call or gateway goes on with it" if peer.embedded else "the run goes on"
    return f"no reply within {timeout_s:g} s; {then}"


def _hear(event: Event, told: Told, screen: Screen) -> bool:
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


def _hear_agent(stream: Any, data: dict[str, Any], told: Told, screen: Screen) -> None:
    if stream == "tool":
        _hear_tool(data, told, screen)
    elif stream == "model":
        screen.tool(_trouble_line(data))
    elif stream == "compaction" and data.get("phase") == "start":
        screen.tool("→ making room in the model's window: older turns become a summary")
    elif stream == "assistant" and data.get("text"):
        told.reply, told.by_agent_events = str(data["text"]), True
        screen.words(told.reply)


def _hear_tool(data: dict[str, Any], told: Told, screen: Screen) -> None:
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
    peer: Peer, told: Told, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """The first Ctrl-C aborts the run, which then ends as any other; a second one ends the wait."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if told.signalled is not None:
                raise KeyboardInterrupt
            told.signalled = number
            params = {"sessionKey": told.session_key, "runId": told.run_id}
            await peer.call("chat.abort", params, timeout_s=ABORT_S_MAX)

"""Talk: one message to a session and the reply as it comes, until the run ends, the wait is over or
the person has had enough."""

import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
from anyio.abc import TaskStatus

from crossclaw.cli.exits import Exit
from crossclaw.cli.say import problem
from crossclaw.cli.screens import Screen
from crossclaw.client.errors import GatewayDown, WaitTimeout, plain_errors
from crossclaw.client.peer import GatewayPeer
from crossclaw.client.replies import (
    FATE,
    CompactionStep,
    MessageAccepted,
    ModelTrouble,
    ReplyText,
    RunReply,
    StreamPiece,
    ToolStep,
    how_to_see_later,
    reply_pieces,
)
from crossclaw.display.conversation import progress_line
from crossclaw.domain.runs import EndStatus

ABORT_S_MAX = 5.0  # an abort takes milliseconds; a gateway that hangs must not keep the person
_EXITS: dict[EndStatus, Exit] = {
    "ok": Exit.OK,
    "error": Exit.FAILED,
    "aborted": Exit.ABORTED,
    "timeout": Exit.TIMEOUT,
}
_SIGNALLED = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


@dataclass(slots=True)
class MessageOutcome:
    """The outcome of a message."""

    session_key: str
    run_id: str
    status: EndStatus = "ok"
    reply: str = ""
    error: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    signalled: signal.Signals | None = None
    accepted: bool = False

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
    peer: GatewayPeer, key: str, message: str, screen: Screen, timeout_s: float
) -> MessageOutcome:
    """Sends a message and shows the reply. If the connection is lost and the peer can reconnect, the message
    is still sent once."""
    outcome = MessageOutcome(key, str(uuid4()))
    params = {
        "sessionKey": key,
        "message": message,
        "idempotencyKey": outcome.run_id,
        "deliver": False,
    }
    with plain_errors():
        async with anyio.create_task_group() as tasks:
            await tasks.start(_heed_signals, peer, outcome)
            async with aclosing(reply_pieces(peer, params, timeout_s)) as pieces:
                await _follow(peer, pieces, outcome, screen)
            tasks.cancel_scope.cancel()
    return outcome


async def _follow(
    peer: GatewayPeer,
    pieces: AsyncGenerator[StreamPiece],
    outcome: MessageOutcome,
    screen: Screen,
) -> None:
    try:
        async for piece in pieces:
            if isinstance(piece, MessageAccepted):
                outcome.run_id, outcome.accepted = piece.run_id, True
                if outcome.signalled is not None:
                    await _abort(peer, outcome)  # the one before may have been lost
            else:
                _show(piece, outcome, screen)
    except WaitTimeout as over:
        outcome.status, outcome.error = "timeout", str(over)
    finally:
        screen.close()


def _show(piece: StreamPiece, outcome: MessageOutcome, screen: Screen) -> None:
    match piece:
        case ReplyText():
            outcome.reply = piece.text
            screen.words(piece.text)
        case ToolStep():
            failed = piece.phase == "failed"
            screen.tool(progress_line(piece.name, piece.arguments, "failed" if failed else ""))
        case ModelTrouble():
            screen.tool(_trouble_line(piece))
        case CompactionStep():
            screen.tool("→ making room in the model's window: older turns become a summary")
        case RunReply():
            outcome.status, outcome.error = piece.status, piece.error
            outcome.reply, outcome.tools = piece.text, piece.tools


def _trouble_line(trouble: ModelTrouble) -> str:
    then = f"asking {trouble.model}" if trouble.model else "trying again"
    wait = f" in {trouble.wait_s:.0f} s" if trouble.wait_s >= 1 else ""
    return f"→ {trouble.reason}; {then}{wait}"


async def _heed_signals(
    peer: GatewayPeer,
    outcome: MessageOutcome,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Handles Ctrl-C: the first aborts the run, which then ends as any other; a second one ends the wait."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            if peer.is_away:
                # What the message became is in the gateway's store: the person reads where to look.
                problem(
                    f"given up while the gateway was away. {FATE}",
                    how_to_see_later(outcome.session_key),
                )
                raise KeyboardInterrupt
            if outcome.signalled is not None or not outcome.accepted:
                raise KeyboardInterrupt
            outcome.signalled = number
            await _abort(peer, outcome)


async def _abort(peer: GatewayPeer, outcome: MessageOutcome) -> None:
    params = {"sessionKey": outcome.session_key, "runId": outcome.run_id}
    with suppress(GatewayDown):  # when it is back, the run is accepted once more and aborted then
        await peer.call("chat.abort", params, timeout_s=ABORT_S_MAX, repeat=True)

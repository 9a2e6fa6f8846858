"""What the victim's gateway is furnished with: chats and tools whose doings are seen from outside."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.app import Gateway
from crossclaw.channels.contract import ChannelHost, GivenChannel, Piece
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import ToolEffect
from crossclaw.testing import OPEN_TO_ALL, submit
from crossclaw.tools.contract import Tool, ToolContext
from tests.flows.tools import declared

NETWORK_S = 0.002  # each way: a kill can fall before the platform has a message, and after
STAMP_S = 0.003  # between the effect and its result, so that a kill can fall in between

STAMPS = "stamps.txt"
"""The world outside of the state folder, as far as tools can change it."""


def tell(**line: Any) -> None:
    """A line to the driver. It is in the pipe on return, and a kill does not take it back."""
    os.write(1, msgspec.json.encode(line) + b"\n")


class Chat(GivenChannel):
    """A platform on the other side of the pipe."""

    settings = OPEN_TO_ALL

    def __init__(self, name: str, *, knows_key_s: float) -> None:
        self.name = name
        self.host: ChannelHost
        self._knows_key_s = knows_key_s

    def knows_key_for_s(self) -> float:
        return self._knows_key_s

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.host = host
        task_status.started()
        await anyio.sleep_forever()

    async def send(self, piece: Piece) -> str | None:
        await anyio.sleep(NETWORK_S)
        key = piece.delivery_key
        tell(told="sent", channel=self.name, chat=piece.address.to, key=key, text=piece.text)
        await anyio.sleep(NETWORK_S)
        return f"at-{self.name}-{key}"


class Token(msgspec.Struct):
    token: str


class Look(Tool[Token]):
    declared, description, params = declared("look"), "Changes nothing.", Token

    async def call(self, context: ToolContext, params: Token) -> str:
        return f"saw {params.token}"


class Stamp(Tool[Token]):
    description, params = "Leaves a mark that stays.", Token

    def __init__(self, folder: Path, effect: ToolEffect) -> None:
        self.declared = declared("stamp", effect)
        self._file = os.open(folder / STAMPS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def call(self, context: ToolContext, params: Token) -> str:
        os.write(self._file, f"{context.run.run_id} {context.tool_use_id}\n".encode())
        tell(told="stamped")
        await anyio.sleep(STAMP_S)
        return f"stamped {params.token}"


class Question(msgspec.Struct):
    session: str
    token: str
    wait_s: float = 0.0
    """How long the one that is asked thinks."""


class Answered(msgspec.Struct, rename="camel"):
    """As sessions_send answers."""

    run_id: str
    status: str
    reply: str | None = None


class Ask(Tool[Question]):
    """Recovered runs call it before the gateway is handed out, so it waits for that first."""

    declared, description, params = declared("ask", "once"), "Asks another session.", Question

    def __init__(self) -> None:
        self._gateway: Gateway
        self._moved_in = anyio.Event()

    def move_in(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._moved_in.set()

    async def call(self, context: ToolContext, params: Question) -> Answered | str:
        await self._moved_in.wait()
        key, run_id = SessionKey.named("main", params.session), f"ask-{params.token}"
        words = f"wait: {params.wait_s}\nsay: re {params.token}"
        await submit(self._gateway, key, words, run_id=run_id)
        waited = await self._gateway.waits.wait(context.run, run_id, timeout_s=None)
        if waited.run is None or waited.circle:
            return f"no answer: {waited.circle}"
        return Answered(run_id, waited.run.status, waited.run.reply)


class Fall(Tool[Token]):
    """Takes the whole process with it."""

    description, params = "Poison.", Token

    def __init__(self, name: str, effect: ToolEffect) -> None:
        self.declared = declared(name, effect)

    async def call(self, context: ToolContext, params: Token) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("the signal cannot be survived")

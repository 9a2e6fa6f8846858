"""One gateway of the rig: a whole gateway in a process of its own that shares its ledger. Lines of JSON in and out.

What it does to the world is written down there, and by nobody else: `stamps.txt` has the tool calls that were carried out, `wall.txt` what was
said in chats, `asked.txt` what the model was asked, `opened.txt` who had the chat account and until when.
"""

import logging
import os
import re
import select
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec

from crossclaw.app import Gateway, GatewayInputs, open_gateway
from crossclaw.channels.contract import ChannelHost, GivenChannel, Piece
from crossclaw.config import Config, Paths
from crossclaw.config.ledger import URL_VARIABLE
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import OPEN_TO_ALL, submit
from tests.crash.furnishing import Fall, Look, Stamp, tell
from tests.crash.victim import ONE_BY_ONE, _requests
from tests.faults.builds import break_promise
from tests.faults.traps import TrapWire, set_traps
from tests.faults.world import WorldFile

AGAIN_S = 0.2
WAIT_S = 1.0
NETWORK_S = 0.002  # each way
CHAT = "wall"
TOKEN = re.compile(r"\bc\d+x\d+\b")


class Wall(GivenChannel):
    """A chat platform that shows a message as often as it is sent."""

    name, settings = CHAT, OPEN_TO_ALL

    def __init__(self, world: Path, gateway: str) -> None:
        self._who = f"{gateway}/{os.getpid()}"
        self._said, self._opened = WorldFile(world / "wall.txt"), WorldFile(world / "opened.txt")
        self.host: ChannelHost | None = None

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self._opened.write("begin", self._who, time.monotonic())
        self.host = host
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            self.host = None
            self._opened.write("end", self._who, time.monotonic())

    async def send(self, piece: Piece) -> str | None:
        await anyio.sleep(NETWORK_S)
        self._said.write(piece.delivery_key, piece.text)
        await anyio.sleep(NETWORK_S)
        return f"at-{piece.delivery_key}"


class LoggedModel(RehearsalProvider):
    """Writes down which message it was asked about."""

    def __init__(self, world: Path) -> None:
        super().__init__()
        self._asked = WorldFile(world / "asked.txt")

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        last = next(
            turn for turn in reversed(request.turns) if isinstance(turn, UserTurn) and turn.content
        )
        words = " ".join(getattr(part, "text", "") for part in last.content)
        if found := TOKEN.findall(words):
            self._asked.write(found[-1])
        return await super().complete(request, tell)


class FaultyGateway:
    def __init__(self, world: Path, name: str, url: str, build: str) -> None:
        self._name, self._url, self._build, self._world = name, url, build, world
        self._folder = world / name
        self._stamp, self._model = Stamp(world, "effects"), LoggedModel(world)
        self._wall = Wall(world, name)
        self._gateway: Gateway | None = None

    async def live(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_open)
            async with aclosing(_requests()) as requests:
                async for request in requests:
                    tasks.start_soon(self._answer, request)
            tasks.cancel_scope.cancel()

    async def _keep_open(self) -> None:
        """As the program does it: whoever has lost its place begins anew."""
        while True:
            try:
                async with open_gateway(self._config(), self._paths(), self._outside()) as gateway:
                    self._gateway = gateway
                    tell(told="ready")
                    await anyio.sleep_forever()
            except Exception:
                logging.exception("%s opens anew", self._name)
            finally:
                self._gateway = None
            await anyio.sleep(AGAIN_S)

    def _config(self) -> Config:
        raw = {
            "agents": {"defaults": {"model": "rehearsal/rehearsal"}},
            "messages": ONE_BY_ONE,
            "ledger": {"shared": True, "gateway": self._name},
            "gateway": {"auth": {"token": "a-token-of-the-rig-that-is-long-enough"}},
        }
        return msgspec.convert(raw, Config, dec_hook=lambda kind, value: kind(value))

    def _paths(self) -> Paths:
        folder = self._folder
        return Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")

    def _outside(self) -> GatewayInputs:
        return GatewayInputs(
            environ={URL_VARIABLE: self._url},
            providers={"rehearsal": self._model},
            channels=(self._wall,),
            tools=(Look(), self._stamp, Fall("fall", "pure")),
        )

    async def _answer(self, request: dict[str, Any]) -> None:
        number, gateway, answer = request.pop("number"), self._gateway, dict[str, Any]()
        try:
            match request["ask"]:
                case "trap":
                    TrapWire.at = request["at"]
                case "go":
                    TrapWire.at = ""
                    TrapWire.go_on.set()
                case _ if gateway is None:
                    answer = {"error": "it is not open"}
                case "submit":
                    answer = await self._submit(gateway, request)
                case _:
                    answer = await _wait(gateway, request["run"])
        except CrossclawError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        tell(number=number, **answer)

    async def _submit(self, gateway: Gateway, request: dict[str, Any]) -> dict[str, Any]:
        name = RandomIds().new() if self._build == "forgetful" else request["token"]
        place = request["session"]
        if not place.startswith(CHAT):
            key = SessionKey.named("main", place)
            accepted = await submit(gateway, key, request["text"], run_id=f"run-{name}")
            return {"run": accepted.run_id}
        if self._wall.host is None:
            return {"error": "another gateway has the account"}
        inbound = Inbound(
            address=Address(CHAT, place),
            sender="ana",
            text=request["text"],
            message_id=name,
            chat_type="group",
            chat_id=place,
        )
        return {"run": (await self._wall.host.receive(inbound)).run_id}


async def _wait(gateway: Gateway, run_id: str) -> dict[str, Any]:
    found = await gateway.run_store.wait(run_id, WAIT_S)
    if found is None:
        return {"status": "unknown"}
    return {"status": found.status if found.ended else "open", "reply": found.reply}


def _sleep_truly(seconds: float) -> None:
    """libfaketime 0.9.10 answers Python's own sleep with EINVAL."""
    select.select([], [], [], seconds)


if __name__ == "__main__":
    world, name, url, build = sys.argv[1:]
    (Path(world) / name).mkdir(exist_ok=True)
    logging.basicConfig(filename=Path(world) / f"{name}.log", format="%(asctime)s %(message)s")
    if "FAKETIME_TIMESTAMP_FILE" in os.environ:
        time.sleep = _sleep_truly  # type: ignore[assignment]
    set_traps()
    break_promise(build)
    anyio.run(FaultyGateway(Path(world), name, url, build).live)
    os._exit(0)

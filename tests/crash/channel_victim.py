"""The victim of the channels' chapter: a gateway with a Matrix and a Telegram account, there to be killed.

    honest    as it is
    hasty     keeps its place in the homeserver's stream before it has stored what came
    doubling  makes a new transaction id for every attempt

Victims are forks of one process that has imported everything and opened nothing. It reads a line `folder build` for each, and
writes `pid <n>`, `ready` and `ended <code>`.
"""

import hashlib
import logging
import os
import secrets
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import msgspec

from crossclaw.app import GatewayInputs, open_gateway
from crossclaw.channels.contract import ChannelHost
from crossclaw.channels.matrix import account as matrix_account
from crossclaw.channels.matrix.events import SyncAnswer
from crossclaw.channels.registry import list_manifests
from crossclaw.channels.telegram import account as telegram_account
from crossclaw.config import Config, Paths
from crossclaw.config.section import Loose
from crossclaw.ledger.operations import LANE_RUNS_MAX
from crossclaw.providers.rehearsal import RehearsalProvider

Build = Literal["honest", "hasty", "doubling"]
PLACE = "config.json"
"""The channels' section, as the rig wrote it into the folder."""
_LOADED = (telegram_account, list_manifests)


def config_of(folder: Path) -> Config:
    channels = msgspec.json.decode((folder / PLACE).read_bytes())
    queue = {"mode": "followup", "debounceMs": 0, "cap": LANE_RUNS_MAX}
    rest: dict[str, Any] = {
        "agents": {"defaults": {"model": "rehearsal/rehearsal"}},
        "messages": {"queue": queue},
        "session": {"dmScope": "per-channel-peer"},
    }
    made: Config = msgspec.structs.replace(
        msgspec.convert(rest, Config), channels=Loose.of(channels)
    )
    return made


def misbehave(build: Build) -> None:
    if build == "doubling":
        send = matrix_account.MatrixAccount._put

        async def put(self: Any, room: Any, kind: str, key: str, content: Any) -> str:
            return await send(self, room, kind, key + secrets.token_hex(4), content)

        matrix_account.MatrixAccount._put = put  # type: ignore[method-assign]
    elif build == "hasty":
        take = matrix_account.MatrixAccount._take

        async def early(self: Any, answer: SyncAnswer, since: str | None) -> None:
            host: ChannelHost = self._host
            name = f"sync {self._user_id} {self._device_id}"
            await host.save_cursor(name, answer.next_batch)
            await anyio.sleep(0.05)
            await take(self, answer, since)

        matrix_account.MatrixAccount._take = early  # type: ignore[method-assign]


async def live(folder: Path) -> None:
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    outside = GatewayInputs(environ={}, providers={"rehearsal": RehearsalProvider()})
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with open_gateway(config_of(folder), paths, outside):
            say("ready")
            async for _ in signals:
                return


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def be_born(folder: Path, build: Build) -> None:
    logging.basicConfig(
        filename=folder / "victim.log", format="%(process)d %(levelname)s %(name)s %(message)s"
    )
    try:
        misbehave(build)
        anyio.run(live, folder)
    except BaseException:
        logging.critical("the victim ends", exc_info=True)
        os._exit(1)
    os._exit(0)


def nest() -> None:
    hashlib.sha256()
    import httpx2  # noqa: F401, PLC0415  not paid by every victim

    anyio.run(anyio.lowlevel.checkpoint)
    for line in sys.stdin:
        folder, _, build = line.strip().rpartition(" ")
        pid = os.fork()
        if not pid:
            be_born(Path(folder), build)  # type: ignore[arg-type]
        say(f"pid {pid}")
        say(f"ended {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")


if __name__ == "__main__":
    nest()

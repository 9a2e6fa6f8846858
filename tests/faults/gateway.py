"""One gateway of the rig: a whole house in a process of its own that shares its ledger. Lines of JSON in and out.

honest      as it is
forgetful   does not know a retried message again
unfenced    stores what it likes: no fence, no lock, no lease is looked at
unheard     hears no hints of others; it must work all the same, only later
"""

import logging
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import msgspec

from crossclaw.app import House, Outside, open_house
from crossclaw.config import Config, Paths
from crossclaw.config.ledger import URL_VARIABLE
from crossclaw.domain.errors import CrossclawError, StoreError
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import Beat
from crossclaw.ledger.postgres import listener, writer
from crossclaw.ledger.postgres.ledger import PostgresLedger
from crossclaw.ledger.sqlite import entries, queue, runs, waits
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.runs.lease import GatewayLease
from crossclaw.testing import submit
from tests.crash.furnishing import Look, Stamp, tell
from tests.crash.victim import ONE_BY_ONE, _requests

AGAIN_S = 0.2
WAIT_S = 1.0


class FaultyGateway:
    def __init__(self, world: Path, name: str, url: str, build: str) -> None:
        self._name, self._url, self._build = name, url, build
        self._folder = world / name
        self._stamp = Stamp(world, "effects")
        self._house: House | None = None

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
                async with open_house(self._config(), self._paths(), self._outside()) as house:
                    self._house = house
                    tell(told="ready")
                    await anyio.sleep_forever()
            except Exception:
                logging.exception("%s opens anew", self._name)
            finally:
                self._house = None
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

    def _outside(self) -> Outside:
        return Outside(
            environ={URL_VARIABLE: self._url},
            providers={"rehearsal": RehearsalProvider()},
            tools=(Look(), self._stamp),
        )

    async def _answer(self, request: dict[str, Any]) -> None:
        number, house = request.pop("number"), self._house
        try:
            if house is None:
                answer: dict[str, Any] = {"error": "it is not open"}
            elif request["ask"] == "submit":
                answer = await self._submit(house, request)
            else:
                answer = await _wait(house, request["run"])
        except CrossclawError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        tell(number=number, **answer)

    async def _submit(self, house: House, request: dict[str, Any]) -> dict[str, Any]:
        name = RandomIds().new() if self._build == "forgetful" else request["token"]
        key = SessionKey.named("main", request["session"])
        return {"run": (await submit(house, key, request["text"], run_id=f"run-{name}")).run_id}


async def _wait(house: House, run_id: str) -> dict[str, Any]:
    found = await house.run_store.wait(run_id, WAIT_S)
    if found is None:
        return {"status": "unknown"}
    return {"status": found.status if found.ended else "open", "reply": found.reply}


def _hold_anything(transaction: Any, fence: Any, *, progress: bool = False) -> tuple[str, str]:
    row = transaction.get("SELECT agent_id, session_id FROM runs WHERE run_id = ?", (fence.run_id,))
    return row[0], row[1]


async def _careless_beat(lease: GatewayLease) -> Beat:
    """Whoever has lost its lease goes on all the same."""
    try:
        return await lease._membership.beat()
    except StoreError:
        return Beat(has_dead=True, draining=False)


def _break(build: str) -> None:
    if build == "unheard":
        listener.CHANNEL = "nobody"
    elif build == "unfenced":
        writer.locks_for = lambda touched: []  # type: ignore[attr-defined]
        PostgresLedger.guard = lambda self, sql, *values: None  # type: ignore[method-assign]
        GatewayLease._next_beat = _careless_beat  # type: ignore[assignment, method-assign]
        for module in (entries, runs, queue, waits):
            module.hold = _hold_anything  # type: ignore[attr-defined]


if __name__ == "__main__":
    world, name, url, build = sys.argv[1:]
    (Path(world) / name).mkdir(exist_ok=True)
    logging.basicConfig(filename=Path(world) / f"{name}.log", format="%(asctime)s %(message)s")
    _break(build)
    anyio.run(FaultyGateway(Path(world), name, url, build).live)
    os._exit(0)

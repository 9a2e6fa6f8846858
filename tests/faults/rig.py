"""A life of three gateways under load: clients write through all of them while something befalls them, again and again."""

from pathlib import Path
from random import Random

import anyio

from tests.crash.patience import see_through
from tests.faults.faults import FAULTS, Befallen
from tests.faults.judge import WATCH, FaultLetter, FaultRecord
from tests.faults.process import GatewayProcess, Unanswered
from tests.faults.servers import Servers, ask

CLIENTS = 6
SESSIONS = ("s0", "s1", "s2", "s3", "wall0", "wall1")
BETWEEN_S = (0.2, 0.8)
START_S = 90.0
TRIAL_S = 60.0  # a trial takes ten; one that does not come to its end is a finding, too
STILL_S = 40.0
BACK_S = 60.0  # for a gateway to accept something again, once nothing befalls it any more
CHANCE_LOST = 0.1  # of an answer that is lost on its way: the client asks again, somewhere
SCRIPTS = (
    "say: re $",
    "wait: 0.2\nsay: re $",
    'tool: stamp {"token": "x"}\nthen:\nsay: re $',
    'wait: 0.5\ntool: stamp {"token": "x"}\nthen:\nwait: 0.2\nsay: re $',
)
OPEN = (
    "SELECT (SELECT count(*) FROM crossclaw.runs WHERE ended_at IS NULL) + "
    "(SELECT count(*) FROM crossclaw.outbox WHERE state IN ('pending', 'sending'))"
)


class Rig:
    def __init__(
        self,
        world: Path,
        servers: Servers,
        gateways: list[GatewayProcess],
        dice: Random,
        still_s: float,
    ) -> None:
        self._world, self._servers, self._gateways, self._dice = world, servers, gateways, dice
        self._still_s = still_s
        self.record = FaultRecord()
        self._closing = False
        self._loads = self._count = 0

    async def play(self, fault: str, trials: int) -> None:
        async with anyio.create_task_group() as tasks:
            for gateway in self._gateways:
                tasks.start_soon(self._keep, gateway)
            for gateway in self._gateways:
                with anyio.fail_after(START_S):
                    await gateway.ready.wait()
            await anyio.to_thread.run_sync(self._watch)
            for number in range(CLIENTS):
                tasks.start_soon(self._client, number)
            befallen = Befallen(self._gateways, self._servers, self._dice, self)
            with anyio.move_on_after(TRIAL_S * (trials + 2)) as patience:
                while self.record.trials < trials:
                    await anyio.sleep(self._dice.uniform(*BETWEEN_S))
                    self.record.trials += await FAULTS[fault].befall(befallen)
            if patience.cancelled_caught:
                self.record.noted.append(f"stuck: after {self.record.trials} of {trials} trials")
            self._closing = True
            if not await see_through(self._settle, self._progress, self._still_s):
                self.record.noted.append(f"stuck: nothing went on for {self._still_s:.0f} s")
            elif fault != "poison":
                await self._come_back()
            tasks.cancel_scope.cancel()

    def _watch(self) -> None:
        wire = self._servers.connect()
        wire.script(WATCH)
        wire.close()

    async def _keep(self, gateway: GatewayProcess) -> None:
        while True:
            await gateway.serve()

    async def _settle(self) -> None:
        while self._loads or await anyio.to_thread.run_sync(self._count_open):  # noqa: ASYNC110
            await anyio.sleep(0.1)

    def _count_open(self) -> int:
        count: int = ask(self._servers.own_url, OPEN)[0][0]
        return count

    def _progress(self) -> tuple[int, int]:
        return self.record.acknowledged, self.ended

    @property
    def ended(self) -> int:
        return sum(letter.ended is not None for letter in self.record.letters)

    async def _come_back(self) -> None:
        for gateway in self._gateways:
            letter = FaultLetter(f"c99x{self._gateways.index(gateway)}", "c99", "s0")
            self.record.letters.append(letter)
            with anyio.move_on_after(BACK_S) as patience:
                await self.post(letter, f"say: re {letter.token}", [gateway])
                await self.hear_of(letter, [gateway])
            if patience.cancelled_caught:
                self.record.noted.append(f"gone: {gateway.name} does not come back")

    # ── clients ────────────────────────────────────────────────────────────────────────────────

    async def _client(self, number: int) -> None:
        self._loads += 1
        dice = Random(f"{number}/{self._dice.random()}")
        while not self._closing:
            letter = self.new_letter(number, dice.choice(SESSIONS))
            text = dice.choice(SCRIPTS).replace("$", letter.token)
            await self.post(letter, text)
            await self.hear_of(letter)
        self._loads -= 1

    def new_letter(self, client: int, session: str, *, kills: bool = False) -> FaultLetter:
        self._count += 1
        letter = FaultLetter(f"c{client}x{self._count}", f"c{client}", session, kills=kills)
        self.record.letters.append(letter)
        return letter

    async def post(
        self, letter: FaultLetter, text: str, gateways: list[GatewayProcess] | None = None
    ) -> None:
        """To whichever gateway, until one has acknowledged it."""
        while not letter.acknowledged:
            try:
                answer = await self._dice.choice(gateways or self._gateways).ask(
                    ask="submit", token=letter.token, session=letter.session, text=text
                )
            except Unanswered:
                answer = {}
            if "run" in answer:
                letter.acknowledged = self._dice.random() > CHANCE_LOST
                letter.runs.add(answer["run"])
            else:
                await anyio.sleep(0.1)

    async def hear_of(
        self, letter: FaultLetter, gateways: list[GatewayProcess] | None = None
    ) -> None:
        run_id = min(letter.runs)
        while letter.ended is None:
            try:
                answer = await self._dice.choice(gateways or self._gateways).ask(
                    ask="wait", run=run_id
                )
            except Unanswered:
                answer = {}
            if answer.get("status") not in (None, "open", "unknown"):
                letter.ended = answer["status"]
            else:
                await anyio.sleep(0.05)

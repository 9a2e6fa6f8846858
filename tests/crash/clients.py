"""Clients: they send one message after the other, and again when no acknowledgement came."""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import anyio

from tests.crash.life import Gone, HungUp, Line, Living
from tests.crash.record import Letter, Outcome, Place, Record

SESSIONS_SURE, SESSIONS_LOOSE, SESSIONS_DIRECT = 18, 18, 14
UNHEARD_MAX = 6  # messages of one client whose outcome it does not know yet: the load's limit
PAUSE_MAX_S = 0.01
REFUSED_PAUSE_S = 0.05

CHANCE_TWICE = 0.1  # of sending a message again although it was acknowledged
CHANCE_GIVE_UP = 0.1  # of not sending it again although it was not
CHANCE_SHARED = 0.15  # of writing to a session of other clients
CHANCE_QUESTION = 0.2  # of a message whose run asks somebody else
CHANCE_SPAWN = 0.2  # of a message whose run gives a task to a sub-agent
CHANCE_DELETE = 0.5  # of a sub-agent that is deleted after its report

PLACES = (
    *(Place("sure", f"s{n}") for n in range(SESSIONS_SURE)),
    *(Place("loose", f"l{n}") for n in range(SESSIONS_LOOSE)),
    *(Place("direct", f"d{n}") for n in range(SESSIONS_DIRECT)),
)
ASKED = [place for place in PLACES if place.channel == "direct"]


class Door:
    """Where clients find whichever victim lives now."""

    def __init__(self) -> None:
        self._life: Living | None = None
        self._opened = anyio.Event()

    def open(self, life: Living) -> None:
        self._life = life
        self._opened.set()

    async def ask(self, request: Line) -> Line:
        while (life := self._life) is None:
            await self._opened.wait()
        try:
            return await life.ask(request)
        except HungUp:
            raise
        except Gone:
            self._close(life)
            raise

    def _close(self, life: Living) -> None:
        if self._life is life:
            self._life = None
            self._opened = anyio.Event()

    async def ask_until_told(self, request: Line) -> Line:
        while True:
            try:
                return await self.ask(request)
            except Gone:
                continue


@dataclass(frozen=True, slots=True)
class Load:
    """What clients send, and where to. `$` in a script stands for the message's token."""

    clients: int
    places: tuple[Place, ...]
    scripts: tuple[str, ...]
    question: Callable[[Random, Place, str], str | None]
    """The tool call that asks another session with a message of this token, if there is one."""
    tasks: tuple[str, ...]
    """What sub-agents are given; `$` stands for the task's token."""
    questions: float = CHANCE_QUESTION


class Client:
    def __init__(
        self,
        name: str,
        load: Load,
        own: list[Place],
        dice: Random,
        door: Door,
        record: Record,
        *,
        gives_up: float = CHANCE_GIVE_UP,
    ) -> None:
        self._name = name
        self._gives_up = gives_up
        self._load = load
        self._own = own
        self._dice = dice
        self._door = door
        self._record = record
        self._count = 0

    async def serve(self, closing: anyio.Event) -> None:
        """Send until it is time to close; then hear how everything ended."""
        unheard: deque[str] = deque()
        while not closing.is_set():
            letter = self.write(self._choose_place())
            await self.post(letter)
            unheard += letter.runs
            while len(unheard) > UNHEARD_MAX:
                await self.hear(unheard.popleft())
            await anyio.sleep(self._dice.uniform(0, PAUSE_MAX_S))
        for run in unheard:
            await self.hear(run)

    def write(self, place: Place, script: str | None = None) -> Letter:
        self._count += 1
        token = f"{self._name}x{self._count:05}"
        call, asks, spawns = None, None, None
        lot = 1.0 if script else self._dice.random()
        if lot < self._load.questions:
            call = self._load.question(self._dice, place, f"{token}q")
            asks = f"{token}q" if call else None
        elif lot < self._load.questions + CHANCE_SPAWN:
            call, spawns = self._spawn(f"{token}s"), f"{token}s"
        script = f"{call}\nthen:\nsay: re $" if call else script
        script = script or self._dice.choice(self._load.scripts)
        letter = Letter(token, self._name, place, script.replace("$", token), asks, spawns)
        self._record.letters.append(letter)
        return letter

    def _spawn(self, token: str) -> str:
        task = self._dice.choice(self._load.tasks).replace("$", token)
        cleanup = "delete" if self._dice.random() < CHANCE_DELETE else "keep"
        return f"tool: sessions_spawn {json.dumps({'task': task, 'cleanup': cleanup})}"

    async def post(self, letter: Letter) -> None:
        while not letter.acknowledged:
            try:
                await self._post_once(letter)
            except Gone:
                if self._dice.random() < self._gives_up:
                    return
        if self._dice.random() < CHANCE_TWICE:
            try:
                await self._post_once(letter)
            except Gone:
                return

    async def hear(self, run: str) -> Outcome:
        while True:
            answer = await self._door.ask_until_told(
                {"ask": "wait", "client": self._name, "run": run}
            )
            if answer.get("status", "open") != "open":
                break
        outcome = Outcome(run, answer["status"], answer.get("reply"))
        self._record.outcomes.append(outcome)
        return outcome

    async def _post_once(self, letter: Letter) -> None:
        answer = await self._door.ask(
            {
                "ask": "submit",
                "client": self._name,
                "token": letter.token,
                "place": letter.place._asdict(),
                "text": letter.text,
            }
        )
        if "error" in answer:
            self._record.refusals.append(f"{letter.token}: {answer['error']}")
            await anyio.sleep(REFUSED_PAUSE_S)
            return
        letter.acknowledged = True
        letter.runs.add(answer["run"])

    def _choose_place(self) -> Place:
        shared = self._dice.random() < CHANCE_SHARED
        return self._dice.choice(self._load.places if shared else self._own)


def ask_below(dice: Random, place: Place, token: str) -> str | None:
    """Only sessions further down the list are asked, so nobody ever waits in a circle."""
    below = [asked for asked in ASKED if PLACES.index(asked) > PLACES.index(place)]
    if not below:
        return None
    return f'tool: ask {{"session":"{dice.choice(below).chat}","token":"{token}"}}'


def ask_somebody_slow(dice: Random, place: Place, token: str) -> str | None:
    call = ask_below(dice, place, token)
    return call and call.replace("}", f',"wait_s":{dice.uniform(0.1, 0.8):.2f}}}')


SCRIPTS = (
    "say: re $",
    "say: re $",
    "wait: 0.03\nsay: re $",
    'tool: look {"token":"$"}\nthen:\nsay: re $',
    'tool: stamp {"token":"$"}\nthen:\nsay: re $',
    'tool: stamp {"token":"$"}\ntool: look {"token":"$"}\ntool: stamp {"token":"$"}\nthen:\nsay: re $',
    'tool: stamp {"token":"$"}\nthen:\nwait: 0.02\ntool: stamp {"token":"$"}\nthen:\nsay: re $',
)
POISON = 'tool: fall {"token":"$"}\nthen:\nsay: re $'
TRIP = 'tool: trip {"token":"$"}\nthen:\nsay: re $'
PLAIN = SCRIPTS[0]
TASKS = (
    "say: re $",
    "wait: 0.03\nsay: re $",
    'tool: stamp {"token":"$"}\nthen:\nsay: re $',
)
IN_PROCESS_LOAD = Load(10, PLACES, SCRIPTS, ask_below, TASKS)


def make_clients(load: Load, seed: str, door: Door, record: Record) -> list[Client]:
    dice = Random(seed)
    places = list(load.places)
    dice.shuffle(places)
    return [
        Client(f"c{n}", load, places[n :: load.clients], Random(f"{seed}/{n}"), door, record)
        for n in range(load.clients)
    ]

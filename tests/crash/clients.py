"""Clients: they send one message after the other, and again when no acknowledgement came."""

from collections import deque
from random import Random

import anyio

from tests.crash.life import Gone, Life, Line
from tests.crash.record import Letter, Outcome, Place, Record

SESSIONS_SURE, SESSIONS_LOOSE, SESSIONS_DIRECT = 18, 18, 14
CLIENTS = 10
UNHEARD_MAX = 6  # messages of one client whose outcome it does not know yet: the load's limit
PAUSE_MAX_S = 0.01
REFUSED_PAUSE_S = 0.05

CHANCE_TWICE = 0.1  # of sending a message again although it was acknowledged
CHANCE_GIVE_UP = 0.1  # of not sending it again although it was not
CHANCE_SHARED = 0.15  # of writing to a session of other clients

PLACES = (
    *(Place("sure", f"s{n}") for n in range(SESSIONS_SURE)),
    *(Place("loose", f"l{n}") for n in range(SESSIONS_LOOSE)),
    *(Place("direct", f"d{n}") for n in range(SESSIONS_DIRECT)),
)
ASKED = [place for place in PLACES if place.channel == "direct"]


class Door:
    """Where clients find whichever victim lives now."""

    def __init__(self) -> None:
        self._life: Life | None = None
        self._opened = anyio.Event()

    def open(self, life: Life) -> None:
        self._life = life
        self._opened.set()

    async def ask(self, request: Line) -> Line:
        while (life := self._life) is None:
            await self._opened.wait()
        try:
            return await life.ask(request)
        except Gone:
            self._close(life)
            raise

    def _close(self, life: Life) -> None:
        if self._life is life:
            self._life = None
            self._opened = anyio.Event()

    async def ask_until_told(self, request: Line) -> Line:
        while True:
            try:
                return await self.ask(request)
            except Gone:
                continue


class Client:
    def __init__(
        self,
        name: str,
        own: list[Place],
        dice: Random,
        door: Door,
        record: Record,
        *,
        gives_up: float = CHANCE_GIVE_UP,
    ) -> None:
        self._name = name
        self._gives_up = gives_up
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
        """A new letter. `$` in its script stands for its token."""
        self._count += 1
        token = f"{self._name}x{self._count:05}"
        asks = None
        if script is None and self._dice.random() < 0.2:
            asks = self._choose_question(place, token)
        if asks:
            script = f'tool: ask {{"session":"{asks[0]}","token":"{asks[1]}"}}\nthen:\nsay: re $'
        script = script or self._dice.choice(SCRIPTS)
        letter = Letter(token, self._name, place, script.replace("$", token), asks)
        self._record.letters.append(letter)
        return letter

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
            answer = await self._door.ask_until_told({"ask": "wait", "run": run})
            if answer.get("status", "open") != "open":
                break
        outcome = Outcome(run, answer["status"], answer.get("reply"))
        self._record.outcomes.append(outcome)
        return outcome

    async def _post_once(self, letter: Letter) -> None:
        place = letter.place._asdict()
        request = {"ask": "submit", "token": letter.token, "place": place, "text": letter.text}
        answer = await self._door.ask(request)
        if "error" in answer:
            self._record.refusals.append(f"{letter.token}: {answer['error']}")
            await anyio.sleep(REFUSED_PAUSE_S)
            return
        letter.acknowledged = True
        letter.runs.add(answer["run"])

    def _choose_place(self) -> Place:
        shared = self._dice.random() < CHANCE_SHARED
        return self._dice.choice(PLACES if shared else self._own)

    def _choose_question(self, place: Place, token: str) -> tuple[str, str] | None:
        """Only sessions further down the list are asked, so nobody ever waits in a circle."""
        below = [asked for asked in ASKED if PLACES.index(asked) > PLACES.index(place)]
        return (self._dice.choice(below).chat, f"{token}q") if below else None


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


def make_clients(seed: str, door: Door, record: Record) -> list[Client]:
    dice = Random(seed)
    places = list(PLACES)
    dice.shuffle(places)
    return [
        Client(f"c{n}", places[n::CLIENTS], Random(f"{seed}/{n}"), door, record)
        for n in range(CLIENTS)
    ]

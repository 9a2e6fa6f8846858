"""make crash, the channels' chapter: kill -9 at any point between a chat platform and the ledger, in both directions.

People write to one gateway on a real Synapse and on a fake Telegram (strict, over TCP), while it is killed again and again: at any
time after its start, shortly after somebody wrote, and right after a platform has shown a message and before the gateway hears
of it. The verdict is read from the platforms' own logs: every message is answered exactly once and in its order. A reply whose
fate nobody can know is `uncertain`, is counted apart and is never repeated: none on Matrix, at most one a kill on Telegram. A run
that was at work at three kills is given up and says so once, counted apart too.
At the end two builds that break a promise are tried in the same way; one that is not caught means that the rig is blind.
"""

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from urllib.parse import quote

import anyio
import anyio.abc
import anyio.to_thread
import httpx2
import msgspec

from crossclaw.ledger.sqlite.rows import DELIVERY, delivery_of
from crossclaw.ledger.sqlite.store import open_reader
from tests.channels.fake_http import AskedOfFake, FakeAnswer, FakeHttpService, serve_fake
from tests.channels.synapse import Person, Synapse, open_synapse
from tests.channels.telegram.fake import FakeTelegram
from tests.crash.channel_victim import PLACE, Build
from tests.crash.starting import rig_parser, run_rig
from tests.ending import bury

ROOT = Path(__file__).parents[2]
NEST = [sys.executable, "-m", "tests.crash.channel_victim"]
TOKEN = "700:AAE-the-token"
ROOMS, CHATS = 3, 6
READY_S_MAX = 90.0
DRAIN_S_MAX = 120.0
LIFE_S = 0.8
EFFECT_S = 5.0  # for a reply to be shown, on a machine that is busy
BACKLOG_MAX = 40
GIVEN_UP = "⚠️ No answer this time: given up after 3 attempts"
SENT = "/send/m.room.message/"
CONTROLS: dict[Build, str] = {"doubling": "doubled", "hasty": "lost"}
CONTROL_KILLS, CONTROL_KILLS_MAX = 10, 60


class Nest:
    """Starts victims, one at a time."""

    def __init__(self, complaints: Path) -> None:
        self._process = subprocess.Popen(
            NEST,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints.open("ab"),
            text=True,
        )
        self.pid = 0

    async def bear(self, folder: Path, build: Build) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder} {build}\n")
        self._process.stdin.flush()
        while not (line := await self._hear()).startswith("pid "):
            pass
        self.pid = int(line.split()[1])

    async def wait_ready(self) -> None:
        with anyio.fail_after(READY_S_MAX):
            line = await self._hear()
        assert line == "ready", f"the victim did not start: {line}; victim.log says why"

    async def bury(self) -> int:
        while not (line := await self._hear()).startswith("ended "):
            pass
        return int(line.split()[1])

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):  # it is dead and buried already
            os.kill(self.pid, how)

    async def _hear(self) -> str:
        assert self._process.stdout is not None
        line = await anyio.to_thread.run_sync(self._process.stdout.readline, abandon_on_cancel=True)
        if not line:
            raise ChildProcessError("the nest is gone; stderr.log says why")
        return line.strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        bury(self._process)


@dataclass
class Score:
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def found(self, kind: str) -> int:
        return sum(finding.startswith(kind) for finding in self.findings)


class People:
    """Everybody who writes, on both platforms, and what they were answered."""

    def __init__(self, synapse: Synapse, telegram: FakeTelegram, dice: Random) -> None:
        self._dice = dice
        self._telegram = telegram
        self._bot = telegram.add_bot(TOKEN)
        self.bot = synapse.register("bot")
        self._people = [synapse.register("ann") for _ in range(ROOMS)]
        self._rooms = {self._talk_with(person): person for person in self._people}
        self.said: dict[str, list[str]] = {}
        """By chat, the tokens; two that are written to a room at once stand there as the homeserver took them."""
        self._number = 0

    def _talk_with(self, person: Person) -> str:
        room = person.make_room(self.bot.user_id, direct=True)
        self.bot.join(room)
        return room

    async def say_something(self) -> None:
        if self._dice.random() < 0.4:
            return self.say_on_telegram()
        return await self.say_on_matrix()

    async def say_on_matrix(self) -> None:
        self._number += 1
        room = self._dice.choice(list(self._rooms))
        token = f"M{self._number}"
        self.said.setdefault(room, []).append(token)
        await anyio.to_thread.run_sync(self._rooms[room].say, room, f"say: re {token}")

    def say_on_telegram(self) -> None:
        self._number += 1
        chat = 2000 + self._dice.randrange(CHATS)
        token = f"T{self._number}"
        self.said.setdefault(str(chat), []).append(token)
        self._telegram.say(self._bot, chat, f"say: re {token}", date=int(time.time()))  # noqa: TID251

    async def in_their_order(self) -> dict[str, list[str]]:
        """By chat, what was said, as the platform has it."""
        found = dict(self.said)
        for room, person in self._rooms.items():
            heard = await anyio.to_thread.run_sync(person.heard_from, room, person.user_id)
            there = [event["content"]["body"].removeprefix("say: re ") for event in heard]
            assert set(found.get(room, ())) <= set(there), "the homeserver has lost something"
            found[room] = there
        return found

    async def answers(self) -> dict[str, list[str]]:
        """By chat, what people saw."""
        found: dict[str, list[str]] = {}
        for room, person in self._rooms.items():
            heard = await anyio.to_thread.run_sync(person.heard_from, room, self.bot.user_id)
            found[room] = [event["content"]["body"] for event in heard]
        for chat in range(2000, 2000 + CHATS):
            found[str(chat)] = self._telegram.texts(chat)
        return found

    @property
    def count(self) -> int:
        return sum(map(len, self.said.values()))


class Between(FakeHttpService):
    """Stands between the gateway and the homeserver, so that it can be killed when a reply is in its room and the gateway
    has not heard so. Everything else goes through as it is."""

    def __init__(self, homeserver: str) -> None:
        super().__init__()
        self._homeserver = homeserver
        self._http = httpx2.AsyncClient(timeout=None)
        self.on_shown: Callable[[], None] | None = None
        """Called once, before the next reply's sender hears that it was shown."""

    async def handle(self, asked: AskedOfFake) -> FakeAnswer:
        kept = ("authorization", "content-type")
        answer = await self._http.request(
            asked.method,
            f"{self._homeserver}{quote(asked.path, safe='/')}",
            params=asked.query,
            headers={name: asked.headers[name] for name in kept if name in asked.headers},
            content=asked.body,
        )
        if SENT in asked.path and answer.status_code == 200 and self.on_shown is not None:
            told, self.on_shown = self.on_shown, None
            told()
        kind = answer.headers.get("content-type", "application/json")
        return FakeAnswer(answer.status_code, answer.content, kind)

    async def close(self) -> None:
        await self._http.aclose()


class ChannelChapter:
    """One state folder and one pair of platforms; many kills."""

    def __init__(
        self, folder: Path, build: Build, nest: Nest, people: People, between: Between, dice: Random
    ) -> None:
        self._folder, self._build, self._nest = folder, build, nest
        self._people, self._between, self._dice = people, between, dice
        self._killed_at: list[float] = []
        """In ms, as the ledger counts."""

    @property
    def kills(self) -> int:
        return len(self._killed_at)

    async def prepare(self) -> None:
        """One whole life first: what was said before the first start is not answered."""
        await self._nest.bear(self._folder, self._build)
        await self._nest.wait_ready()
        await self._until_connected()
        self._nest.end(signal.SIGTERM)
        await self._nest.bury()

    async def _until_connected(self) -> None:
        """By the place in the stream, which is stored."""
        for _ in range(int(READY_S_MAX * 20)):
            if self._has_place():
                return
            await anyio.sleep(0.05)
        raise RuntimeError("the victim does not follow the homeserver; victim.log says why")

    def _has_place(self) -> bool:
        with closing(open_reader(self._folder / "state" / "crossclaw.sqlite")) as db:
            found = db.execute("SELECT count(*) FROM channel_cursors WHERE name LIKE 'sync %'").get
            return bool(found)

    async def kill_once(self, telegram: FakeTelegram) -> None:
        dice, nest = self._dice, self._nest
        await nest.bear(self._folder, self._build)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._talk)
            if dice.random() < 0.25:
                await anyio.sleep(dice.uniform(0, 0.6))
            else:
                await nest.wait_ready()
                await self._let_live(telegram)
            nest.end()
            assert await nest.bury() == -9
        telegram.effects.clear()
        self._between.on_shown = None
        self._killed_at.append(time.time() * 1000)  # noqa: TID251

    async def _let_live(self, telegram: FakeTelegram) -> None:
        """Until a time, or until one of the platforms has shown something and not yet said so."""
        shown, at_most_s = anyio.Event(), self._dice.uniform(0.05, LIFE_S)
        aim = self._dice.random()
        if aim < 0.6:
            at_most_s = EFFECT_S
        if aim < 0.3:
            telegram.effects.append(("/sendMessage", _killing(self._nest, shown)))
            self._people.say_on_telegram()
        elif aim < 0.6:
            self._between.on_shown = _killing(self._nest, shown)
            await self._people.say_on_matrix()
        with anyio.move_on_after(at_most_s):
            await shown.wait()
        if self._people.count > BACKLOG_MAX and self._dice.random() < 0.2:
            await anyio.sleep(3)  # else the kills come faster than anybody can answer

    async def _talk(self) -> None:
        for _ in range(self._dice.randint(0, 4)):
            await anyio.sleep(self._dice.uniform(0, 0.3))
            await self._people.say_something()

    async def drain(self) -> None:
        """Nobody kills any more: all is answered, or nothing new comes for a while."""
        await self._nest.bear(self._folder, self._build)
        await self._nest.wait_ready()
        still, last, until = 0, -1, time.monotonic() + DRAIN_S_MAX
        while still < 8 and time.monotonic() < until:
            await anyio.sleep(1)
            seen = sum(map(len, (await self._people.answers()).values()))
            still, last = (still + 1 if seen == last else 0), seen
            if seen >= self._people.count:
                break
        self._nest.end(signal.SIGTERM)
        await self._nest.bury()

    async def judge(self, score: Score) -> None:
        uncertain, given_up = self._uncertain(), self._given_up()
        answers = await self._people.answers()
        score.counts["given up"] += len(given_up)
        for chat, said in (await self._people.in_their_order()).items():
            on_matrix = chat.startswith("!")
            answered = [words for words in answers[chat] if not words.startswith(GIVEN_UP)]
            seen = Counter(answered)
            excused = sum(token in given_up for token in said)
            if (notices := len(answers[chat]) - len(answered)) != excused:
                score.findings.append(
                    f"notices: {chat} was told {notices} times that one is given up, not {excused}"
                )
            for token in said:
                if token in given_up:
                    continue
                words = f"re {token}"
                if seen[words] > 1:
                    score.findings.append(
                        f"doubled: {words} was shown {seen[words]} times in {chat}"
                    )
                elif not seen[words] and words not in uncertain:
                    score.findings.append(f"lost: {words} was never shown in {chat}")
            wanted = [f"re {token}" for token in said if seen[f"re {token}"]]
            if list(dict.fromkeys(answered)) != wanted:
                score.findings.append(f"order: {chat} saw {answered}, not {wanted}")
            score.counts["matrix" if on_matrix else "telegram"] += len(said)
            if on_matrix and uncertain & set(wanted):
                score.findings.append(f"uncertain on Matrix: {uncertain & set(wanted)}")
        score.counts["uncertain"] += len(uncertain)
        score.counts["kills"] += self.kills
        score.counts["most"] = max(score.counts["most"], self._most_at_once())
        if score.counts["most"] > 1:
            score.findings.append(f"uncertain: {score.counts['most']} replies after one kill")

    def _uncertain(self) -> set[str]:
        with closing(open_reader(self._folder / "state" / "crossclaw.sqlite")) as db:
            rows = map(delivery_of, db.execute(f"SELECT {DELIVERY} FROM outbox"))
            return {row.text for row in rows if row.state == "uncertain"}

    def _given_up(self) -> set[str]:
        """What was at work at three kills, and says so instead of an answer: nobody can tell it from a poison."""
        asked = (
            "SELECT e.body ->> 'content' FROM runs r JOIN entries e ON e.run_id = r.run_id AND e.role = 'user' "
            "WHERE r.error LIKE 'given up after %' AND r.attempt >= 3"
        )
        with closing(open_reader(self._folder / "state" / "crossclaw.sqlite")) as db:
            return {words.removeprefix("say: re ") for (words,) in db.execute(asked)}

    def _most_at_once(self) -> int:
        """An attempt that was cut off is of the first kill after it began; when it is found does not matter: a life may
        be killed before it has looked."""
        with closing(open_reader(self._folder / "state" / "crossclaw.sqlite")) as db:
            rows = map(delivery_of, db.execute(f"SELECT {DELIVERY} FROM outbox"))
            tried = [row.tried_at or row.updated_at for row in rows if row.state == "uncertain"]
        by_kill = Counter(bisect_left(self._killed_at, at) for at in tried)
        return max(by_kill.values(), default=0)


def _killing(nest: Nest, shown: anyio.Event) -> Callable[[], None]:
    def kill() -> None:
        nest.end()
        shown.set()

    return kill


@asynccontextmanager
async def opened(
    root: Path, build: Build, synapse: Synapse, nest: Nest, dice: Random
) -> AsyncGenerator[tuple[ChannelChapter, FakeTelegram]]:
    telegram = FakeTelegram()
    folder = root / f"{build}-{secrets.token_hex(3)}"
    folder.mkdir()
    between = Between(synapse.url)
    async with serve_fake(telegram) as url, serve_fake(between) as homeserver:
        people = await anyio.to_thread.run_sync(People, synapse, telegram, dice)
        everybody = {"dmPolicy": "open", "allowFrom": ["*"]}
        section = {
            "matrix": {"homeserver": homeserver, "accessToken": people.bot.token, **everybody},
            "telegram": {"botToken": TOKEN, "apiUrl": url, **everybody},
        }
        (folder / PLACE).write_bytes(msgspec.json.encode(section))
        chapter = ChannelChapter(folder, build, nest, people, between, dice)
        await chapter.prepare()
        yield chapter, telegram
    await between.close()


async def crash(
    root: Path, build: Build, kills: int, synapse: Synapse, nest: Nest, dice: Random
) -> Score:
    score, began = Score(), time.monotonic()
    async with opened(root, build, synapse, nest, dice) as (chapter, telegram):
        while chapter.kills < kills:
            await chapter.kill_once(telegram)
            if chapter.kills % 20 == 0:
                print(
                    f"channels: {chapter.kills}/{kills} kills in {time.monotonic() - began:.0f} s",
                    flush=True,
                )
        await chapter.drain()
        await chapter.judge(score)
    return score


async def try_control(root: Path, build: Build, synapse: Synapse, nest: Nest, dice: Random) -> bool:
    kills = 0
    while kills < CONTROL_KILLS_MAX:
        score = await crash(root, build, CONTROL_KILLS, synapse, nest, dice)
        kills += CONTROL_KILLS
        if caught := score.found(CONTROLS[build]):
            print(f"control {build}: caught after {kills} kills, {caught} {CONTROLS[build]}")
            return True
    print(f"control {build}: NOT CAUGHT after {kills} kills: the rig is blind")
    return False


async def run(arguments: argparse.Namespace, root: Path) -> bool:
    dice = Random(arguments.seed)
    nest = Nest(root / "stderr.log")
    with open_synapse(root / "synapse") as synapse:
        try:
            good = True
            if not arguments.control:
                score = await crash(root, "honest", arguments.kills, synapse, nest, dice)
                for finding in score.findings[:20]:
                    print(finding)
                print(_verdict(score))
                good = not score.findings
            for build in CONTROLS if arguments.controls else ():
                good = await try_control(root, build, synapse, nest, dice) and good
        finally:
            nest.close()
    return good


def _verdict(score: Score) -> str:
    counts = score.counts
    return (
        f"channels: {counts['kills']} kills, {counts['matrix']} messages on Matrix and {counts['telegram']} on "
        f"Telegram: {score.found('lost')} lost, {score.found('doubled')} doubled, {score.found('order')} out of "
        f"order; {counts['uncertain']} uncertain on Telegram, at most {counts['most']} a kill, "
        f"{score.found('uncertain on Matrix')} on Matrix; {counts['given up']} given up and said so"
    )


def main() -> int:
    parser = rig_parser("tests.crash.channels", __doc__)
    parser.add_argument("--control", action="store_true", help="nothing but controls")
    parser.add_argument("--no-control", dest="controls", action="store_false")
    return run_rig(run, parser.parse_args(), "channels")


if __name__ == "__main__":
    sys.exit(main())

"""Stories: all that two agents can say to each other after a send, told in a real gateway at once.

A story is a word for each run of an exchange. Every story has two sessions of its own, both with a
chat, so that hundreds of them share one gateway and its virtual time.
"""

import re
from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.addresses import Address
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import KeyRefused
from crossclaw.domain.events import FeedEvent, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, ToolUse
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller
from crossclaw.gateway.frames import EventFrame
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.gateway.publisher import EventPublisher
from crossclaw.gateway.subscribers import Audience
from crossclaw.ledger.operations import EnsureSession
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.testing import MemoryChannel, ScriptedProvider, VirtualClock, open_gateway
from tests.flows.tools import Counting

SAID: dict[str, Any] = {
    "text": "words",
    "skip": "REPLY_SKIP",
    "spaced": " REPLY_SKIP \n",
    "empty": "",
    "error": KeyRefused("no"),  # a refusal that blames no message: the call is not made again
    "timeout": "too late",
    "tool": [ToolUse("c1", "count", {})],
}
SPEAKS = {"text", "tool"}
FAILS = {"error", "timeout"}
FOR_EVER_S = 1e6

Story = tuple[str, ...]


# ── what the specification says ────────────────────────────────────────────────────────────────


class Expected(NamedTuple):
    runs: int
    posted: bool


def expected(turns_max: int, story: Story) -> Expected | None:
    """None when the story has more to tell."""
    if not story:
        return None
    if story[0] in FAILS:
        return Expected(1, posted=False)
    spoken = 0
    while spoken < len(story) and story[spoken] in SPEAKS and spoken < turns_max:
        spoken += 1
    if spoken + 2 > len(story):
        return None
    return Expected(spoken + 2, posted=story[spoken + 1] in SPEAKS)


def stories(turns_max: int, begun: Story = ()) -> Iterator[Story]:
    """Every story, to its end and no further."""
    if expected(turns_max, begun) is not None:
        yield begun
        return
    for word in SAID:
        yield from stories(turns_max, (*begun, word))


# ── telling them ───────────────────────────────────────────────────────────────────────────────


class Cast(ScriptedProvider):
    """Plays all stories: whose turn it is is counted here, not read from a prompt."""

    def __init__(self, told: Sequence[Story]) -> None:
        super().__init__(self._say)
        self.told = told
        self.spoken = [0] * len(told)
        self.insisted = [False] * len(told)

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        if self._word(request) == "timeout":
            self.spoken[_number(request)] += 1
            await anyio.sleep(FOR_EVER_S)
        return await super().complete(request, tell)

    def _word(self, request: ModelRequest) -> str:
        number = _number(request)
        story, place = self.told[number], self.spoken[number]
        return story[place] if place < len(story) else "text"  # one run too many is counted below

    def _say(self, request: ModelRequest) -> Any:
        word, last = self._word(request), request.turns[-1]
        if word == "empty" and not self.insisted[_number(request)]:
            self.insisted[_number(request)] = True  # an empty end is asked for once more
            return SAID[word]
        self.insisted[_number(request)] = False
        if word == "tool" and not (isinstance(last, UserTurn) and last.results):
            return SAID[word]
        self.spoken[_number(request)] += 1
        return SAID["text" if word == "tool" else word]


def _number(request: ModelRequest) -> int:
    found = re.search(r"This session is agent:\w+:[rt](\d+)\b", str(request.turns))
    assert found, request.turns
    return int(found[1])


class Page:
    """A page that shows everything; it keeps what it should never have been told."""

    protocol, hears_tools = 4, True

    def __init__(self) -> None:
        self.tokens: list[bytes] = []
        self.frames = 0

    def push(self, frame: EventFrame) -> bool:
        body = frame.numbered(1)
        self.frames += 1
        if b"_SKIP" in body:
            self.tokens.append(body)
        return True


class Seen(NamedTuple):
    """What became of each story, and all that anybody was shown."""

    runs: list[list[Run]]
    asked: list[int]
    chats: list[list[str]]
    states: list[str]
    page: Page


async def tell(
    folder: Path, turns_max: int, told: Sequence[Story], *, one_agent: bool = False
) -> Seen:
    raw = {
        "agents": {"list": [{"id": "main"}, {"id": "other"}]},
        "session": {"agentToAgent": {"maxPingPongTurns": turns_max}},
    }
    chat, cast, page = MemoryChannel(knows_key_s=inf), Cast(told), Page()
    target = "main" if one_agent else "other"
    async with (
        open_gateway(
            folder, cast, config=msgspec.convert(raw, Config), channels=[chat],
            tools=[Counting("count")],
        ) as gateway,
        anyio.create_task_group() as tasks,
    ):  # fmt: skip
        runs = _watch(gateway, page, tasks)
        ids = [await _send(gateway, number, target) for number in range(len(told))]
        states = await _ends(gateway, ids)
        tasks.cancel_scope.cancel()
    rooms = [f"{who}{number}" for number in range(len(told)) for who in "rt"]
    chats = {room: [text for to, text in chat.sent if to == room] for room in rooms}
    return Seen(
        [[run for run in runs if run.plan.exchange_id == each] for each in ids],
        cast.spoken,
        [chats[f"r{n}"] + chats[f"t{n}"] for n in range(len(told))],
        states,
        page,
    )


def _watch(gateway: Gateway, page: Page, tasks: Any) -> list[Run]:
    limits, ended = GatewayLimits(), list[Run]()
    audience = Audience(limits)
    audience.join(page, is_page=True)
    publisher = EventPublisher(audience, VirtualClock(), limits)

    def hear(event: FeedEvent) -> None:
        if isinstance(event, RunEnded):
            ended.append(event.run)

    gateway.feed.subscribe(publisher.on_event)
    gateway.feed.subscribe(hear)
    tasks.start_soon(publisher.serve)
    return ended


async def _send(gateway: Gateway, number: int, target_agent: str) -> str:
    """Through the door, as the tool of a session does."""
    requester = SessionKey.named("main", f"r{number}")
    target = SessionKey.named(target_agent, f"t{number}")
    for key, room in ((requester, f"r{number}"), (target, f"t{number}")):
        new = NewSession(
            key=key, session_id=f"id-{room}", channel="memory", address=Address("memory", room)
        )
        await gateway.ledger.do(EnsureSession(new=new, at=1))
    caller = Caller(principal=session_principal(requester, Authority(hops_left=12)))
    asked = {"sessionKey": target.text, "message": "well?", "timeoutSeconds": 0}
    answer = await gateway.door.dispatch(caller, "tool.sessions_send", asked)
    run_id: str = answer.run_id
    return run_id


async def _ends(gateway: Gateway, ids: Sequence[str]) -> list[str]:
    """Nine steps of ten minutes are more than any story has."""
    states: list[str] = []
    for _ in range(90):
        found = [await gateway.ledger.find_exchange(each) for each in ids]
        states = [each.state if each else "missing" for each in found]
        if set(states) == {"over"}:
            break
        await anyio.sleep(60)
    await anyio.sleep(
        60
    )  # what is still on its way to a chat arrives, and so does one run too many
    return states


def wrong(turns_max: int, told: Sequence[Story], seen: Seen) -> list[Any]:
    """Where the gateway and the specification differ."""
    found: list[Any] = []
    for number, story in enumerate(told):
        what = expected(turns_max, story)
        assert what is not None
        runs = len(seen.runs[number])
        posted = ["words"] if what.posted else []
        facts = (runs, seen.asked[number], seen.chats[number], seen.states[number])
        if facts != (what.runs, what.runs, posted, "over") or runs > 1 + turns_max + 1:
            found.append((turns_max, story, facts, what))
    return [*found, *seen.page.tokens]

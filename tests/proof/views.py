"""One caller in one world under one setting: everything it may ask, and what it must be told."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from crossclaw.config.current import CurrentConfig
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.ids import RandomIds
from crossclaw.domain.keys import SessionKey
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import session_principal
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.door.resolver import Resolver
from crossclaw.policy.credentials import Credentials
from crossclaw.policy.send import BLOCKED
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.feed import Feed
from crossclaw.runs.lanes import Lanes
from crossclaw.runs.run_store import RunStore
from crossclaw.runs.slots import Slots
from crossclaw.runs.waits import Waits
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.reading import HistoryParams, SessionReading, SessionsListParams
from crossclaw.sessions.run_builder import RunBuilder
from crossclaw.sessions.send import Sends, SendToolParams
from tests.proof.oracle import Node, may_reach, may_see
from tests.proof.worlds import ABSENT, NOWHERE, Place, Setting

Answer = tuple[Any, ...]
Case = tuple[str, Answer, Answer]
"""What was asked, what was answered, what should have been."""

SELF = ("Invalid", "a session cannot send to itself; answer in your own reply instead")


class Forgetful:
    """Refusals are audited by other tests; here a disk write each would be most of the time."""

    async def do(self, op: Any) -> None:
        pass


def open_door(ledger: Any, setting: Setting) -> Door:
    config, clock = setting.config(), SystemClock()
    resolver = Resolver(ledger, config)
    run_store = RunStore(ledger, Feed(), clock, "nobody")
    builder, nothing = RunBuilder(config, clock, RandomIds()), cast(Any, None)
    intake = Intake(
        builder, run_store, resolver, Lanes(run_store, Slots(), clock), nothing, nothing
    )
    waits = Waits(ledger, run_store, Slots(), clock)
    sends = Sends(intake, resolver, run_store, waits, builder)
    context = ServiceContext(
        CurrentConfig.of(config), ledger, Feed(), clock, RandomIds(), Credentials()
    )
    reading = SessionReading(
        context,
        resolver,
        lambda agent, chosen: "m",
        lambda agent, name, compressed: Path(name),
    )
    methods: list[tuple[str, Any, Callable[[Caller, Any], Awaitable[Any]]]] = [
        ("sessions_list", SessionsListParams, reading.list),
        ("sessions_history", HistoryParams, reading.history),
        ("sessions_send", SendToolParams, sends.send),
    ]
    registry = Registry(
        Method(
            name=n, params=p, result=Any, scope="operator.read", effect="read", handle=h, summary=n
        )
        for n, p, h in methods
    )
    audit: Any = Forgetful()
    return Door(registry, audit, clock, Credentials())


class View:
    def __init__(
        self, door: Door, nodes: list[Node], there: list[Place], me: int, setting: Setting
    ) -> None:  # fmt: skip
        self.nodes, self.there, self.me, self.setting = nodes, there, me, setting
        self._door = door
        mine = there[me].key
        roots = frozenset({there[0].key.text}) if setting.rooted else None
        self.boxed = setting.box in ("run", "all") or (
            setting.box == "non-main" and not mine.text.endswith(":main")
        )
        authority = Authority(sandboxed=setting.box == "run", roots=roots)
        self._caller = Caller(principal=session_principal(mine, authority))

    def sees(self, it: int, nodes: list[Node] | None = None) -> bool:
        setting = self.setting
        return may_see(
            nodes or self.nodes, self.me, it, a2a=setting.a2a, boxed=self.boxed, shows=setting.shows,
            mode=setting.mode, root=0 if setting.rooted else None,
        )  # fmt: skip

    async def ask(self, tool: str, **params: Any) -> Answer:
        try:
            answer = await self._door.dispatch(self._caller, tool, params)
        except CrossclawError as error:
            return type(error).__name__, str(error)
        return ("ok", msgspec.to_builtins(answer))

    async def cases(self) -> AsyncIterator[Case]:
        async for case in self._lists():
            yield case
        for tool in ("sessions_history", "sessions_send"):
            async for case in self._by_name(tool):
                yield case
        async for case in self._by_label():
            yield case
        async for case in self._mains():
            yield case

    # ── lists ──────────────────────────────────────────────────────────────────────────────────

    async def _lists(self) -> AsyncIterator[Case]:
        seen = [n for n, node in enumerate(self.nodes) if self.sees(n) and not node.archived]
        rows = [self._row(n) for n in sorted(seen, key=lambda n: -self.there[n].at)]
        yield "list", await self._listed(messageLimit=1), ("rows", len(rows), rows)
        yield (
            "list 1",
            await self._listed(messageLimit=1, limit=1),
            ("rows", len(rows[:1]), rows[:1]),
        )
        mains = [row for row in rows if row[0].endswith("main")]
        asked = await self._listed(messageLimit=1, kinds=["main"])
        yield "list mains", asked, ("rows", len(mains), mains)

    async def _listed(self, **params: Any) -> Answer:
        _, answer = await self.ask("sessions_list", **params)
        rows = [
            (row["key"], row["messages"][0]["content"], "transcriptPath" in row)
            for row in answer["sessions"]
        ]
        return "rows", answer["count"], rows

    def _row(self, n: int) -> tuple[str, str, bool]:
        return self._shown(self.there[n].key), f"node {n}", not self.boxed

    def _shown(self, key: SessionKey) -> str:
        own = self.nodes[self.me].agent
        return "main" if key.text == f"agent:{own}:main" else key.text

    # ── by key and by session id ───────────────────────────────────────────────────────────────

    async def _by_name(self, tool: str) -> AsyncIterator[Case]:
        more = {"message": "x"} if tool == "sessions_send" else {}
        unknown = await self.ask(tool, sessionKey=NOWHERE, **more)
        yield f"{tool} nowhere", unknown, ("NotFound", f"unknown session: {NOWHERE}")
        absent = {
            each: await self.ask(tool, sessionKey=ABSENT.format(each), **more) for each in "ab"
        }
        for n, node in enumerate(self.nodes):
            place = self.there[n]
            like = (absent[node.agent], ABSENT.format(node.agent))
            names = [(place.key.text, like)]
            if self._shown(place.key) == "main":
                names.append(("main", like))
            ids = (place.session_id, place.session_id.upper())
            names += [(each, (unknown, NOWHERE)) for each in ids]
            for name, (refusal, of) in names:
                expected = self._told(tool, n) or _as_if(refusal, of, name)
                answer = _brief(await self.ask(tool, sessionKey=name, **more))
                yield f"{tool} {name}", answer, expected
        yield f"{tool} absent", absent["a"], self._absent("a")
        yield f"{tool} absent", absent["b"], self._absent("b")

    def _absent(self, agent: str) -> Answer:
        if not may_reach(self.setting.a2a, self.nodes[self.me], Node(agent, None)):
            return ("Forbidden",)
        return "NotFound", f"unknown session: {ABSENT.format(agent)}"

    def _told(self, tool: str, n: int) -> Answer | None:
        """What somebody who sees the session is told; None: as if it were not there."""
        if not self.sees(n):
            return None
        if tool == "sessions_history":
            return "history", self._shown(self.there[n].key), [f"node {n}"]
        if self.nodes[n].archived:
            return None
        return SELF if n == self.me else ("blocked", self._shown(self.there[n].key))

    # ── by label and by agent ──────────────────────────────────────────────────────────────────

    async def _by_label(self) -> AsyncIterator[Case]:
        for agent in (None, "a", "b"):
            given = {"agentId": agent} if agent else {}
            refusal = await self.ask("sessions_send", label="nothing", message="x", **given)
            for label in sorted({place.label for place in self.there}):
                asked = await self.ask("sessions_send", label=label, message="x", **given)
                expected = self._of_label(label, agent) or _as_if(refusal, "nothing", label)
                yield f"send label {label} of {agent}", _brief(asked), expected

    def _of_label(self, label: str, agent: str | None) -> Answer | None:
        if agent and not may_reach(self.setting.a2a, self.nodes[self.me], Node(agent, None)):
            return None
        found = [
            n
            for n, node in enumerate(self.nodes)
            if self.there[n].label == label and agent in (None, node.agent)
            and self.sees(n) and not node.archived
        ]  # fmt: skip
        if len(found) < 2:
            return self._told("sessions_send", found[0]) if found else None
        return "several", sorted(self._shown(self.there[n].key) for n in found)

    async def _mains(self) -> AsyncIterator[Case]:
        """An agent's main session by its agent's id, there or not yet, and of agents that are not."""
        for agent in "ab":
            refusal = await self.ask("sessions_send", sessionKey=ABSENT.format(agent), message="x")
            answer = _brief(await self.ask("sessions_send", agentId=agent, message="x"))
            key = SessionKey.main(agent)
            expected = self._of_main(key) or _as_if(refusal, ABSENT.format(agent), key.text)
            yield f"send to agent {agent}", answer, expected
        if self.setting.a2a == "any" and (
            self._narrow or (self.boxed and self.setting.shows == "spawned")
        ):
            answer = await self.ask("sessions_send", agentId="zz", message="x")
            yield "send to agent zz", answer, ("NotFound", "unknown session: agent:zz:main")

    @property
    def _narrow(self) -> bool:
        return self.setting.mode != "all" or self.setting.rooted

    def _of_main(self, key: SessionKey) -> Answer | None:
        at = next((n for n, place in enumerate(self.there) if place.key == key), None)
        if at is not None:
            return self._told("sessions_send", at)
        imagined = [*self.nodes, Node(key.agent_id, None)]
        return ("blocked", self._shown(key)) if self.sees(len(self.nodes), imagined) else None


def _as_if(refusal: Answer, of: str, name: str) -> Answer:
    """The answer about something that is not there, had it been asked by this name."""
    return refusal[0], refusal[1].replace(of, name)


def _brief(answer: Answer) -> Answer:
    if answer[0] == "Invalid" and answer[1].startswith("several sessions"):
        return "several", sorted(answer[1].partition(": ")[2].partition(";")[0].split(", "))
    if answer[0] != "ok":
        return answer
    told = answer[1]
    if "messages" in told:
        return "history", told["sessionKey"], [each["content"] for each in told["messages"]]
    assert told["error"] == BLOCKED
    return "blocked", told["sessionKey"]


def agrees(answer: Answer, expected: Answer) -> bool:
    """A refusal by the spelling may use its own words, as long as they are always the same ones."""
    return answer == expected or (expected == ("Forbidden",) and answer[0] == "Forbidden")

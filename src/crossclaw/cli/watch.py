"""`watch`: who talks to whom, live, a line an event."""

import contextlib
from datetime import datetime
from typing import Any, NamedTuple

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    Command,
    Parser,
    gateway_options,
    json_option,
    positive,
)
from crossclaw.cli.lasting import LastingPeer, ask_lasting
from crossclaw.cli.peer import READ, Event, Peer, Unreachable
from crossclaw.cli.say import cleaned, dimmed, note, out
from crossclaw.display.conversation import message_text, progress_line
from crossclaw.domain.exchanges import is_silent

ROUTE_CHARS = 40
WORDS_CHARS_MAX = 100  # one line on a wide terminal
RUNS_REMEMBERED = 10_000  # between their beginning and their end
_MORE = """  crossclaw watch                  everything
  crossclaw watch librarian send   lines with both words
A gateway that is started again is followed again. Ctrl-C ends it."""


class Line(NamedTuple):
    at: int
    route: str
    what: str
    words: str = ""

    @property
    def text(self) -> str:
        clock = datetime.fromtimestamp(self.at / 1000).astimezone().strftime("%H:%M:%S")
        return (
            f"{dimmed(clock)}  {self.route:<{ROUTE_CHARS}}  {self.what:<10}  {self.words}".rstrip()
        )

    def has(self, words: list[str]) -> bool:
        text = f"{self.route} {self.what} {self.words}".lower()
        return all(word.lower() in text for word in words)


def _arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="only lines that have them all")
    parser.add_argument("--lines", type=positive, metavar="N", help="end after so many lines")
    json_option(parser)
    gateway_options(parser, timeout=False)


def _watch(arguments: Arguments) -> int:
    return ask_lasting(arguments, READ, work=lambda peer: _watch_on(peer, arguments), embed=False)


async def _watch_on(peer: LastingPeer, arguments: Arguments) -> int:
    """Over any number of connections: as long as the gateway comes back it is followed."""
    watcher, shower = Watcher(peer), Shower(arguments)
    while not await _follow(peer, watcher, shower):
        await peer.renew()
    return Exit.OK


async def _follow(peer: Peer, watcher: "Watcher", shower: "Shower") -> bool:
    """Whether all that was wanted has been shown; else the connection was lost."""
    with contextlib.suppress(Unreachable), peer.listen() as events:
        await peer.call("sessions.subscribe", {})
        if watcher.has_begun:
            missed = await watcher.arrived()
        else:
            missed = []
            for line in await watcher.begin():
                note(line.text)
            note(f"watching {peer.place}; Ctrl-C ends it")
        if shower.show(missed):
            return True
        async for event in events:
            if shower.show(await watcher.hear(event)):
                return True
    return False


class Shower:
    """Shows the lines that are wanted, as many as are wanted."""

    def __init__(self, arguments: Arguments) -> None:
        self._words: list[str] = arguments.words
        self._as_json: bool = arguments.json
        self._left: int | None = arguments.lines

    def show(self, lines: list[Line]) -> bool:
        """Whether that was the last one."""
        for line in lines:
            if not line.has(self._words):
                continue
            _show(line, as_json=self._as_json)
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    return True
        return False


def _show(line: Line, *, as_json: bool) -> None:
    if as_json:
        import json  # noqa: PLC0415

        out(json.dumps(line._asdict(), ensure_ascii=False))
    else:
        out(line.text)


class Watcher:
    """Turns events into lines. Who brought a run about is asked of the map: events do not say."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._cursor = 0
        self._began: dict[str, int] = {}
        self.has_begun = False

    async def begin(self) -> list[Line]:
        """What is under way already."""
        seen = await self._peer.call("map.get", {})
        self._cursor, self.has_begun = seen["cursor"], True
        return [_arrived(run) for run in seen["open"]]

    async def hear(self, event: Event) -> list[Line]:
        payload = event.payload
        if event.name == "agent" and payload.get("stream") == "lifecycle":
            return await self._lifecycle(payload)
        if event.name == "agent" and payload.get("stream") == "tool":
            return _tool(payload)
        if event.name == "chat" and payload.get("state") in ("final", "error", "aborted"):
            return [*await self.arrived(), self._ended(payload)]
        return []

    async def _lifecycle(self, payload: dict[str, Any]) -> list[Line]:
        if payload["data"].get("phase") == "start":
            self._began[payload["runId"]] = payload["data"].get("startedAt") or payload["ts"]
            if len(self._began) > RUNS_REMEMBERED:
                del self._began[next(iter(self._began))]
            return await self.arrived()
        return []

    async def arrived(self) -> list[Line]:
        """The runs that came since the last look, also those of a time without a connection."""
        seen = await self._peer.call("map.get", {"after": self._cursor})
        self._cursor = seen["cursor"]
        return [_arrived(run) for run in seen["runs"]]

    def _ended(self, payload: dict[str, Any]) -> Line:
        state = payload["state"]
        words = message_text(payload.get("message"))
        at = (payload.get("message") or {}).get("timestamp") or _now_ms()
        began = self._began.pop(payload["runId"], None)
        took = f"{(at - began) / 1000:.1f} s  " if began is not None else ""
        told = payload.get("errorMessage") or ("(silence)" if is_silent(words) else f"“{words}”")
        return Line(at, short_key(payload["sessionKey"]), _STATES[state], took + _one_line(told))


_STATES = {"final": "answered", "error": "failed", "aborted": "stopped"}


def _arrived(run: dict[str, Any]) -> Line:
    kind, source, own = run["kind"], run.get("source"), short_key(run["key"])
    if kind == "announce":  # it is asked by nobody: the session tells its own chat
        return Line(run["createdAt"], own, "announces")
    begun_by = kind if kind in ("cron", "hook", "node") else "a person"
    return Line(run["createdAt"], f"{short_key(source) if source else begun_by} → {own}", kind)


def _tool(payload: dict[str, Any]) -> list[Line]:
    data = payload["data"]
    if data.get("phase") == "result" and not data.get("isError"):
        return []
    failed = data.get("phase") == "result"
    words = (
        f"{data.get('name')} failed" if failed else progress_line(data["name"], data.get("args"))
    )
    return [Line(payload["ts"], short_key(payload["sessionKey"]), "tool", words)]


def short_key(key: str) -> str:
    """`agent:main:main` is main; `agent:main:desk` is main:desk."""
    parts = key.split(":")
    if parts[0] != "agent" or len(parts) < 3:
        return key
    return parts[1] if parts[2:] == ["main"] else ":".join(parts[1:])


def _one_line(text: str) -> str:
    line = cleaned(" ".join(text.split()))
    return line if len(line) <= WORDS_CHARS_MAX else line[: WORDS_CHARS_MAX - 1] + "…"


def _now_ms() -> int:
    return int(datetime.now().astimezone().timestamp() * 1000)


COMMANDS = {"watch": Command(_arguments, _watch, _MORE)}

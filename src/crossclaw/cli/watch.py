"""`watch`: who talks to whom, live, a line an event."""

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
from crossclaw.cli.peer import READ, Event, Peer, Unreachable
from crossclaw.cli.running import ask
from crossclaw.cli.say import cleaned, dimmed, note, out
from crossclaw.display.conversation import message_text, progress_line
from crossclaw.domain.exchanges import is_silent

ROUTE_CHARS = 40
WORDS_CHARS_MAX = 100  # one line on a wide terminal
RUNS_REMEMBERED = 10_000  # between their beginning and their end
_MORE = """  crossclaw watch                  everything
  crossclaw watch librarian send   lines with both words
Ctrl-C ends it."""


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
    return ask(arguments, READ, work=lambda peer: _follow(peer, arguments), embed=False)


async def _follow(peer: Peer, arguments: Arguments) -> int:
    with peer.listen() as events:
        await peer.call("sessions.subscribe", {})
        watcher = Watcher(peer)
        shown = 0
        for line in await watcher.begin():
            note(line.text)
        note(f"watching {peer.place}; Ctrl-C ends it")
        async for event in events:
            for line in await watcher.hear(event):
                if not line.has(arguments.words):
                    continue
                _show(line, as_json=arguments.json)
                shown += 1
                if shown == arguments.lines:
                    return Exit.OK
    raise Unreachable("the gateway went away", hint="crossclaw watch follows it again")


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

    async def begin(self) -> list[Line]:
        """What is under way already."""
        seen = await self._peer.call("map.get", {})
        self._cursor = seen["cursor"]
        return [_arrived(run) for run in seen["open"]]

    async def hear(self, event: Event) -> list[Line]:
        payload = event.payload
        if event.name == "agent" and payload.get("stream") == "lifecycle":
            return await self._lifecycle(payload)
        if event.name == "agent" and payload.get("stream") == "tool":
            return _tool(payload)
        if event.name == "chat" and payload.get("state") in ("final", "error", "aborted"):
            return [*await self._new(), self._ended(payload)]
        return []

    async def _lifecycle(self, payload: dict[str, Any]) -> list[Line]:
        if payload["data"].get("phase") == "start":
            self._began[payload["runId"]] = payload["data"].get("startedAt") or payload["ts"]
            if len(self._began) > RUNS_REMEMBERED:
                del self._began[next(iter(self._began))]
            return await self._new()
        return []

    async def _new(self) -> list[Line]:
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

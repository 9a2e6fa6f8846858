"""`watch`: who talks to whom, live, a line an event."""

import re
from datetime import datetime
from typing import Any, NamedTuple

from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    gateway_options,
    json_option,
    positive,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import dimmed, in_one_line, json_text, note, out, out_json_text
from crossclaw.cli.tables import beginning, terminal_columns
from crossclaw.client.peer import MISSED, READ, Event, GatewayPeer
from crossclaw.display.columns import GAP, padded, width
from crossclaw.display.conversation import message_text, progress_line
from crossclaw.domain.exchanges import is_silent
from crossclaw.domain.newest import keep_newest
from crossclaw.domain.texts import with_ellipsis

ROUTE_CHARS, ROUTE_CHARS_MIN = 40, 12
VERB_CHARS = 10
WORDS_CHARS_MIN = 8  # fewer say nothing: on a very narrow terminal there are none
_CLOCK_CHARS = 10  # with the gap behind it
WORDS_CHARS_MAX = 100  # one line on a wide terminal
RUNS_REMEMBERED = 10_000  # between their beginning and their end; as many names of sessions
_MORE = """  crossclaw watch                  everything
  crossclaw watch librarian send   lines with both words
A gateway that is started again is followed again. Ctrl-C ends it."""


class WatchLine(NamedTuple):
    """One event in the words that people read, and beside them the fields that programs want."""

    at: int
    route: str
    what: str
    words: str = ""
    event: str = ""
    """arrived, tool, ended or message: words that came without a run, as a sub-agent's report."""
    key: str = ""
    run_id: str | None = None
    kind: str | None = None
    source: str | None = None
    """The key of a session; or person, cron, hook, node."""
    status: str | None = None
    duration_ms: int | None = None
    text: str | None = None
    """The whole text."""

    def shown(self, at: int) -> str:
        route, what, words = (
            " ".join(each.split()) for each in (self.route, self.what, self.words)
        )
        columns = terminal_columns()
        wide = min(ROUTE_CHARS, max(ROUTE_CHARS_MIN, columns // 3))
        verb = padded(what, VERB_CHARS)
        left = columns - _CLOCK_CHARS - wide - width(verb) - 2 * len(GAP)
        words = beginning(words, left) if left >= WORDS_CHARS_MIN else ""
        route = padded(beginning(route, wide), wide)
        return GAP.join([dimmed(_clock(at)), route, verb, words]).rstrip()

    def as_json(self) -> dict[str, Any]:
        fields = self._asdict()
        fields |= {"runId": fields.pop("run_id"), "durationMs": fields.pop("duration_ms")}
        return fields | {"from": fields.pop("source"), "to": self.key}

    def has(self, words: list[str]) -> bool:
        text = f"{self.route} {self.what} {self.words} {self.key} {self.source}".lower()
        return all(word.lower() in text for word in words)


def _arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="only lines that have them all")
    parser.add_argument("--lines", type=positive, metavar="N", help="end after so many lines")
    json_option(parser)
    gateway_options(parser, timeout=False)


def _watch(arguments: Arguments) -> int:
    def tell(text: str) -> None:
        note(f"{_clock(_now_ms())}  {text}")

    return ask(
        arguments,
        READ,
        work=lambda peer: _watch_on(peer, arguments),
        embed=False,
        lasting=True,
        tell=tell,
    )


async def _watch_on(peer: GatewayPeer, arguments: Arguments) -> int:
    """Watches over any number of connections: as long as the gateway comes back it is followed."""
    watcher, printer = Watcher(peer), LinePrinter(arguments)
    with peer.listen() as events:
        await peer.call("sessions.subscribe", {}, repeat=True)
        for line in await watcher.begin():
            note(line.shown(line.at))
        note(f"watching {peer.place}; Ctrl-C ends it")
        async for event in events:
            if event.name == MISSED:
                await peer.call("sessions.subscribe", {}, repeat=True)
                lines = await watcher.arrived()
            else:
                lines = await watcher.on_event(event)
            if printer.show(lines):
                break
    return Exit.OK


class LinePrinter:
    """Shows the lines that are wanted, as many as are wanted."""

    def __init__(self, arguments: Arguments) -> None:
        self._words: list[str] = arguments.words
        self._as_json: bool = arguments.json
        self._left: int | None = arguments.lines
        self._latest = 0

    def show(self, lines: list[WatchLine]) -> bool:
        """Shows lines; returns whether that was the last one."""
        for line in lines:
            if not line.has(self._words):
                continue
            self._show(line)
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    return True
        return False

    def _show(self, line: WatchLine) -> None:
        if self._as_json:
            out_json_text(json_text(line.as_json()))
            return
        # What is heard of late is shown by the time of the line before: no clock runs backwards.
        self._latest = max(self._latest, line.at)
        out(line.shown(self._latest))


class Watcher:
    """Turns events into lines. The cause of a run is read from the map: events do not name it."""

    def __init__(self, peer: GatewayPeer) -> None:
        self._peer = peer
        self._cursor = 0
        self._began: dict[str, int] = {}
        self._kinds: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._standings: dict[str, dict[str, Any]] = {}
        self._shown: dict[str, bool] = {}
        """Runs whose arrival was shown, or that were there before: where several gateways write, `map.get`
        repeats those of the last moments."""

    async def begin(self) -> list[WatchLine]:
        """The lines of what is under way already."""
        seen = await self._peer.call("map.get", {}, repeat=True)
        self._cursor = seen["cursor"]
        lines = self._learn(seen, seen["open"])
        for run in seen["runs"]:
            _remember(self._shown, run["runId"], True)
        return lines

    async def on_event(self, event: Event) -> list[WatchLine]:
        payload = event.payload
        if event.name == "agent" and payload.get("stream") == "lifecycle":
            return await self._lifecycle(payload)
        if event.name == "agent" and payload.get("stream") == "tool":
            return self._tool(payload)
        if event.name == "chat" and payload.get("state") in ("final", "error", "aborted"):
            return [*await self.arrived(), self._ended(payload)]
        return []

    async def _lifecycle(self, payload: dict[str, Any]) -> list[WatchLine]:
        if payload["data"].get("phase") == "start":
            began = payload["data"].get("startedAt") or payload["ts"]
            _remember(self._began, payload["runId"], began)
            return await self.arrived()
        if standing := payload["data"].get("standing"):
            _remember(self._standings, payload["runId"], standing)
        return []

    async def arrived(self) -> list[WatchLine]:
        """The lines of runs that came since the last look, also those of a time without a connection."""
        seen = await self._peer.call("map.get", {"after": self._cursor}, repeat=True)
        self._cursor = seen["cursor"]
        return self._learn(seen, seen["runs"])

    def _learn(self, seen: dict[str, Any], runs: list[dict[str, Any]]) -> list[WatchLine]:
        for row in seen["nodes"]:
            if name := row.get("label") or row.get("displayName"):
                _remember(self._names, row["key"], in_one_line(name))
        new = [run for run in runs if run["runId"] not in self._shown]
        for run in new:
            _remember(self._shown, run["runId"], True)
            _remember(self._kinds, run["runId"], run["kind"])
        return [self._arrived(run) for run in new]

    def _short(self, key: str) -> str:
        """The session's name in place of a number that nobody can read."""
        name = self._names.get(key)
        return _ID.sub(lambda _: name, short_key(key), 1) if name else short_key(key)

    def _ended(self, payload: dict[str, Any]) -> WatchLine:
        state, run_id, key = payload["state"], payload["runId"], payload["sessionKey"]
        words = message_text(payload.get("message"))
        at = (payload.get("message") or {}).get("timestamp") or _now_ms()
        standing = self._standings.pop(run_id, {})
        reason = standing.get("why") or payload.get("errorMessage")
        text = reason or ("(silence)" if is_silent(words) else f"“{words}”")
        if run_id.startswith(_WITHOUT_RUN):
            quoted = _one_line(text)
            return WatchLine(at, self._short(key), "receives", quoted, "message", key, text=words)
        began = self._began.pop(run_id, None)
        took_ms = None if began is None else at - began
        took = "" if took_ms is None else f"{took_ms / 1000:.1f} s  "
        return WatchLine(
            at,
            self._short(key),
            standing.get("name") or _STATES[state],
            took + _one_line(text),
            event="ended",
            key=key,
            run_id=run_id,
            kind=self._kinds.pop(run_id, None),
            status=_STATUSES[state],
            duration_ms=took_ms,
            text=payload.get("errorMessage") or words,
        )

    def _arrived(self, run: dict[str, Any]) -> WatchLine:
        kind, source, own = run["kind"], run.get("source"), self._short(run["key"])
        begun_by = kind if kind in ("cron", "hook", "node") else "person"
        route = f"{self._short(source) if source else _BEGUN.get(begun_by, begun_by)} → {own}"
        announces = kind == "announce"  # asked by nobody: the session tells its own chat
        return WatchLine(
            run["createdAt"],
            own if announces else route,
            "announces" if announces else kind,
            event="arrived",
            key=run["key"],
            run_id=run["runId"],
            kind=kind,
            source=source or begun_by,
            status=run["status"],
        )

    def _tool(self, payload: dict[str, Any]) -> list[WatchLine]:
        data, key = payload["data"], payload["sessionKey"]
        failed, standing = data.get("phase") == "result", data.get("standing") or {}
        if data.get("phase") == "update" or (failed and not (data.get("isError") or standing)):
            return []
        name = data["name"]
        why = f": {_one_line(standing['why'])}" if standing.get("why") else ""
        words = f"{name} failed{why}" if failed else progress_line(name, data.get("args"))
        return [
            WatchLine(
                payload["ts"],
                self._short(key),
                "tool",
                words,
                event="tool",
                key=key,
                run_id=payload["runId"],
                kind=self._kinds.get(payload["runId"]),
                status="error" if failed else "started",
                duration_ms=data.get("durationMs"),
                text=words,
            )
        ]


_STATES = {"final": "answered", "error": "failed", "aborted": "stopped"}
_STATUSES = {"final": "ok", "error": "error", "aborted": "aborted"}
_BEGUN = {"person": "a person"}
_WITHOUT_RUN = "inject-"  # so the gateway numbers words that came without a run
_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


def _remember(known: dict[str, Any], name: str, value: Any) -> None:
    keep_newest(known, name, value, RUNS_REMEMBERED)


def short_key(key: str) -> str:
    """A short key: `agent:main:main` is main; `agent:main:desk` is main:desk."""
    parts = key.split(":")
    if parts[0] != "agent" or len(parts) < 3:
        return key
    return parts[1] if parts[2:] == ["main"] else ":".join(parts[1:])


def _one_line(text: str) -> str:
    return with_ellipsis(in_one_line(text), WORDS_CHARS_MAX)


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).astimezone().strftime("%H:%M:%S")


def _now_ms() -> int:
    return int(datetime.now().astimezone().timestamp() * 1000)


COMMANDS = {"watch": CommandSpec(_arguments, _watch, _MORE)}

"""`trace`: all that followed from one message, tick or hook, as a tree with a time axis."""

import json
import re
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from msgspec import convert

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
)
from crossclaw.cli.naming import find_session
from crossclaw.cli.running import ask
from crossclaw.cli.say import coloured, dimmed, in_one_line, note, out, out_json
from crossclaw.cli.tables import terminal_columns
from crossclaw.cli.watch import short_key
from crossclaw.client.errors import CallRefused
from crossclaw.client.peer import READ, GatewayPeer
from crossclaw.domain.states import State
from crossclaw.domain.texts import with_ellipsis

_RED, _AMBER = "31", "33"
_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")  # nobody reads the rest of it
_BAR_CHARS = 32
_NAME_CHARS_MIN = 24
_MORE = """  crossclaw trace main                        what the newest run of a session is part of
  crossclaw trace RUN --json                  for programs
  crossclaw trace RUN --otlp http://127.0.0.1:4318/v1/traces     to a collector (extra otel)
  crossclaw trace RUN --otlp trace.json       as a file of OpenTelemetry
A bar of # is on the critical path: had it been faster, so had the whole."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("what", metavar="RUN|SESSION", help="a run, an exchange, or a session")
    parser.add_argument("--otlp", metavar="URL|FILE", help="export as OpenTelemetry instead")
    parser.add_argument("--failed", action="store_true", help="only what did not end well")
    asking_options(parser)


def _trace(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        name, tree = await _find(peer, arguments)
        if arguments.otlp:
            return await _export(peer, name, tree, arguments)
        if arguments.json:
            out_json(tree)
            return Exit.OK
        for line in lines(tree, only_failed=arguments.failed, columns=terminal_columns()):
            out(line)
        if tree.get("truncated"):
            note("there is more of it than is shown")
        return Exit.OK

    return ask(arguments, READ, work=work)


async def _find(peer: GatewayPeer, arguments: Arguments) -> tuple[str, dict[str, Any]]:
    """The trace of a name as it was typed; else of the session that it names."""
    name, timeout_s = arguments.what, arguments.timeout
    try:
        return name, await peer.call("trace.get", {"id": name}, timeout_s=timeout_s)
    except CallRefused:
        name = await find_session(peer, name)
        return name, await peer.call("trace.get", {"id": name}, timeout_s=timeout_s)


async def _export(peer: GatewayPeer, name: str, tree: dict[str, Any], arguments: Arguments) -> Exit:
    if arguments.otlp.startswith(("http://", "https://")):
        from crossclaw.gateway.otlp import send_trace  # noqa: PLC0415  heavy, and only here
        from crossclaw.sessions.tracing import TraceTree  # noqa: PLC0415

        sent = await run_sync(send_trace, convert(tree, TraceTree), arguments.otlp, {})
        out(f"{sent} spans sent to {arguments.otlp}")
        return Exit.OK
    answer = await peer.call("trace.export", {"id": name}, timeout_s=arguments.timeout)
    await run_sync(_write, Path(arguments.otlp), json.dumps(answer, indent=1))
    out(f"written to {arguments.otlp}")
    return Exit.OK


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandFailed(f"{path} is there already", hint="name another file") from None


def lines(tree: dict[str, Any], *, only_failed: bool, columns: int) -> list[str]:
    start, end = tree["start"], tree.get("end") or tree["ts"]
    spans = tree["spans"]
    tokens = sum(s.get("tokensIn", 0) + s.get("tokensOut", 0) for s in spans)
    cost = sum(s.get("costUsd", 0.0) for s in spans)
    head = [
        f"“{in_one_line(tree['asked'])}”" if tree.get("asked") else tree["root"],
        dimmed(
            " · ".join(
                filter(
                    None,
                    (
                        _lasted(end - start) + ("" if tree.get("end") else " so far"),
                        _counted(tree.get("runs", 0), "run"),
                        f"{tokens:,} tokens",
                        f"${cost:.4f}" if cost else "",
                        f"{tree['failed']} failed" if tree.get("failed") else "",
                    ),
                )
            )
        ),
    ]
    shown = [span for span in spans if not only_failed or _bad(span)]
    longest = max((len(_indented(span)) for span in shown), default=0)
    wide = min(max(_NAME_CHARS_MIN, columns - _BAR_CHARS - 24), longest)
    return [*head, *(_line(span, start, max(1, end - start), wide) for span in shown)]


def _bad(span: dict[str, Any]) -> bool:
    return "standing" in span and convert(span["standing"], State).is_bad


def _line(span: dict[str, Any], start: int, whole: int, wide: int) -> str:
    begun, ended = span["start"], span.get("end")
    name = _indented(span)
    state = convert(span["standing"], State) if "standing" in span else None
    took = _lasted(ended - begun) if ended is not None else "…"
    text = f"{with_ellipsis(name, wide):<{wide}}  {_bar(span, start, whole)}  {took:>8}"
    if state is None:
        return text
    why = f": {in_one_line(state.why)}" if state.why else ""
    return f"{text}  " + coloured(
        with_ellipsis(f"{state.text}{why}", 60), _RED if state.is_bad else _AMBER
    )


def _indented(span: dict[str, Any]) -> str:
    deep: int = span.get("depth", 0)
    return "  " * deep + _name(span)


def _name(span: dict[str, Any]) -> str:
    name: str = in_one_line(span["name"])
    if span["kind"] == "run":
        who = _ID.sub(lambda found: found[0][:6], short_key(span["key"]))
        name = f"{who} · {name}"
    tokens = span.get("tokensIn", 0) + span.get("tokensOut", 0)
    return f"{name} ({tokens:,} tok)" if tokens else name


def _bar(span: dict[str, Any], start: int, whole: int) -> str:
    first = int((span["start"] - start) * _BAR_CHARS / whole)
    last = int(((span.get("end") or start + whole) - start) * _BAR_CHARS / whole)
    first = min(first, _BAR_CHARS - 1)
    length = max(1, min(last, _BAR_CHARS) - first)
    return (" " * first + ("#" if span.get("critical") else "-") * length).ljust(_BAR_CHARS)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _lasted(ms: float) -> str:
    if ms < 1000:
        return f"{ms:.0f} ms"
    return (
        f"{ms / 1000:.1f} s"
        if ms < 60_000
        else f"{ms // 60_000:.0f} min {ms % 60_000 / 1000:.0f} s"
    )


COMMANDS = {"trace": CommandSpec(_arguments, _trace, _MORE)}

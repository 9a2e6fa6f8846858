"""`sessions`: lists, reads, sends to, compacts, resets and deletes the conversations of a gateway."""

import sys
from collections.abc import Awaitable, Callable
from shlex import quote
from typing import Any

import anyio
from msgspec import convert

from crossclaw.cli.bars import at_work
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
    json_option,
    positive,
    seconds,
    session_asking_options,
)
from crossclaw.cli.naming import find_session, find_transcript
from crossclaw.cli.past import show_past, show_words
from crossclaw.cli.running import ask
from crossclaw.cli.say import ask_for_line, cleaned, note, out, out_json, problem
from crossclaw.cli.sheets import sheet
from crossclaw.cli.tables import ago, pairs, table
from crossclaw.client.history import read_history
from crossclaw.client.peer import ADMIN, READ, WRITE, GatewayPeer
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.counts import count_of
from crossclaw.domain.keys import CHILD, SessionKey
from crossclaw.domain.states import State
from crossclaw.domain.texts import short_count

_HEAD = ("session", "kind", "name", "state", "tokens", "updated")
_PAGE = 200  # rows of one call for the table
_SEND_S = 30.0  # as the tool sessions_send waits
_COMPACT_S = 40.0  # the gateway answers within 25, compacted or not
_SEND_EXITS = {"ok": Exit.OK, "accepted": Exit.OK, "timeout": Exit.TIMEOUT}


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    parser.add_argument("--active", type=positive, metavar="MIN", help="only of the last minutes")
    parser.add_argument("--limit", type=positive, default=50, help="at most so many (50)")
    parser.add_argument("--search", metavar="TEXT", help="in key, label, name and id")
    parser.add_argument("--archived", action="store_true", help="those that are archived")
    asking_options(parser)


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = {
            "limit": arguments.limit,
            "agentId": arguments.agent,
            "activeMinutes": arguments.active,
            "search": arguments.search,
        }
        given = {name: value for name, value in params.items() if value is not None}
        if arguments.archived:
            return await _list_archived(peer, given, arguments)
        if arguments.json:
            out_json(
                _with_kinds(await peer.call("sessions.list", given, timeout_s=arguments.timeout))
            )
        else:
            _show_table(await _table(peer, given, arguments.timeout), filtered=len(given) > 1)
        return Exit.OK

    return ask(arguments, READ, work=work)


async def _list_archived(peer: GatewayPeer, given: dict[str, Any], arguments: Arguments) -> int:
    if arguments.active:
        raise UsageError("--archived and --active exclude each other")
    answer = await _table(peer, given | {"archived": True}, arguments.timeout)
    if arguments.json:
        out_json(answer)
    elif not answer["rows"]:
        out("no session is archived")
    else:
        rows = [(row["key"], row.get("label"), row["archivedAt"]) for row in answer["rows"]]
        now = SystemClock().now_ms()
        out(table(("session", "label", "archived"), [(k, w, ago(at, now)) for k, w, at in rows]))
    return Exit.OK


async def _table(peer: GatewayPeer, wanted: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """The rows of the table, page by page until there are as many as wanted."""
    rows: list[dict[str, Any]] = []
    while True:
        params = wanted | {"limit": min(wanted["limit"] - len(rows), _PAGE), "offset": len(rows)}
        answer: dict[str, Any] = await peer.call("sessions.table", params, timeout_s=timeout_s)
        rows += answer["rows"]
        if not answer["rows"] or len(rows) >= wanted["limit"]:
            return answer | {"rows": rows}


def _with_kinds(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with kinds as the table and the page name them; on the wire OpenClaw's rows have others
    (`direct`)."""
    for row in answer["sessions"]:
        row["kind"] = CHILD if row.get("spawnedBy") else SessionKey.stored(row["key"]).kind
    return answer


def _show_table(answer: dict[str, Any], *, filtered: bool) -> None:
    rows, total = answer["rows"], answer["total"]
    if not rows:
        begin = 'no sessions yet; crossclaw message send "hello" begins one'
        out("no session is like that" if filtered else begin)
        return
    cells = [
        (
            row["key"],
            row["kind"],
            row.get("label") or row.get("displayName") or "",
            _state(row),
            short_count(row["tokens"]),
            ago(row["updatedAt"], answer["ts"]),
        )
        for row in rows
    ]
    out(table(_HEAD, cells))
    if total > len(rows):
        note(
            f"the newest {len(rows)} of {total}; --limit {total} shows all, --search TEXT finds one"
        )


def _state(row: dict[str, Any]) -> str:
    if row.get("unreadable"):
        return "unreadable"
    if row.get("agentGone"):
        return "agent gone"
    return convert(row.get("standing") or {"name": "idle"}, State).text


def _show(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        key = await find_session(peer, arguments.session)
        answer = await peer.call("sessions.describe", {"key": key}, timeout_s=arguments.timeout)
        row = answer.get("session") or {"key": key}
        if arguments.json:
            out_json(row)
            return Exit.OK
        listed = await peer.call("sessions.table", {"key": key, "limit": 1})
        line: dict[str, Any] = next(iter(listed["rows"]), {})
        state = _state(line) if line else "archived"
        out(pairs(sheet(row, line, state, listed["ts"])))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _history_arguments(parser: Parser) -> None:
    session_asking_options(parser)
    parser.add_argument("--limit", type=positive, default=50, help="the last so many (50)")
    parser.add_argument(
        "--before", type=positive, metavar="N", help="only what came before entry N"
    )
    parser.add_argument("--tools", action="store_true", help="with the results of tools")


def _history(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        named = await find_transcript(peer, arguments.session)
        answer = await read_history(
            peer, named, arguments.limit, before=arguments.before, timeout_s=arguments.timeout
        )
        if arguments.json:
            out_json(answer)
            return Exit.OK
        show_past(answer["messages"], tools=arguments.tools)
        if older := answer.get("older", 0):
            more = f"crossclaw sessions history {quote(arguments.session)} --before {older + 1}"
            note(f"\n{older} older entries are not shown: {more}")
        if not older and named != answer.get("sessionId"):
            await _note_earlier(peer, named)
        return Exit.OK

    return ask(arguments, READ, work=work)


async def _note_earlier(peer: GatewayPeer, key: str) -> None:
    """Notes the ids of transcripts that a reset has closed."""
    earlier: list[str] = []
    offset, more = 0, True
    while more:
        answer = await peer.call("sessions.transcripts", {"key": key, "offset": offset})
        rows, more = answer["transcripts"], answer.get("more", False)
        earlier += [row["sessionId"] for row in rows if row["entries"] and not row["current"]]
        offset += len(rows)
    if earlier:
        which = "the newest of them: " if len(earlier) > 1 else ""
        text = count_of(len(earlier), "earlier transcript")
        note(f"\n{text}: {which}crossclaw sessions history {cleaned(earlier[-1])}")


def _send_arguments(parser: Parser) -> None:
    parser.add_argument("session", nargs="?", help="key, session id, name or label")
    parser.add_argument("text", nargs="?", help="the message")
    parser.add_argument("--label", help="the session with this label, in place of its key")
    parser.add_argument("--agent", metavar="ID", help="that agent's main session")
    json_option(parser)
    gateway_options(parser, timeout=False)
    parser.add_argument(
        "--timeout", type=seconds, default=_SEND_S, metavar="S", help="0 does not wait (30)"
    )


def _send(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        params = await _target(peer, arguments) | {"timeoutSeconds": arguments.timeout}
        answer = await peer.call("sessions.send", params, timeout_s=arguments.timeout + 15)
        if arguments.json:
            out_json(answer)
        elif answer.get("reply"):
            show_words(answer["reply"])
        elif answer["status"] == "accepted":
            out(f"accepted as run {answer['runId']}")
        if answer.get("error") and not arguments.json:
            problem(answer["error"])
        return _SEND_EXITS.get(answer["status"], Exit.FAILED)

    return ask(arguments, READ, WRITE, work=work)


async def _target(peer: GatewayPeer, arguments: Arguments) -> dict[str, Any]:
    words = [word for word in (arguments.session, arguments.text) if word is not None]
    by_option = {"label": arguments.label, "agentId": arguments.agent}
    given = {name: value for name, value in by_option.items() if value}
    if len(words) != (1 if given else 2):
        raise UsageError(
            "say which session, and what",
            hint='Example: crossclaw sessions send agent:librarian:main "Which shelf?"',
        )
    if given:
        return given | {"message": words[0]}
    return {"sessionKey": await find_session(peer, words[0]), "message": words[1]}


def _reset(arguments: Arguments) -> int:
    return _change(
        arguments,
        "sessions.reset",
        lambda key: (
            f"{key} begins anew. The old transcript: crossclaw sessions export {quote(key)} --all-ids"
        ),
    )


def _delete_arguments(parser: Parser) -> None:
    session_asking_options(parser)
    parser.add_argument(
        "--yes", "-y", action="store_true", help="do not ask; without a terminal nobody is asked"
    )


def _delete(arguments: Arguments) -> int:
    asks = not arguments.yes and sys.stdin.isatty() and sys.stderr.isatty()
    return _change(
        arguments,
        "sessions.delete",
        lambda key: f"{key} is deleted",
        before=_sure if asks else None,
    )


async def _sure(key: str) -> None:
    ask_for_line(f"Delete {cleaned(key)} for good? [y/N] ")
    await anyio.wait_readable(sys.stdin.fileno())  # the connection is kept up meanwhile
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("Nothing was deleted.")


def _compact(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        key = await find_session(peer, arguments.session)
        with at_work(f"summarising older turns of {cleaned(key)}"):
            answer = await peer.call(
                "sessions.compact", {"key": key}, timeout_s=max(arguments.timeout, _COMPACT_S)
            )
        text = (
            f"{key} is compacted: its model sees the last {count_of(answer['kept'], 'entry', 'entries')} and a summary; "
            "the history stays whole"
            if answer["compacted"]
            else f"{key} was not compacted: {answer.get('reason')}"
        )
        out_json(answer) if arguments.json else out(cleaned(text))
        return Exit.OK

    return ask(arguments, READ, WRITE, ADMIN, work=work)


def _change(
    arguments: Arguments,
    method: str,
    done: Callable[[str], str],
    before: Callable[[str], Awaitable[None]] | None = None,
) -> int:
    async def work(peer: GatewayPeer) -> int:
        key = await find_session(peer, arguments.session)
        if before is not None:
            await before(key)
        answer = await peer.call(method, {"key": key}, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(done(key))
        return Exit.OK

    return ask(arguments, READ, WRITE, ADMIN, work=work)


def _fork_arguments(parser: Parser) -> None:
    session_asking_options(parser)
    parser.add_argument(
        "--at",
        metavar="ENTRY",
        help="the id of the last entry that it has; a message of yours is left out",
    )


def _fork(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        key = await find_session(peer, arguments.session)
        params = {"sessionKey": key} | ({"entryId": arguments.at} if arguments.at else {})
        answer = await peer.call("sessions.fork", params, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
        else:
            out(
                cleaned(
                    f"{answer['sessionKey']} goes on where {key} was; nothing of that is changed"
                )
            )
        return Exit.OK

    return ask(arguments, READ, WRITE, work=work)


COMMANDS = {
    "list": CommandSpec(_list_arguments, _list),
    "fork": CommandSpec(_fork_arguments, _fork),
    "show": CommandSpec(session_asking_options, _show),
    "history": CommandSpec(_history_arguments, _history),
    "send": CommandSpec(_send_arguments, _send),
    "compact": CommandSpec(session_asking_options, _compact),
    "reset": CommandSpec(session_asking_options, _reset),
    "delete": CommandSpec(_delete_arguments, _delete),
}

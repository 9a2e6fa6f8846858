"""`sessions`: the conversations of a gateway, listed, read, sent to, compacted, reset and deleted."""

from typing import Any

from crossclaw.cli.bars import at_work
from crossclaw.cli.exits import Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    Command,
    Parser,
    gateway_options,
    json_option,
    positive,
    seconds,
)
from crossclaw.cli.naming import find_session
from crossclaw.cli.past import show_past, show_words
from crossclaw.cli.peer import ADMIN, READ, WRITE, Peer
from crossclaw.cli.running import ask
from crossclaw.cli.say import cleaned, out, out_json, problem
from crossclaw.cli.tables import ago, pairs, table
from crossclaw.domain.clock import SystemClock

_HEAD = ("session", "kind", "channel", "model", "tokens", "updated")
_TABLE_MAX = 200  # rows that sessions.table gives at once
_SEND_S = 30.0  # as the tool sessions_send waits
_COMPACT_S = 40.0  # the gateway answers within 25, compacted or not
_SEND_EXITS = {"ok": Exit.OK, "accepted": Exit.OK, "timeout": Exit.TIMEOUT}


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    parser.add_argument("--active", type=positive, metavar="MIN", help="only of the last minutes")
    parser.add_argument("--limit", type=positive, default=50, help="at most so many (50)")
    parser.add_argument("--search", metavar="TEXT", help="in key, label, name and id")
    parser.add_argument("--archived", action="store_true", help="those that were put away")
    json_option(parser)
    gateway_options(parser)


def _list(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        params = {
            "limit": arguments.limit,
            "agentId": arguments.agent,
            "activeMinutes": arguments.active,
            "search": arguments.search,
        }
        given = {name: value for name, value in params.items() if value is not None}
        if arguments.archived:
            return await _list_archived(peer, given, arguments)
        answer = await peer.call("sessions.list", given, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(_rows(answer))
        return Exit.OK

    return ask(arguments, READ, work=work)


async def _list_archived(peer: Peer, given: dict[str, Any], arguments: Arguments) -> int:
    if arguments.active:
        raise UsageError("--archived and --active exclude each other")
    params = given | {"archived": True, "limit": min(arguments.limit, _TABLE_MAX)}
    answer = await peer.call("sessions.table", params, timeout_s=arguments.timeout)
    if arguments.json:
        out_json(answer)
    elif not answer["rows"]:
        out("nothing is put away")
    else:
        rows = [(row["key"], row.get("label"), row["archivedAt"]) for row in answer["rows"]]
        now = SystemClock().now_ms()
        out(table(("session", "label", "put away"), [(k, w, ago(at, now)) for k, w, at in rows]))
    return Exit.OK


def _rows(answer: dict[str, Any]) -> str:
    if not answer["sessions"]:
        return 'no sessions yet; crossclaw message send "hello" begins one'
    rows = [
        (
            row["key"],
            row.get("kind"),
            row.get("channel") or row.get("lastChannel"),
            row.get("model"),
            row.get("totalTokens"),
            ago(row.get("updatedAt"), answer["ts"]),
        )
        for row in answer["sessions"]
    ]
    return table(_HEAD, rows)


def _one_arguments(parser: Parser) -> None:
    parser.add_argument("session", help="key, session id or name")
    json_option(parser)
    gateway_options(parser)


def _show(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        key = await find_session(peer, arguments.session)
        answer = await peer.call("sessions.describe", {"key": key}, timeout_s=arguments.timeout)
        row = answer.get("session") or {"key": key}
        told = {**row, "budget": row["budget"]["text"]} if row.get("budget") else row
        plain = [(name, value) for name, value in told.items() if not isinstance(value, list)]
        out_json(row) if arguments.json else out(pairs(plain))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _history_arguments(parser: Parser) -> None:
    _one_arguments(parser)
    parser.add_argument("--limit", type=positive, default=50, help="the last so many (50)")
    parser.add_argument("--tools", action="store_true", help="with the results of tools")


def _history(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        key = await find_session(peer, arguments.session)
        params = {"sessionKey": key, "limit": min(arguments.limit, 1000)}
        answer = await peer.call("chat.history", params, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
        else:
            show_past(answer["messages"], tools=arguments.tools)
        return Exit.OK

    return ask(arguments, READ, work=work)


def _send_arguments(parser: Parser) -> None:
    parser.add_argument("session", nargs="?", help="key, session id or name")
    parser.add_argument("text", nargs="?", help="the message")
    parser.add_argument("--label", help="the session with this label, in place of its key")
    parser.add_argument("--agent", metavar="ID", help="that agent's main session")
    json_option(parser)
    gateway_options(parser, timeout=False)
    parser.add_argument(
        "--timeout", type=seconds, default=_SEND_S, metavar="S", help="0 does not wait (30)"
    )


def _send(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
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


async def _target(peer: Peer, arguments: Arguments) -> dict[str, Any]:
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
    return _change(arguments, "sessions.reset", "begins anew; the old transcript stays")


def _delete(arguments: Arguments) -> int:
    return _change(arguments, "sessions.delete", "is deleted")


def _compact(arguments: Arguments) -> int:
    async def work(peer: Peer) -> int:
        key = await find_session(peer, arguments.session)
        with at_work(f"summarising older turns of {cleaned(key)}"):
            answer = await peer.call(
                "sessions.compact", {"key": key}, timeout_s=max(arguments.timeout, _COMPACT_S)
            )
        told = (
            f"{key} is compacted: its model sees the last {answer['kept']} entries and a summary; "
            "the history stays whole"
            if answer["compacted"]
            else f"{key} was not compacted: {answer.get('reason')}"
        )
        out_json(answer) if arguments.json else out(cleaned(told))
        return Exit.OK

    return ask(arguments, READ, WRITE, ADMIN, work=work)


def _change(arguments: Arguments, method: str, done: str) -> int:
    async def work(peer: Peer) -> int:
        key = await find_session(peer, arguments.session)
        answer = await peer.call(method, {"key": key}, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(f"{key} {done}")
        return Exit.OK

    return ask(arguments, READ, WRITE, ADMIN, work=work)


COMMANDS = {
    "list": Command(_list_arguments, _list),
    "show": Command(_one_arguments, _show),
    "history": Command(_history_arguments, _history),
    "send": Command(_send_arguments, _send),
    "compact": Command(_one_arguments, _compact),
    "reset": Command(_one_arguments, _reset),
    "delete": Command(_one_arguments, _delete),
}

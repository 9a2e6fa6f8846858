"""`attention`: what failed, hangs or needs approval, why, and what helps."""

from typing import Any

from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    gateway_options,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import coloured, dimmed, in_one_line, note, out, out_json
from crossclaw.cli.tables import ago
from crossclaw.cli.watch import short_key
from crossclaw.client.peer import ADMIN, READ, GatewayPeer

_RED = "31"
_MORE = """  crossclaw attention                  the list, the newest first
  crossclaw attention do 1 retry       what the first row offers
  crossclaw attention dismiss 1 2      put rows out of sight (or: all)
A failure leaves the list by itself when its session has answered since."""


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("attention.list", {}, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
            return Exit.OK
        for number, row in enumerate(answer["rows"], 1):
            out(shown_row(number, row, answer["ts"]))
        if not answer["rows"]:
            out("nothing needs your attention")
        elif answer["count"] > len(answer["rows"]):
            note(f"{answer['count'] - len(answer['rows'])} more are not shown")
        return Exit.OK

    return ask(arguments, READ, work=work)


def sentence(row: dict[str, Any]) -> str:
    """The row as one sentence; sessions by their short keys."""
    who = short_key(row["key"]) if row.get("key") else row.get("subject", "")
    other = short_key(row["other"]) if row.get("other") else ""
    return in_one_line(" ".join(filter(None, (who, row["what"], other))))


def shown_row(number: int, row: dict[str, Any], now_ms: float) -> str:
    lines = [
        f"{number:>3}  {coloured(sentence(row), _RED)}  {dimmed(str(ago(row['since'], now_ms)))}"
    ]
    if row.get("why"):
        lines.append(f"     because: {in_one_line(row['why'])}")
    if row.get("helps"):
        lines.append(f"     {in_one_line(row['helps'])}")
    offers = [f"crossclaw attention do {number} {_word(each)}" for each in row.get("actions", [])]
    if row.get("runId"):
        offers.append(f"crossclaw trace {row['runId']}")
    lines += [dimmed(f"     {each}") for each in offers]
    return "\n".join(lines)


def _word(action: dict[str, Any]) -> str:
    """The word to type for an action: `Send again` is send-again."""
    return str(action["label"]).lower().replace(" ", "-")


def _do_arguments(parser: Parser) -> None:
    parser.add_argument("row", help="its number in the list, or its id")
    parser.add_argument("action", nargs="?", help="what it offers; the first, when it is not said")
    gateway_options(parser)


def _do(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        row = _find(await _rows(peer, arguments), arguments.row)
        offered = {_word(each): each for each in row.get("actions", [])}
        wanted = arguments.action or next(iter(offered), None)
        if wanted not in offered:
            raise CommandFailed(
                f"this row offers {', '.join(offered) or 'nothing to do here'}, or to dismiss it"
            )
        action = offered[wanted]
        await peer.call(action["method"], action["params"], timeout_s=arguments.timeout)
        out(f"done: {action['label'].lower()} ({sentence(row)})")
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


def _dismiss_arguments(parser: Parser) -> None:
    parser.add_argument("rows", nargs="+", metavar="ROW", help="numbers in the list, ids, or all")
    gateway_options(parser)


def _dismiss(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        rows = await _rows(peer, arguments)
        chosen = (
            rows if arguments.rows == ["all"] else [_find(rows, each) for each in arguments.rows]
        )
        if not chosen:
            out("nothing needs your attention")
            return Exit.OK
        ids = [row["id"] for row in chosen]
        await peer.call("attention.dismiss", {"ids": ids}, timeout_s=arguments.timeout)
        out(f"{len(ids)} dismissed")
        return Exit.OK

    return ask(arguments, ADMIN, work=work)


async def _rows(peer: GatewayPeer, arguments: Arguments) -> list[dict[str, Any]]:
    answer = await peer.call("attention.list", {}, timeout_s=arguments.timeout)
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def _find(rows: list[dict[str, Any]], named: str) -> dict[str, Any]:
    for number, row in enumerate(rows, 1):
        if named in (str(number), row["id"]):
            return row
    raise CommandFailed(f"there is no row {named}", hint="crossclaw attention lists them")


COMMANDS = {
    "list": CommandSpec(asking_options, _list, _MORE),
    "do": CommandSpec(_do_arguments, _do),
    "dismiss": CommandSpec(_dismiss_arguments, _dismiss),
}

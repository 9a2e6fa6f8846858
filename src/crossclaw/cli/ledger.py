"""`ledger move`: moves a ledger from a file into PostgreSQL, or back."""

import time

from crossclaw.cli.bars import counted
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option
from crossclaw.cli.say import out, out_json
from crossclaw.domain.counts import count_of
from crossclaw.ledger.moving import Move, MoveReport
from crossclaw.ledger.opening import is_url, open_movable

_MORE = """Each is the path of a store (~/.openclaw/crossclaw.sqlite) or the address of a PostgreSQL database
(postgresql://user:password@host:5432/crossclaw). No gateway may use either meanwhile. The target must be empty; the
source is not changed. Killed in the middle, the same command goes on where it stopped. At the end every row of both is
read and compared."""


def _arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="from", help="the ledger that is moved")
    parser.add_argument("target", metavar="to", help="where it is moved to; it must be empty")
    json_option(parser)


def _move(arguments: Arguments) -> int:
    if not is_url(arguments.source) and not is_url(arguments.target):
        raise CommandFailed(
            "both are files: a ledger is moved between a file and a database",
            hint="crossclaw backup and crossclaw restore copy a file.",
        )
    began = time.monotonic()
    source = open_movable(arguments.source, is_source=True)
    try:
        target = open_movable(arguments.target)
        try:
            with counted("rows") as progress:
                report = Move(source, target, progress).run()
        finally:
            target.close()
    finally:
        source.close()
    _tell(report, arguments, time.monotonic() - began)
    return Exit.OK


def _tell(report: MoveReport, arguments: Arguments, took_s: float) -> None:
    if arguments.json:
        out_json({"rows": report.rows, "resumed": report.resumed})
        return
    rows = sum(report.rows.values())
    out(
        f"{count_of(rows, 'row')} in {count_of(len(report.rows), 'table')} moved and compared: "
        f"{count_of(report.rows['sessions'], 'session')}, {count_of(report.rows['entries'], 'entry', 'entries')}; "
        f"{took_s:.1f} s"
    )
    if is_url(arguments.target):
        out("Set ledger.url (or CROSSCLAW_LEDGER_URL) to that database, and start the gateway.")
    else:
        out("Take ledger.url out of the config, and start the gateway with that folder.")


COMMANDS = {"move": CommandSpec(_arguments, _move, _MORE)}

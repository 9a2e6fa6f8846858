"""`doctor`: checks everything that a gateway here needs, and says for each fault what to do."""

from typing import Any

import anyio

from crossclaw.cli.asking import ask_yes, is_somebody_there
from crossclaw.cli.channel_checks import chat_accounts, shared_session
from crossclaw.cli.checks import CHECKS, CHECKS_WITHOUT_CONFIG, Finding, Grade, look_at_config
from crossclaw.cli.database_check import database
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option
from crossclaw.cli.place import find_place, find_unread_place
from crossclaw.cli.repairs import Repair
from crossclaw.cli.say import coloured, note, out, out_json
from crossclaw.cli.sharing_check import sharing
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ConfigInvalid, CrossclawError

_MARKS: dict[Grade, str] = {"ok": "✓", "warning": "!", "error": "✗"}
_COLOURS: dict[Grade, str] = {"ok": "32", "warning": "33", "error": "31"}


def _arguments(parser: Parser) -> None:
    json_option(parser)
    parser.add_argument(
        "--models",
        action="store_true",
        help="ask the services too whether keys and models are good",
    )

    parser.add_argument("--fix", action="store_true", help="offer to do what is safe, one by one")
    parser.add_argument("--yes", action="store_true", help="with --fix: ask nothing (scripts)")


def _doctor(arguments: Arguments) -> int:
    if arguments.yes and not arguments.fix:
        raise UsageError("--yes belongs to --fix")
    findings = look_around()
    if arguments.fix:
        if not arguments.json:
            _show(findings)
        if _fix(findings, without_asking=arguments.yes):
            findings = look_around()
        elif not arguments.json:
            return _code(findings)
    if arguments.models:
        findings += _look_at_services()
    if arguments.json:
        out_json([_plain(finding) for finding in findings])
    else:
        _show(findings)
    return _code(findings)


def _code(findings: list[Finding]) -> int:
    return Exit.FAILED if any(f.grade == "error" for f in findings) else Exit.OK


def _show(findings: list[Finding]) -> None:
    out("\n".join(_line(finding) for finding in findings))
    out(_summary(findings))


def _plain(finding: Finding) -> dict[str, Any]:
    fields: dict[str, Any] = finding._asdict()
    return fields | {"repairs": [repair.command for repair in finding.repairs]}


def _fix(findings: list[Finding], *, without_asking: bool) -> bool:
    """Makes the repairs; returns whether anything was done."""
    repairs = [repair for finding in findings for repair in finding.repairs]
    asks = not without_asking and is_somebody_there()
    if not repairs:
        note("nothing here can be fixed by itself; what is left has its command beside it")
    elif not asks and not without_asking:
        note("nobody is there to be asked; crossclaw doctor --fix --yes does what is safe")
    done = [_try(repair, asks=asks) for repair in repairs] if asks or without_asking else []
    return any(done)


def _try(repair: Repair, *, asks: bool) -> bool:
    if repair.asks and not asks:
        note(f"left, because it is a guess that needs your yes: {repair.command}")
        return False
    if asks and not ask_yes(f"{repair.command} ?"):
        return False
    try:
        repair.do()
    except (CommandFailed, CrossclawError, OSError) as error:
        note(f"not done: {repair.command}: {error}")
        return False
    note(f"done: {repair.command}")
    return True


def _look_at_services() -> list[Finding]:
    """The findings of the models' services, which are asked over the network; that is free."""
    try:
        place = find_place()
    except ConfigInvalid:
        return []  # told already
    from crossclaw.cli.model_checks import look_at_models  # noqa: PLC0415  only where it is wanted

    return anyio.run(look_at_models, place)


def look_around() -> list[Finding]:
    findings = list(look_at_config())
    try:
        place, checks = find_place(), (*CHECKS, database, chat_accounts, shared_session, sharing)
    except ConfigInvalid:
        place, checks = find_unread_place(), CHECKS_WITHOUT_CONFIG
    for check in checks:
        findings += check(place)
    return findings


def _line(finding: Finding) -> str:
    mark = coloured(_MARKS[finding.grade], _COLOURS[finding.grade])
    todo = f"\n    → {finding.todo}" if finding.todo else ""
    more = finding.text.replace("\n", "\n  ")
    return f"{mark} {finding.subject}: {more}{todo}"


def _summary(findings: list[Finding]) -> str:
    errors = sum(finding.grade == "error" for finding in findings)
    warnings = sum(finding.grade == "warning" for finding in findings)
    if not errors and not warnings:
        return tr("All is well.")
    can = sum(len(finding.repairs) for finding in findings)
    counts = tr("{errors} to fix, {warnings} to look at.").format(errors=errors, warnings=warnings)
    return (
        f"{counts} {tr('crossclaw doctor --fix offers to do {count} of it.').format(count=can)}"
        if can
        else counts
    )


COMMANDS = {"doctor": CommandSpec(_arguments, _doctor)}

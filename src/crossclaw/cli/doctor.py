"""`doctor`: looks at everything that a gateway here needs, and says of each fault what to do."""

import anyio

from crossclaw.cli.checks import CHECKS, CHECKS_WITHOUT_CONFIG, Finding, Grade, look_at_config
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option
from crossclaw.cli.place import find_place, find_unread_place
from crossclaw.cli.say import coloured, out, out_json
from crossclaw.domain.errors import ConfigInvalid

_MARKS: dict[Grade, str] = {"ok": "✓", "warning": "!", "error": "✗"}
_COLOURS: dict[Grade, str] = {"ok": "32", "warning": "33", "error": "31"}


def _arguments(parser: Parser) -> None:
    json_option(parser)
    parser.add_argument(
        "--models",
        action="store_true",
        help="ask the services too whether keys and models are good",
    )


def _doctor(arguments: Arguments) -> int:
    findings = look_around()
    if arguments.models:
        findings += _asked()
    if arguments.json:
        out_json([finding._asdict() for finding in findings])
    else:
        out("\n".join(_line(finding) for finding in findings))
        out(_summary(findings))
    return Exit.FAILED if any(f.grade == "error" for f in findings) else Exit.OK


def _asked() -> list[Finding]:
    """With the network; what the services say is free."""
    try:
        place = find_place()
    except ConfigInvalid:
        return []  # told already
    from crossclaw.cli.model_checks import look_at_models  # noqa: PLC0415  only where it is wanted

    return anyio.run(look_at_models, place)


def look_around() -> list[Finding]:
    findings = list(look_at_config())
    try:
        place, checks = find_place(), CHECKS
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
        return "All is well."
    return f"{errors} to fix, {warnings} to look at."


COMMANDS = {"doctor": CommandSpec(_arguments, _doctor)}

"""`import`: imports sessions, jobs and keys from an OpenClaw state folder."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.cli.bars import at_work
from crossclaw.cli.exits import Exit
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option
from crossclaw.cli.import_rest import Rest, RestReport, has_jobs
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.running import run_async
from crossclaw.cli.say import console, draws_on, in_one_line, note, out, out_json
from crossclaw.config.openclaw_here import brought, find_stores, note_brought, note_imported
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.counts import count_of
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.sessions.imported import ImportReport, Progress
from crossclaw.sessions.importing import Import, has_sessions, require_sessions
from crossclaw.transcripts.exporter import Exporter

_MORE = """The gateway must not run meanwhile; --dry-run may be done at any time. Nothing is changed in that
folder. An import that was cut off goes on where it stopped, and one that is repeated changes nothing.
The config is not copied: crossclaw reads openclaw.json of its own state folder, which by default is
OpenClaw's own (~/.openclaw)."""
_SHOWN_MAX = 20


def _arguments(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", help="OpenClaw's state folder (this one's own)")
    parser.add_argument("--dry-run", action="store_true", help="read everything, write nothing")
    json_option(parser)


def _import(arguments: Arguments) -> int:
    place = find_place()
    folder = Path(arguments.folder).expanduser() if arguments.folder else place.paths.state_dir
    if not has_jobs(folder):
        require_sessions(folder)  # before a gateway that runs is complained of
    began = time.monotonic()

    async def work() -> int:
        report = ImportReport()
        if arguments.dry_run:
            rest = await _bring(None, place, folder, report)
        else:
            rest = await _into_store(place, folder, report)
            _note_imported(place, folder)
        _tell(report, rest, place, arguments, time.monotonic() - began)
        return Exit.OK

    return run_async(work)


async def _bring(
    ledger: Ledger | None, place: StateLocation, folder: Path, report: ImportReport
) -> RestReport:
    if has_sessions(folder):
        state_dir = place.paths.state_dir
        known = brought(state_dir)["grants"]
        with _shown_progress() as progress:
            importing = Import(ledger, SystemClock(), progress, report, known)
            await importing.run(folder)
        if ledger is not None:
            note_brought(state_dir, grants=importing.grants)
    return await Rest(place, folder, report).bring(ledger)


async def _into_store(place: StateLocation, folder: Path, report: ImportReport) -> RestReport:
    clock = SystemClock()
    with at_work("opening the store"):  # one of an older release is brought up to date first
        url = place.config.ledger.url_in(place.environ)
        ledger = open_ledger(place.paths.ledger_path, url=url)
    try:
        rest = await _bring(ledger, place, folder, report)
        # The copies for people, so that the gateway's first start need not wait for them.
        with at_work("writing transcripts") as tell:
            exporter = Exporter(ledger, place.paths.sessions_dir, clock)
            await exporter.repair(lambda done: tell(f"transcripts written: {done:,}"))
        return rest
    finally:
        await ledger.close()


def _note_imported(place: StateLocation, folder: Path) -> None:
    """Notes that a folder was imported: until then, whoever starts the gateway in OpenClaw's own folder is
    reminded."""
    if folder.resolve() == place.paths.state_dir.resolve():
        note_imported(place.paths.state_dir, find_stores(folder))


@contextmanager
def _shown_progress() -> Generator[Progress]:
    if not draws_on(sys.stderr):
        yield lambda _done, _total, _report: None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bar  # noqa: PLC0415

    columns = (
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, report: ImportReport) -> None:
            words = count_of(report.messages, "message")
            bar.update(task, completed=done, total=total, description=words)

        yield show


def _tell(
    report: ImportReport,
    rest: RestReport,
    place: StateLocation,
    arguments: Arguments,
    took_s: float,
) -> None:
    missing = [each for each in report.agents if place.config.agents.find(each) is None]
    if arguments.json:
        fields: dict[str, Any] = msgspec.to_builtins(report)
        more = {"dryRun": arguments.dry_run, "seconds": round(took_s, 3), "agentsMissing": missing}
        out_json(fields | msgspec.to_builtins(rest) | more)
        return
    verb = "would come" if arguments.dry_run else "came"
    before = report.transcripts_before
    out(
        f"{count_of(report.sessions, 'session')} found, {count_of(report.messages, 'message')} and "
        f"{count_of(report.notes, 'note')} {verb} in, {count_of(before, 'transcript')} "
        f"{'was' if before == 1 else 'were'} here before; {took_s:.1f} s"
    )
    if report.approvals:
        count = count_of(report.approvals, "rule")
        out(f"{count} for commands {verb} in; crossclaw approvals lists them")
    _tell_rest(rest, arguments)
    for text in report.remarks[:_SHOWN_MAX]:
        note(" ".join(text.split()))
    if report.unreadable:
        out(f"{count_of(report.unreadable, 'thing')} could not be read:")
        for text in report.problems[:_SHOWN_MAX]:
            out(f"  {in_one_line(text)}")
        if report.unreadable > _SHOWN_MAX:
            out(f"  … and {report.unreadable - _SHOWN_MAX:,} more; --json lists up to 200")
    if missing:
        out("Agents that the config does not have; their sessions can be read, not talked to:")
        for agent_id in missing:
            out(f"  crossclaw agents add {agent_id}")


def _tell_rest(rest: RestReport, arguments: Arguments) -> None:
    verb = "would come" if arguments.dry_run else "came"
    if rest.jobs or rest.jobs_before:
        before = _before(rest.jobs_before)
        out(f"{count_of(len(rest.jobs), 'cron job')} {verb} in{before}")
    if rest.keys or rest.keys_before:
        before = _before(rest.keys_before)
        names = f" ({', '.join(rest.keys)})" if rest.keys else ""
        out(
            f"{count_of(len(rest.keys), 'key')} of model services {verb} to credentials/{names}{before}"
        )
    if rest.allowed or rest.allowed_before:
        before = _before(rest.allowed_before)
        people = "person who was" if len(rest.allowed) == 1 else "people who were"
        out(f"{len(rest.allowed)} {people} paired {verb} in{before}; crossclaw pairing lists them")
    _list("Jobs that are switched off here:", rest.jobs_off)
    _list("Left there:", rest.left)
    if rest.jobs and not arguments.dry_run:
        note(
            "Jobs run here from now on. Stop them there, or they run twice: OpenClaw's own `openclaw gateway stop`, "
            "in a shell without this environment."
        )


def _before(count: int) -> str:
    return f", {count} {'was' if count == 1 else 'were'} here before" if count else ""


def _list(head: str, lines: list[str]) -> None:
    if not lines:
        return
    out(head)
    for text in lines[:_SHOWN_MAX]:
        out(f"  {in_one_line(text)}")
    if len(lines) > _SHOWN_MAX:
        out(f"  … and {len(lines) - _SHOWN_MAX:,} more; --json lists all")


COMMANDS = {"import": CommandSpec(_arguments, _import, _MORE)}

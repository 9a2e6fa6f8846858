"""`cron`: jobs, in the words of OpenClaw's own command line."""

import argparse
import difflib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import (
    Arguments,
    CommandSpec,
    Parser,
    asking_options,
    positive,
)
from crossclaw.cli.running import ask
from crossclaw.cli.say import note, out, out_json
from crossclaw.cli.tables import ago, pairs, table
from crossclaw.client.peer import ADMIN, READ, GatewayPeer
from crossclaw.domain.durations import parse_duration
from crossclaw.domain.errors import Invalid

_EXAMPLES = """examples
  crossclaw cron add --name report --cron "0 7 * * 1-5" --tz Europe/Vienna --message "Write the report"
  crossclaw cron add --name tea --at 20m --system-event "The tea is ready"
  crossclaw cron add --name watch --every 1h --message "Look at the site" --channel telegram --to 4711"""

_JOB = "its id, the end of it, or its name"
_MINUTE_CHARS = len("2026-12-24 18:00")
_SECOND_CHARS = len("2026-12-24 18:00:00")
_OFTEN_MS = 10 * 60_000  # an interval below is watched by the second
_SHORT_CHARS = 8  # the end of an id, in tables: ids begin with their time, and so alike


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="with those that are switched off")
    asking_options(parser)


def _list(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        everything = arguments.all or not arguments.json
        params = {"includeDisabled": everything, "includeMakers": True}
        answer = await peer.call("cron.list", params, timeout_s=arguments.timeout)
        if arguments.json:
            out_json(answer)
            return Exit.OK
        jobs = answer["jobs"]
        shown = jobs if arguments.all else [job for job in jobs if job["enabled"]]
        out(_rows(shown))
        if off := len(jobs) - len(shown):
            note(
                f"{off} more {'is' if off == 1 else 'are'} switched off: crossclaw cron list --all"
            )
        return Exit.OK

    return ask(arguments, READ, work=work)


def _rows(jobs: list[dict[str, Any]]) -> str:
    if not jobs:
        return "no jobs; crossclaw cron add --help shows how to make one"
    head = ("id", "name", "schedule", "next", "last", "status", "target")
    return table(head, [_row(job, _now_ms()) for job in jobs])


def _row(job: dict[str, Any], now_ms: int) -> tuple[Any, ...]:
    state = job["state"]
    last = "running" if state.get("runningAtMs") else state.get("lastStatus")
    return (
        job["id"][-_SHORT_CHARS:],
        job["name"],
        _schedule(job["schedule"]),
        _next(job) if job["enabled"] else "off",
        ago(state.get("lastRunAtMs"), now_ms),
        last or "idle",
        job["sessionTarget"] + (f" of {job['agentId']}" if job.get("agentId") else ""),
    )


def _schedule(schedule: dict[str, Any]) -> str:
    match schedule["kind"]:
        case "at":
            return f"at {_clock_time(schedule['at'])}"
        case "every":
            return f"every {_duration(schedule['everyMs'])}"
        case _:
            return f"cron {schedule['expr']}" + (
                f" @ {schedule['tz']}" if schedule.get("tz") else ""
            )


def _clock_time(iso: str) -> str:
    """A time as the other columns have it: to the minute, in local time."""
    try:
        return datetime.fromisoformat(iso).astimezone().isoformat(" ", "minutes")[:_MINUTE_CHARS]
    except ValueError:
        return iso


def _status(arguments: Arguments) -> int:
    async def work(peer: GatewayPeer) -> int:
        answer = await peer.call("cron.status", {}, timeout_s=arguments.timeout)
        shown = [
            ("jobs", answer["jobs"]),
            ("they run", "yes" if answer["enabled"] else "no: cron.enabled is false"),
            ("next", _moment(answer["nextWakeAtMs"])),
            ("store", answer["storePath"]),
        ]
        out_json(answer) if arguments.json else out(pairs(shown))
        return Exit.OK

    return ask(arguments, READ, work=work)


def _runs_arguments(parser: Parser) -> None:
    parser.add_argument("job", nargs="?", help=_JOB)
    parser.add_argument("--id", metavar="JOB", help="the same, as OpenClaw spells it")
    parser.add_argument("--limit", type=positive, default=50, help="at most so many (50)")
    asking_options(parser)


def _runs(arguments: Arguments) -> int:
    named = arguments.job or arguments.id
    if named is None:
        raise UsageError("which job?", hint="crossclaw cron list shows them")

    async def work(peer: GatewayPeer) -> int:
        job_id = await _job_id(peer, named, arguments.timeout)
        params = {"id": job_id, "limit": min(arguments.limit, 5_000)}
        answer = await peer.call("cron.runs", params, timeout_s=arguments.timeout)
        rows = [
            (
                _moment(e.get("runAtMs")),
                e.get("status"),
                _took(e),
                e.get("error") or e.get("summary"),
            )
            for e in answer["entries"]
        ]
        shown = table(("due", "status", "took", "what"), rows) if rows else "it has not run yet"
        out_json(answer) if arguments.json else out(shown)
        return Exit.OK

    return ask(arguments, READ, work=work)


def _took(entry: dict[str, Any]) -> str | None:
    return _duration(entry["durationMs"]) if "durationMs" in entry else None


# ── making and changing ────────────────────────────────────────────────────────────────────────


def _spec_arguments(parser: Parser) -> None:
    """Adds the arguments that `add` and `edit` share."""
    parser.add_argument("--name", help="what to call it")
    parser.add_argument("--description", help="what it is for")
    when = parser.add_argument_group("when (one of them)").add_mutually_exclusive_group()
    when.add_argument("--at", metavar="TIME", help="once: 2026-12-24T18:00Z, or 20m from now")
    when.add_argument("--every", metavar="TIME", help="again and again: 10m, 1h, 1d")
    when.add_argument("--cron", metavar="EXPR", help="five or six fields: '0 7 * * 1-5'")
    parser.add_argument("--tz", metavar="ZONE", help="of --cron: Europe/Vienna")
    what = parser.add_argument_group("what (one of them)").add_mutually_exclusive_group()
    what.add_argument("--message", metavar="TEXT", help="for a run in the job's own session")
    what.add_argument("--system-event", metavar="TEXT", help="for the main session")
    parser.add_argument("--session", choices=("main", "isolated"), help="follows from what it does")
    parser.add_argument(
        "--wake", choices=("now", "next-heartbeat"), help="when main reads it (now)"
    )
    parser.add_argument("--agent", metavar="ID", help="whose job it is")
    parser.add_argument("--model", help="provider/model of its runs")
    parser.add_argument("--thinking", help="off, minimal, low, medium, high")
    parser.add_argument("--timeout-seconds", type=positive, metavar="N", help="of a run")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--announce", "--deliver", action="store_true", help="tell the reply in a chat"
    )
    where.add_argument("--no-deliver", action="store_true", help="keep the reply in its session")
    parser.add_argument("--channel", help="which channel tells it (last)")
    parser.add_argument("--to", help="which chat")
    parser.add_argument("--account", metavar="ID", help="which account of the channel tells it")
    parser.add_argument("--thread-id", metavar="ID", help="which thread or topic of the chat")
    parser.add_argument("--best-effort-deliver", action="store_true", help="no chat is no failure")
    once = parser.add_mutually_exclusive_group()
    once.add_argument("--delete-after-run", action="store_true", help="remove it after --at")
    once.add_argument("--keep-after-run", action="store_true", help="keep it, switched off")
    asking_options(parser)


def _add_arguments(parser: Parser) -> None:
    _spec_arguments(parser)
    parser.add_argument("--disabled", action="store_true", help="make it, but do not run it yet")
    parser.add_argument(
        "--same-name", action="store_true", help="also where a job is called so already"
    )


def _add(arguments: Arguments) -> int:
    schedule, payload = _when(arguments), _what(arguments)
    if not arguments.name or schedule is None or payload is None:
        raise UsageError(
            "a job needs --name, one of --at, --every, --cron, and one of --message, --system-event",
            hint=_EXAMPLES,
        )
    target = arguments.session or ("main" if payload["kind"] == "systemEvent" else "isolated")
    params = {
        "name": arguments.name,
        "schedule": schedule,
        "payload": payload,
        "sessionTarget": target,
        "wakeMode": arguments.wake or "now",
        "enabled": not arguments.disabled,
        **_changes(arguments),
    }
    if (delivery := _where(arguments)) is not None:
        params["delivery"] = {"mode": "announce", **delivery}
    return _change(arguments, "cron.add", params, _job_text, before=_refuse_same_name)


def _edit_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="job", help=_JOB)
    _spec_arguments(parser)
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--enable", action="store_true", help="switch it on")
    state.add_argument("--disable", action="store_true", help="switch it off")
    parser.add_argument(
        "--clear-agent", action="store_true", help="the default agent's from now on"
    )


def _edit(arguments: Arguments) -> int:
    patch: dict[str, Any] = _changes(arguments)
    given = {
        "name": arguments.name,
        "schedule": _when(arguments),
        "payload": _what(arguments) or _turn_options(arguments),
        "sessionTarget": arguments.session,
        "wakeMode": arguments.wake,
        "delivery": _where(arguments),
    }
    patch |= {name: value for name, value in given.items() if value is not None}
    if arguments.enable or arguments.disable:
        patch["enabled"] = arguments.enable
    if arguments.clear_agent:
        patch["agentId"] = None
    if not patch:
        raise UsageError("say what to change", hint="crossclaw cron edit --help lists it.")
    return _change(arguments, "cron.update", {"id": arguments.id, "patch": patch}, _job_text)


def _changes(arguments: Arguments) -> dict[str, Any]:
    given: dict[str, Any] = {"description": arguments.description, "agentId": arguments.agent}
    if arguments.delete_after_run or arguments.keep_after_run:
        given["deleteAfterRun"] = arguments.delete_after_run
    return {name: value for name, value in given.items() if value is not None}


def _when(arguments: Arguments) -> dict[str, Any] | None:
    if arguments.tz and not arguments.cron:
        raise UsageError("--tz belongs to --cron; write the zone of --at into its time")
    if arguments.at:
        return {"kind": "at", "at": _at(arguments.at)}
    if arguments.every:
        return {"kind": "every", "everyMs": _milliseconds(arguments.every)}
    if arguments.cron:
        zone = {"tz": arguments.tz} if arguments.tz else {}
        return {"kind": "cron", "expr": arguments.cron, **zone}
    return None


def _at(text: str) -> str:
    try:
        later_ms = parse_duration(text.removeprefix("+"))
    except Invalid:
        return text  # a time; the gateway reads it
    return datetime.fromtimestamp((_now_ms() + later_ms) / 1000, UTC).isoformat()


def _milliseconds(text: str) -> int:
    try:
        return parse_duration(text)
    except Invalid as error:
        raise UsageError(str(error)) from None


def _what(arguments: Arguments) -> dict[str, Any] | None:
    if arguments.system_event is not None:
        return {"kind": "systemEvent", "text": arguments.system_event}
    if arguments.message is not None:
        return {"message": arguments.message} | (_turn_options(arguments) or {"kind": "agentTurn"})
    return None


def _turn_options(arguments: Arguments) -> dict[str, Any] | None:
    options = {
        "model": arguments.model,
        "thinking": arguments.thinking,
        "timeoutSeconds": arguments.timeout_seconds,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return {"kind": "agentTurn", **given} if given else None


def _where(arguments: Arguments) -> dict[str, Any] | None:
    if arguments.no_deliver:
        return {"mode": "none"}
    given = {
        "channel": arguments.channel,
        "to": arguments.to,
        "accountId": arguments.account,
        "threadId": arguments.thread_id,
    }
    wanted = {name: value for name, value in given.items() if value is not None}
    if arguments.best_effort_deliver:
        wanted["bestEffort"] = True
    if arguments.announce or wanted:
        return {"mode": "announce", **wanted}
    return None


# ── one job ────────────────────────────────────────────────────────────────────────────────────


def _one_arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="job", help=_JOB)
    asking_options(parser)


def _run_arguments(parser: Parser) -> None:
    _one_arguments(parser)
    parser.add_argument("--due", action="store_true", help="only if it is due")
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)


def _remove(arguments: Arguments) -> int:
    def text_of(answer: dict[str, Any]) -> str:
        if not answer["removed"]:
            raise CommandFailed(
                f"there is no job {arguments.id}", hint="crossclaw cron list --all shows them"
            )
        return "removed"

    return _change(arguments, "cron.remove", {"id": arguments.id}, text_of)


def _enable(arguments: Arguments) -> int:
    return _switch(arguments, True)


def _disable(arguments: Arguments) -> int:
    return _switch(arguments, False)


def _switch(arguments: Arguments, enabled: bool) -> int:
    params = {"id": arguments.id, "patch": {"enabled": enabled}}
    return _change(arguments, "cron.update", params, _job_text)


def _run(arguments: Arguments) -> int:
    def text_of(answer: dict[str, Any]) -> str:
        return f"runs as {answer['runId']}" if answer["ran"] else f"not run: {answer['reason']}"

    params = {"id": arguments.id, "mode": "due" if arguments.due else "force"}
    return _change(arguments, "cron.run", params, text_of)


def _job_text(job: dict[str, Any]) -> str:
    when = _moment_of(job, job["state"].get("nextRunAtMs"))
    return f"{job['id']}  {job['name']}: " + (f"next {when}" if job["enabled"] else "switched off")


def _change(
    arguments: Arguments,
    method: str,
    params: dict[str, Any],
    text_of: Callable[[Any], str],
    before: Callable[[GatewayPeer, Arguments], Awaitable[None]] | None = None,
) -> int:
    async def work(peer: GatewayPeer) -> int:
        found = dict(params)
        if before is not None:
            await before(peer, arguments)
        if "id" in params:
            found["id"] = await _job_id(peer, params["id"], arguments.timeout)
        answer = await peer.call(method, found, timeout_s=arguments.timeout)
        out_json(answer) if arguments.json else out(text_of(answer))
        if peer.embedded:
            note("jobs run while a gateway does")
        return Exit.FAILED if answer.get("removed") is False else Exit.OK

    return ask(arguments, ADMIN, work=work)


async def _refuse_same_name(peer: GatewayPeer, arguments: Arguments) -> None:
    """Refuses a second job of the same name. The wire takes two, as OpenClaw's does; here it is mostly a
    command given twice."""
    if arguments.same_name:
        return
    named = [job for job in await _jobs(peer, arguments.timeout) if job["name"] == arguments.name]
    if named:
        raise CommandFailed(
            f"there is a job called {arguments.name!r} already. Nothing was made.",
            hint=f"{_rows(named)}\n\nTo change it: crossclaw cron edit {named[0]['id'][-_SHORT_CHARS:]} …"
            "\nTo have another: choose another --name, or add --same-name.",
        )


async def _jobs(peer: GatewayPeer, timeout_s: float) -> list[dict[str, Any]]:
    answer = await peer.call("cron.list", {"includeDisabled": True}, timeout_s=timeout_s)
    jobs: list[dict[str, Any]] = answer["jobs"]
    return jobs


async def _job_id(peer: GatewayPeer, said: str, timeout_s: float) -> str:
    """The id of a job, found by id, by the end of it, or by name. For an unknown one similar names are suggested."""
    jobs = await _jobs(peer, timeout_s)
    if said in (job["id"] for job in jobs):
        return said
    meant = [job for job in jobs if job["name"] == said]
    meant = meant or [job for job in jobs if job["id"].endswith(said)]
    if len(meant) > 1:
        raise UsageError(
            f"{len(meant)} jobs are meant by {said!r}; name one by its id, or the end of it",
            hint=_rows(meant),
        )
    if not meant:
        raise CommandFailed(f"there is no job {said}", hint=_near_jobs(said, jobs))
    return str(meant[0]["id"])


def _near_jobs(said: str, jobs: list[dict[str, Any]]) -> str:
    names = {job["name"].lower(): job["name"] for job in jobs}
    near = difflib.get_close_matches(said.lower(), names, n=3)
    if near:
        return "Did you mean " + " or ".join(repr(names[name]) for name in near) + "?"
    return "crossclaw cron list shows what there is"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().isoformat(" ", "seconds")


def _moment_of(job: dict[str, Any], at_ms: int | None) -> str | None:
    """A time in the job's own time zone, if it names one."""
    name = job["schedule"].get("tz")
    if at_ms is None or not name:
        return _moment(at_ms)
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError):  # the gateway may know more zones than this machine
        return _moment(at_ms)
    return f"{moment.strftime('%Y-%m-%d %H:%M:%S')} {name}"


def _next(job: dict[str, Any]) -> str | None:
    """The job's next time: to the minute, to the second if it runs more often; in the job's own time zone."""
    moment = _moment_of(job, job["state"].get("nextRunAtMs"))
    if moment is None:
        return None
    often = job["schedule"].get("everyMs", _OFTEN_MS) < _OFTEN_MS
    zone = moment[_SECOND_CHARS:] if moment[_SECOND_CHARS:].startswith(" ") else ""
    return moment[: _SECOND_CHARS if often else _MINUTE_CHARS] + zone


def _duration(ms: int) -> str:
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")):
        if ms >= size and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms / 1000:g}s"


COMMANDS = {
    "list": CommandSpec(_list_arguments, _list),
    "status": CommandSpec(asking_options, _status),
    "runs": CommandSpec(_runs_arguments, _runs),
    "add": CommandSpec(_add_arguments, _add, _EXAMPLES),
    "edit": CommandSpec(_edit_arguments, _edit),
    "rm": CommandSpec(_one_arguments, _remove),
    "run": CommandSpec(_run_arguments, _run),
    "enable": CommandSpec(_one_arguments, _enable),
    "disable": CommandSpec(_one_arguments, _disable),
}

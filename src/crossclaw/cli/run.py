"""`run`: the first start. Creates what is missing, runs the gateway and says what to do next."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from crossclaw.cli.checks import greets_as_gateway, models
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.cli.gateway import (
    environment,
    host_of,
    run_options,
    serve_until_stopped,
    warn,
)
from crossclaw.cli.grammar import Arguments, CommandSpec
from crossclaw.cli.log import Log
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.say import out
from crossclaw.client.finding import named_port, served_fingerprint, served_port
from crossclaw.config.file import ConfigFile
from crossclaw.config.openclaw_here import find_unimported
from crossclaw.config.token import gateway_token
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ConfigInvalid

_STARTER = """// Crossclaw's settings. Comments are allowed, and `crossclaw config set` keeps them.
// `crossclaw config get` shows everything with its defaults.
{
  "agents": {
    "list": [
      { "id": "main", "default": true }
      // crossclaw agents add librarian --name "The librarian"
    ]
  }
}
"""


def _run(arguments: Arguments) -> int:
    place = prepare(_found(environment(arguments)))
    running = served_port(place)
    if running and greets_as_gateway(running):
        token = gateway_token(place.config, place.paths, place.environ)
        scheme = "https" if served_fingerprint(place) else "http"
        out(tr("A gateway of this state folder is already running.") + "\n")
        out(f"  {tr('open')}   {link(f'{scheme}://127.0.0.1:{running}', token.reveal())}")
        return _as_wanted(arguments.port, running)
    place = find_place(place.environ, to_serve=True)
    return _serve(arguments, place, named_port(place) if arguments.port is None else arguments.port)


def _found(environ: Mapping[str, str]) -> StateLocation:
    try:
        return find_place(environ)
    except ConfigInvalid:
        return find_place(environ, to_serve=True)  # raises, and names all that is missing at once


def _as_wanted(port: int | None, running: int) -> int:
    if port in (None, 0, running):
        return Exit.OK
    raise CommandFailed(
        f"the gateway is on port {running}, not on {port}: a state folder has one gateway",
        hint="Stop that one first, or set OPENCLAW_STATE_DIR to another folder for a second one.",
    )


def _serve(arguments: Arguments, place: StateLocation, number: int | None) -> int:
    from crossclaw.app import run_gateway  # noqa: PLC0415  brings the whole gateway

    log = Log(
        place.paths,
        verbose=arguments.verbose,
        quiet=not arguments.verbose,
        as_json=arguments.log_json,
    )
    log.take(place.config)
    warn(place)

    code = serve_until_stopped(
        lambda: run_gateway(
            place.loaded,
            place.paths,
            place.environ,
            host=host_of(arguments.bind),
            port=number,
            on_ready=lambda url, token: out(greeting(place, url, token)),
            on_config=log.take,
        )
    )
    out("\n" + tr("Stopped. Everything is kept; the next start goes on from here."))
    return code


def prepare(place: StateLocation) -> StateLocation:
    """Creates a config file, if there is none."""
    if place.loaded.exists:
        return place
    file = ConfigFile(place.paths.config_path, place.environ)
    file.begin_with(_STARTER)
    file.save()
    return find_place(place.environ)


def greeting(place: StateLocation, url: str, token: str) -> str:
    agents = place.config.agents
    model = place.config.model_for(agents.default_id, place.environ).primary
    faults = [found for found in models(place) if found.grade == "error"]
    rows: list[tuple[str, object]] = [
        (tr("open"), link(url, token)),
        (tr("agents"), ", ".join(agents.ids())),
        (tr("model"), _model_line(model)),
        (tr("state"), str(place.paths.state_dir)),
    ]
    if fingerprint := served_fingerprint(place):
        rows.insert(1, (tr("certificate"), f"sha256 {fingerprint}"))
    wide = max(len(name) for name, _ in rows)
    return "\n".join(
        [
            tr("Crossclaw is running.") + "\n",
            *(f"  {name:<{wide}}  {value}" for name, value in rows),
            "",
            *(f"! {found.subject}: {found.text}. {found.todo or ''}\n" for found in faults),
            tr("Try, in another terminal:"),
            *_activation(),
            *_elsewhere(place),
            *_to_try(place, model, answers=not faults),
            "",
            tr("Ctrl-C stops it."),
        ]
    )


def _to_try(place: StateLocation, model: str, *, answers: bool) -> list[str]:
    """Commands to try, in an order that works, each with its purpose; no messages if no model `answers` them."""
    agents, is_scripted = place.config.agents, model.startswith("rehearsal/")
    others = [each for each in agents.ids() if each != agents.default_id]
    rows: list[tuple[str, str]] = []
    if find_unimported(
        place.paths.state_dir
    ):  # whoever starts where OpenClaw was looks for that first
        rows.append(
            (
                "crossclaw import --dry-run",
                tr("sessions or jobs of OpenClaw are here: what would come"),
            )
        )
        rows.append(("crossclaw stop && crossclaw import", tr("bring them in, then start again")))
    if is_scripted or not answers:
        rows.append(("crossclaw onboard", tr("a model that thinks")))
    if answers:
        rows += _messages(others, is_scripted=is_scripted)
    else:
        rows.append(("crossclaw rehearse", tr("agents at work, without a key")))
    rows.append(("crossclaw doctor", ""))
    wide = max(len(command) for command, about in rows if about)
    return [
        f"  {command:<{wide}}  # {about}" if about else f"  {command}" for command, about in rows
    ]


def _messages(others: list[str], *, is_scripted: bool) -> list[tuple[str, str]]:
    rows = [(f'crossclaw message send "{tr("Hello, agent")}"', ""), ("crossclaw chat", "")]
    if not others:
        second = tr("a second agent, which the first can ask")
        rows.append(("crossclaw agents add librarian", second))
    asked = talk_line(is_scripted=is_scripted, agent=others[0] if others else "librarian")
    return [*rows, (asked, tr("one agent asks the other"))]


def talk_line(*, is_scripted: bool, agent: str = "librarian") -> str:
    """A message that makes one agent ask another: in words, or as a line that the rehearsal plays."""
    words = tr("Which atlas do we have?")
    if is_scripted:
        return f'crossclaw message send "ask: {agent} {words}"'
    return 'crossclaw message send "{}"'.format(
        tr("Ask {agent}: {words}").format(agent=agent, words=words)
    )


def _activation() -> list[str]:
    """The line that puts the command on the path, if it is not there."""
    script = Path(sys.prefix) / "bin" / "activate"
    return [] if shutil.which("crossclaw") or not script.exists() else [f"  . {script}"]


def _elsewhere(place: StateLocation) -> list[str]:
    """The lines for another state folder than the usual one: it has to be named in every terminal."""
    folder = place.environ.get("OPENCLAW_STATE_DIR")
    return (
        [f"  export OPENCLAW_STATE_DIR={shlex.quote(str(place.paths.state_dir))}"] if folder else []
    )


def _model_line(model: str) -> str:
    if not model.startswith("rehearsal/"):
        return model
    return tr("rehearsal: scripted, it does what “say: …” and “tool: …” lines tell it")


def link(url: str, token: str) -> str:
    """The page's link. The token stands after the #, so that it stays in the browser and out of every log."""
    here = url.rstrip("/").replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return f"{here}/#token={token}"


COMMANDS = {"run": CommandSpec(run_options, _run)}

"""`onboard`: from nothing to an agent that answers, in two minutes: a model, a test call, an agent, a chat platform, the
service.

It can be run again at any time: it shows what is there and changes only what is asked. Every question has an
option (`--non-interactive` asks nothing); OpenClaw's names for them work too.
"""

from argparse import SUPPRESS
from typing import Any

import msgspec

from crossclaw.cli import service
from crossclaw.cli.agents import put_agent_values, wired
from crossclaw.cli.asking import ask_text, ask_yes, is_somebody_there
from crossclaw.cli.exits import CommandFailed, Exit, UsageError
from crossclaw.cli.grammar import Arguments, CommandSpec, Parser, json_option, port, text_of
from crossclaw.cli.onboard_channel import (
    ChosenChannel,
    channel_arguments,
    channel_by_asking,
    channel_by_flags,
    forget_others,
    keep_token,
    next_clicks,
    put_channel,
)
from crossclaw.cli.onboard_model import (
    COMPATIBILITY,
    KEY_OPTIONS,
    ChosenService,
    choose_by_asking,
    choose_by_flags,
    put_model,
)
from crossclaw.cli.one_file import PATCH, hold_to_all, this_file_option
from crossclaw.cli.place import StateLocation, find_place
from crossclaw.cli.run import prepare, talk_line
from crossclaw.cli.say import note, out, out_json
from crossclaw.cli.tables import pairs
from crossclaw.cli.trying import TrialResult
from crossclaw.client.finding import served_port
from crossclaw.config.agent_entries import put_agent
from crossclaw.config.file import ConfigFile
from crossclaw.config.profiles import forget_key, keep_key
from crossclaw.display.languages import SPOKEN, speak, tr
from crossclaw.domain.agents import suggest_agent_id

_TAKEN = (  # OpenClaw's options that ask for nothing that is missing here
    "--accept-risk --skip-skills --skip-ui --skip-search --skip-bootstrap --skip-hooks"
)
_TAKEN_WITH_VALUE = "--flow --daemon-runtime --node-manager --gateway-auth"

SERVICE_SET = """crossclaw gateway call models.service.set --params '{provider: "…", baseUrl: "…", key: "…"}'"""
_UNNAMED = "second"  # the id of a second agent whose name has no letter that can stand in one


class Report(msgspec.Struct, rename="camel", omit_defaults=True):
    """What was found and done, for programs."""

    language: str
    config: str
    model: str = ""
    agents: list[str] = []
    changed: list[str] = []
    test: dict[str, Any] = {}
    channel: dict[str, Any] = {}
    service: str | None = None


def _arguments(parser: Parser) -> None:
    parser.add_argument("--lang", choices=SPOKEN, help="in place of the environment's language")
    parser.add_argument(
        "--non-interactive", action="store_true", help="ask nothing; the options say it all"
    )
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--auth-choice",
        metavar="WHO",
        help="anthropic, openai, google, openrouter, ollama, llamacpp, custom or skip",
    )
    model.add_argument("--model", metavar="NAME", help="the model, or provider/model")
    model.add_argument(
        "--api-key-file", dest="api_key", type=text_of, metavar="FILE", help="a file with its key"
    )
    for name in KEY_OPTIONS:  # what stands on a command line can be read by others
        model.add_argument(f"--{name}-api-key", dest=f"{name}_key", help=SUPPRESS)
    model.add_argument("--custom-base-url", metavar="URL", help="where another service is reached")
    model.add_argument("--custom-model-id", metavar="NAME", help="the same as --model")
    model.add_argument("--custom-provider-id", metavar="NAME", help="its name in the config")
    model.add_argument("--custom-compatibility", choices=tuple(COMPATIBILITY), default="openai")
    model.add_argument(
        "--secret-input-mode",
        choices=("plaintext", "ref"),
        default="plaintext",
        help="plaintext: the key goes to credentials/; ref: it stays in the environment",
    )
    model.add_argument("--skip-health", action="store_true", help="without the test call")
    channel_arguments(parser)
    _other_arguments(parser)
    this_file_option(parser)
    json_option(parser)


def _other_arguments(parser: Parser) -> None:
    agent = parser.add_argument_group("the agent and the gateway")
    agent.add_argument("--agent-name", metavar="NAME", help="what the default agent is called")
    agent.add_argument("--agent-description", metavar="LINE", help="what it is for")
    agent.add_argument("--workspace", metavar="FOLDER", help="where its files lie")
    agent.add_argument("--gateway-port", type=port, metavar="N", help="in place of 18789")
    agent.add_argument("--gateway-bind", metavar="WHERE", help="loopback or lan")
    daemon = agent.add_mutually_exclusive_group()
    daemon.add_argument("--install-daemon", action="store_true", help="install the service")
    daemon.add_argument("--no-install-daemon", "--skip-daemon", action="store_true", help=SUPPRESS)
    parser.add_argument("--mode", choices=("local", "remote"), default="local", help=SUPPRESS)
    for name in _TAKEN.split():
        parser.add_argument(name, action="store_true", help=SUPPRESS)
    for name in _TAKEN_WITH_VALUE.split():
        parser.add_argument(name, help=SUPPRESS)


def _onboard(arguments: Arguments) -> int:
    language = speak(arguments.lang)
    if arguments.mode == "remote":
        raise UsageError(
            "this sets up a gateway here; for one elsewhere: crossclaw config set gateway.mode remote"
        )
    asks = not arguments.non_interactive
    if asks and not is_somebody_there():
        raise UsageError(
            tr("nobody is at a terminal to be asked"),
            hint=tr(
                "for scripts: crossclaw onboard --non-interactive, with options (--help lists them)"
            ),
        )
    place = find_place()
    if asks and place.config.ledger.shared and not arguments.this_file:
        raise _one_of_several(place)
    report = Report(language, str(place.paths.config_path))
    channel = channel_by_flags(arguments, place)
    if asks:
        _show(place)
    place = _model(arguments, place, report, asks=asks)
    place = _agent(arguments, place, report, asks=asks)
    asks_channel = asks and not arguments.skip_channels and channel is None
    place = _channel(arguments, channel, place, report, asks=asks_channel)
    place = _gateway(arguments, place, report)
    _service(arguments, report, asks=asks)
    return _end(arguments, place, report)


def _one_of_several(place: StateLocation) -> CommandFailed:
    """The refusal for one of several gateways, raised before any question."""
    return CommandFailed(
        "several gateways share this ledger and have one config (ledger.shared), and onboard would change only "
        f"{place.paths.config_path}: this gateway would take no more runs",
        hint="For all of them: the page (crossclaw dashboard) sets models, keys, agents and chat accounts.\n"
        "What is this machine's own is set as ever: crossclaw onboard --non-interactive --gateway-port N --install-daemon.\n"
        "Only in this file, as when each is changed by hand: --this-file (then raise ledger.configEpoch; docs/cluster.md).",
    )


def _show(place: StateLocation) -> None:
    out(tr("Crossclaw, step by step. Enter takes what stands in brackets; Ctrl-C leaves.") + "\n")
    rows: list[tuple[str, object]] = [
        (tr("config"), str(place.paths.config_path)),
        (tr("model"), _model_of(place)),
        (tr("agents"), ", ".join(place.config.agents.ids())),
        (tr("service"), service.installed() or tr("not installed")),
    ]
    out(pairs(rows) + "\n")


def _model_of(place: StateLocation) -> str:
    return place.config.model_for(place.config.agents.default_id, place.environ).primary


# ── the steps ──────────────────────────────────────────────────────────────────────────────────


def _model(
    arguments: Arguments, place: StateLocation, report: Report, *, asks: bool
) -> StateLocation:
    chosen = choose_by_flags(arguments, place)
    if chosen is None and asks and arguments.auth_choice != "skip":
        out(tr("1. Which model answers?"))
        chosen = choose_by_asking(place, _model_of(place))
    if chosen is None:
        return place
    place = prepare(place)
    before = place.config.models.providers.get(chosen.offer.provider)
    file = _file(place)
    put_model(file, place, chosen)
    _hold(arguments, file, place, f"{SERVICE_SET} (a service and its key), {PATCH} (which model)")
    if before and before.base_url != chosen.offer.base_url and not chosen.offer.key:
        forget_key(place.paths.state_dir, chosen.offer.provider)
    if chosen.offer.key:
        file.check()  # nothing is kept for a config that is refused
        kept = keep_key(place.paths.state_dir, chosen.offer.provider, chosen.offer.key)
        report.changed.append(str(kept))
        if asks:
            out(tr("The key is in {path}, for you alone to read.").format(path=kept))
    place = _save(file, place, report)
    _tell_test(chosen, report, speaks=not arguments.json)
    return place


def _tell_test(chosen: ChosenService, report: Report, *, speaks: bool) -> None:
    tried = chosen.tried
    if tried is None:
        return
    report.test = {"ok": tried.ok, "text": tried.text, "costUsd": tried.cost} | {
        "seconds": round(tried.took_s, 2),
        "inputTokens": tried.input,
        "outputTokens": tried.output,
    }
    if tried.ok and speaks:
        out(tr("{model} says: {text}").format(model=chosen.reference, text=tried.text))
        out("  " + spent(tried))


def spent(tried: TrialResult) -> str:
    counts = tr("{seconds} s, {input} tokens read, {output} written").format(
        seconds=f"{tried.took_s:.1f}", input=tried.input, output=tried.output
    )
    if tried.cost is None:
        return f"{counts}; " + tr("its price is not known here")
    if not tried.cost:
        return f"{counts}; " + tr("free")
    return f"{counts}; ${tried.cost:.6f}"


def _agent(
    arguments: Arguments, place: StateLocation, report: Report, *, asks: bool
) -> StateLocation:
    agent = place.config.agents.get(place.config.agents.default_id)
    wanted = {
        "name": arguments.agent_name,
        "description": arguments.agent_description,
        "workspace": arguments.workspace,
    }
    if asks:
        out("\n" + tr("2. Your agent"))
        wanted["name"] = wanted["name"] or ask_text(
            tr("What is your agent called?"), agent.name or ""
        )
        wanted["description"] = wanted["description"] or ask_text(
            tr("What is it for? One line, which other agents read"), agent.description or ""
        )
    if any(wanted.values()):
        place = prepare(place)
        file = _file(place)
        put_agent_values(file, place, agent, wanted)
        _hold(arguments, file, place, wired("update", agentId=agent.id))
        place = _save(file, place, report)
    return _second_agent(place, report) if asks else place


def _second_agent(place: StateLocation, report: Report) -> StateLocation:
    """Adds a second agent: with two, one can ask the other."""
    if len(place.config.agents.ids()) > 1:
        return place
    name = ask_text(tr("Name of a second agent that it can ask (empty: none)"))
    if not name:
        return place
    agent_id = suggest_agent_id(name) or _UNNAMED
    if place.config.agents.find(agent_id):
        note(tr("That one is there already."))
        return place
    about = ask_text(tr("What is it for? One line, which other agents read"))
    place = prepare(place)
    file = _file(place)
    agent = {"id": agent_id, "name": name} | ({"description": about} if about else {})
    put_agent(file, agent)
    return _save(file, place, report)


def _gateway(arguments: Arguments, place: StateLocation, report: Report) -> StateLocation:
    asked = {"port": arguments.gateway_port, "bind": arguments.gateway_bind}
    wanted = {name: value for name, value in asked.items() if value is not None}
    if not wanted:
        return place
    place = prepare(place)
    file = _file(place)
    for name, value in wanted.items():
        file.put(("gateway", name), value)
    return _save(file, place, report)


def _channel(
    arguments: Arguments,
    chosen: ChosenChannel | None,
    place: StateLocation,
    report: Report,
    *,
    asks: bool,
) -> StateLocation:
    speaks = not arguments.json
    if asks:
        out("\n" + tr("3. Where you talk with it"))
        out(
            tr("On the page, in the terminal and from any OpenClaw client; and on a chat platform:")
        )
        chosen = channel_by_asking(place)
    if chosen is None:
        return place
    place = prepare(place)
    file = _file(place)
    kept = put_channel(file, place, chosen)
    _hold(arguments, file, place, PATCH)
    file.check()  # nothing is kept for a config that is refused
    if kept is not None and chosen.token is not None and not kept.exists():
        keep_token(kept, chosen.token)
        report.changed.append(str(kept))
        if speaks:
            out(tr("The token is in {path}, for you alone to read.").format(path=kept))
    place = _save(file, place, report)
    if kept is not None:
        forget_others(kept, place.config.channels)
    clicks = next_clicks(chosen)
    report.channel = {"channel": chosen.manifest.name, "next": clicks}
    if chosen.facts is not None:
        report.channel |= {"id": chosen.facts.id, "name": chosen.facts.name}
    for line in clicks if speaks else ():
        out(line)
    return place


def _service(arguments: Arguments, report: Report, *, asks: bool) -> None:
    wanted = arguments.install_daemon
    there = service.installed()
    if asks and there is None and not wanted and not arguments.no_install_daemon:
        out("\n" + tr("4. The service"))
        wanted = ask_yes(tr("Install the gateway as a service of yours?"))
    if there is not None and not wanted:
        report.service = str(there)
        return
    if not wanted:
        return
    try:
        report.service = str(service.install(replace=there is not None))
        report.changed.append(report.service)
    except CommandFailed as failed:
        if not asks:
            raise
        note(f"{failed}\n{failed.hint or ''}")


def _end(arguments: Arguments, place: StateLocation, report: Report) -> int:
    report.model, report.agents = _model_of(place), list(place.config.agents.ids())
    if arguments.json:
        out_json(msgspec.to_builtins(report))
        return Exit.OK
    if not report.changed:
        out(tr("Nothing was changed."))
    elif served_port(place):
        note(place.when_a_change_counts)
    out("\n" + tr("Ready. Next:"))
    is_up = report.service or served_port(place)
    commands = ["crossclaw dashboard" if is_up else "crossclaw run"]
    commands += ['crossclaw message send "{}"'.format(tr("Hello")), "crossclaw chat"]
    if others := [each for each in report.agents if each != place.config.agents.default_id]:
        is_scripted = report.model.startswith("rehearsal/")
        commands.append(talk_line(is_scripted=is_scripted, agent=others[0]))
    for command in commands:
        out(f"  {command}")
    return Exit.OK


# ── the file ───────────────────────────────────────────────────────────────────────────────────


def _file(place: StateLocation) -> ConfigFile:
    return ConfigFile(place.paths.config_path, place.environ)


def _hold(arguments: Arguments, file: ConfigFile, place: StateLocation, for_all: str) -> None:
    """Refuses changes of what gateways have in common, before anything is stored. Each machine's own
    settings, as its port, can be changed."""
    if not arguments.this_file:
        hold_to_all(place, _file(place).value, file, for_all)


def _save(file: ConfigFile, place: StateLocation, report: Report) -> StateLocation:
    """Saves the file if something has changed: whoever only looks leaves no trace."""
    if file.text == _file(place).text:
        return place
    file.save()
    report.changed.append(str(file.path))
    return find_place(place.environ)


COMMANDS = {
    "onboard": CommandSpec(
        _arguments,
        _onboard,
        more="In English, Spanish, Portuguese and Italian, as LC_ALL, LC_MESSAGES or LANG say.\n"
        "Keys: from a file (--api-key-file), from the environment (ANTHROPIC_API_KEY, …), or typed in.",
    ),
}

"""Load: turns openclaw.json into a `Config`, or one error that names everything to fix in it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from crossclaw.config.channel_accounts import examine_channels, odd_patterns
from crossclaw.config.channels import GroupChat
from crossclaw.config.check import (
    ConfigFinding,
    Note,
    Problem,
    Unread,
    examine,
    found,
    is_read,
    near_miss,
    sort_of,
)
from crossclaw.config.lint import lint
from crossclaw.config.model import Config
from crossclaw.config.named_models import each_agent
from crossclaw.config.no_effect import NoEffect, judge, lines_for_people
from crossclaw.config.providers import APIS
from crossclaw.config.section import Loose, Secrets
from crossclaw.config.source import Source, dotted
from crossclaw.config.supported import unsupported
from crossclaw.config.variables import (
    Missing,
    is_switched_off,
    substitute,
    variables_of,
    without_references,
    written_variables,
)
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.secret import Secret

LISTED_MAX = 50  # problems one by one; a person fixes the first few and looks again
NO_EFFECT = "these settings have no effect here:"
TWICE = "written twice, and only the last one counts"
OLD_AGENT = "the old spelling of agents.defaults, and read as that"


class Unloadable(ConfigInvalid):
    """The config cannot be loaded. The text names what to fix; `problems` are the same, each with its key."""

    def __init__(
        self,
        text: str,
        problems: tuple[tuple[KeyPath, str], ...],
        meant: tuple[tuple[KeyPath, str], ...] = (),
        variables: tuple[str, ...] = (),
    ) -> None:
        super().__init__(text)
        self.problems = problems
        self.meant = meant
        """Keys that are misspelt, each with the one that was probably meant."""
        self.variables = variables
        """Variables that are not set, if nothing else is wrong: another terminal may have them."""


class Loaded(msgspec.Struct, frozen=True):
    config: Config
    path: Path
    exists: bool
    raw: dict[str, Any]
    """The config as written, includes put together, variables not yet put in. It may hold secrets."""
    warnings: tuple[str, ...]
    files: tuple[Path, ...]
    """Every file that was read, the main one first: what a reload has to watch."""
    no_effect: tuple[NoEffect, ...] = ()
    """Settings that nothing here reads."""
    lacking: tuple[str, ...] = ()
    """Variables that a gateway would need to start with it, and that are not set here. See `load`."""

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """All warnings, those about settings without effect as one text."""
        listed = lines_for_people(self.no_effect)
        return (*self.warnings, "\n  ".join([NO_EFFECT, *listed])) if listed else self.warnings

    def __repr__(self) -> str:
        return f"Loaded({self.path}, {len(self.warnings)} warnings)"


def load(path: Path, environ: Mapping[str, str], *, to_serve: bool = True) -> Loaded:
    """Loads a config. A command that asks a gateway, or changes the file, does not serve and needs the
    variables of `gateway` alone: the others may be set only where the gateway runs. They are named in
    `lacking`."""
    if not _is_there(path):
        return Loaded(Config(), path, False, {}, (), ())
    return _loaded(Source(path), environ, to_serve=to_serve)


def load_gateway(path: Path, environ: Mapping[str, str]) -> Loaded:
    """Loads the section `gateway` alone, to reach a running gateway while the rest of the file does not load."""
    source = Source(path)
    source.keep_only("gateway", "env")
    return _loaded(source, environ, to_serve=False)


def _loaded(source: Source, environ: Mapping[str, str], *, to_serve: bool) -> Loaded:
    config, looked, missing = _build(source.value, environ)
    findings = list(_judged(looked, source))
    findings += [Note(path, TWICE) for path in source.twice()]
    findings += [Note(path, OLD_AGENT) for path in source.old_names()]
    needed = _needed(missing, source.value, findings)
    away = [gap for gap in needed if not to_serve and gap.path[0] != "gateway"]
    problems = [_not_set(gap) for gap in needed if gap not in away]
    if config is not None and problems and not any(isinstance(each, Problem) for each in findings):
        raise _unloadable(problems, source, tuple(gap.name for gap in needed))
    problems += [finding for finding in findings if isinstance(finding, Problem)]
    if problems or config is None:
        raise _unloadable(problems, source)
    notes = [finding for finding in findings if isinstance(finding, Note)]
    return Loaded(
        config,
        source.path,
        True,
        source.value,
        tuple(f"{dotted(note.path)}: {note.text}" for note in notes),
        source.files,
        tuple(each for each in findings if isinstance(each, NoEffect)),
        tuple(dict.fromkeys(gap.name for gap in away)),
    )


def _needed(
    missing: list[Missing], raw: dict[str, Any], findings: list[ConfigFinding | NoEffect]
) -> list[Missing]:
    """The missing variables that are needed: not those in settings that nothing reads or that are switched off."""
    idle = [each.path for each in findings if isinstance(each, NoEffect)]
    return [
        gap
        for gap in missing
        if is_read(Config, gap.path)
        and not is_switched_off(raw, gap.path)
        and not any(gap.path[: len(path)] == path for path in idle)
    ]


def _judged(
    looked: list[ConfigFinding | Unread | NoEffect], source: Source
) -> Iterator[ConfigFinding | NoEffect]:
    """The findings, with a verdict on each key that nothing reads: it has no effect, or is refused if it was meant
    to restrict something."""
    for finding in looked:
        judged = (
            judge(finding.path, source.at(finding.path)) if isinstance(finding, Unread) else finding
        )
        if judged is not None:
            yield judged


def _is_there(path: Path) -> bool:
    """Whether there is a file. Anything but plain absence counts: reading it then says what is wrong."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _build(
    raw: dict[str, Any], environ: Mapping[str, str]
) -> tuple[Config | None, list[ConfigFinding | Unread | NoEffect], list[Missing]]:
    variables = variables_of(raw, environ)
    missing: list[Missing] = []
    values = substitute(raw, variables, missing)
    values = _env_gathered(without_references(values, variables, missing))
    hook = _hook(variables)
    try:
        config = msgspec.convert(values, Config, dec_hook=hook)
    except msgspec.ValidationError as error:
        faults = list(examine(Config, values, (), hook))
        faults += _problems(examine_channels(values.get("channels"), hook))
        return None, [*(faults or [Problem((), str(error))])], missing
    findings = [*examine(Config, values, (), None), *examine_channels(values.get("channels"), hook)]
    return config, [*findings, *_contradictions(config)], missing


def _problems(
    findings: Iterable[ConfigFinding | Unread | NoEffect],
) -> list[ConfigFinding | Unread]:
    return [each for each in findings if isinstance(each, Problem)]


def _env_gathered(values: dict[str, Any]) -> dict[str, Any]:
    """The config with variables written directly under `env` moved to `env.vars`."""
    env = values.get("env")
    if not isinstance(env, dict) or not isinstance(env.get("vars", {}), dict):
        return values
    rest = {key: child for key, child in env.items() if not isinstance(child, str)}
    return values | {"env": rest | {"vars": written_variables(values)}}


def _hook(variables: Mapping[str, str]) -> Callable[[type, Any], Any]:
    def convert(kind: type, value: Any) -> Any:
        if kind is Secret:
            return _secret(value, variables)
        if not isinstance(value, dict):
            raise ValueError(f"found {sort_of(value)}; expected an object")
        if kind is Loose:
            return Loose.of(value)
        return Secrets(
            (name, _secret_scalar(name, child, variables)) for name, child in value.items()
        )

    return convert


def _secret(value: Any, variables: Mapping[str, str]) -> Secret:
    match value:
        case str():
            return Secret(value)
        case {"source": "env", "id": str(name)} if variables.get(name):
            return Secret(variables[name])
        case {"source": str(source)}:
            raise ValueError(
                f'Crossclaw cannot read secrets from "{source}"; write "${{NAME}}" and set that variable'
            )
        case _:
            raise ValueError(
                f'found {sort_of(value)}; expected text, or {{ source: "env", id: "NAME" }}'
            )


def _secret_scalar(name: str, value: Any, variables: Mapping[str, str]) -> Secret:
    if isinstance(value, bool | int | float):
        return Secret(str(value).lower() if isinstance(value, bool) else str(value))
    try:
        return _secret(value, variables)
    except ValueError as error:
        raise ValueError(f'"{name}": {error}') from None


def _not_set(gap: Missing) -> Problem:
    return Problem(
        gap.path,
        f"the variable {gap.name} is not set; set it in the environment, in .env of the state folder or under "
        f"env.vars, or write $${{{gap.name}}} if that is the text itself",
    )


def _contradictions(config: Config) -> Iterator[ConfigFinding]:
    """What each section allows by itself and what still does not go together."""
    yield from _agent_contradictions(config)
    if config.gateway.bind == "custom" and not config.gateway.custom_bind_host:
        yield Problem(("gateway", "bind"), 'with "custom", gateway.customBindHost must be set')
    for index, binding in enumerate(config.bindings):
        if config.agents.find(binding.agent_id) is None:
            known = ", ".join(config.agents.ids())
            yield Note(
                ("bindings", index, "agentId"),
                f'no agent "{binding.agent_id}" is configured ({known}); the binding is not used',
            )
    yield from odd_patterns(_group_chats(config))
    yield from lint(config)
    yield from unsupported(config)
    for name, provider in config.models.providers.items():
        if provider.api is not None and provider.api not in APIS:
            yield _foreign_api(("models", "providers", name, "api"), provider.api)


def _group_chats(config: Config) -> Iterator[tuple[KeyPath, GroupChat]]:
    yield ("messages", "groupChat"), config.messages.group_chat
    for path, agent in each_agent(config):
        yield (*path, "groupChat"), agent.group_chat


def _agent_contradictions(config: Config) -> Iterator[ConfigFinding]:
    seen: dict[str, str] = {}
    defaults = [agent.id for agent in config.agents.all() if agent.default]
    if len(defaults) > 1:
        names = ", ".join(defaults)
        yield Note(
            ("agents", "list"), f"several agents are the default ({names}); the first is used"
        )
    for index, agent in enumerate(config.agents.listed):
        path = ("agents", "list", index, "id")
        if not agent.id:
            yield Problem(path[:-1], '"id" is missing; it must be text')
        elif agent.id in seen:
            yield Problem(path, f'the agent "{agent.id}" is already there as {seen[agent.id]}')
        seen.setdefault(agent.id, dotted(path[:-1]))
    for name in config.agents.named:
        agent_id = normalize_agent_id(name)
        if agent_id in seen:
            yield Problem(
                ("agents", "entries", name),
                f'the agent "{agent_id}" is already there as {seen[agent_id]}',
            )
        seen.setdefault(agent_id, dotted(("agents", "entries", name)))


def _foreign_api(path: tuple[str, ...], api: str) -> ConfigFinding:
    if meant := near_miss(api, set(APIS)):
        return Problem(path, f'unknown; did you mean "{meant}"?')
    return Note(path, f'Crossclaw does not speak "{api}" but {" and ".join(APIS)}; not used')


def _unloadable(
    problems: list[Problem], source: Source, variables: tuple[str, ...] = ()
) -> Unloadable:
    pairs = tuple((problem.path, _text(problem, source)) for problem in problems)
    lines = [f"{source.spot(path)}: {dotted(path) or 'the file'}: {text}" for path, text in pairs]
    meant = tuple((problem.path, problem.meant) for problem in problems if problem.meant)
    if len(lines) == 1:
        return Unloadable(lines[0], pairs, meant, variables)
    head = f"{source.path} has {len(lines)} problems:\n"
    shown = "\n".join(f"  {line}" for line in lines[:LISTED_MAX])
    more = f"\n  … and {len(lines) - LISTED_MAX} more" if len(lines) > LISTED_MAX else ""
    return Unloadable(head + shown + more, pairs, meant, variables)


def _text(problem: Problem, source: Source) -> str:
    if problem.shows_found:
        return f"found {found(source.at(problem.path))}; {problem.text}"
    return problem.text

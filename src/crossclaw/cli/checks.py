"""Checks: each examines one thing and says how it is, and what to do if there is a fault."""

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from crossclaw.cli.config import located_warnings
from crossclaw.cli.place import StateLocation, error_text, find_place, find_unread_place
from crossclaw.cli.repairs import (
    Repair,
    close_to_others,
    forget_port,
    is_old_draft,
    make_missing,
    remove_draft,
    renames,
)
from crossclaw.client.finding import PROBE_S, is_taken, local_port, named_port, served_port
from crossclaw.config import dotenv
from crossclaw.config.load import NO_EFFECT, Unloadable
from crossclaw.config.no_effect import lines_for_people
from crossclaw.config.openclaw_here import find_unimported
from crossclaw.config.paths import LEGACY_FOLDERS
from crossclaw.config.profiles import find_profiles
from crossclaw.config.providers import KNOWN_AT, NEED_KEYS, WITHOUT_KEY, ProviderEntry, model_fault
from crossclaw.config.token import TOKEN_VARIABLE
from crossclaw.disk.extras import how_to_install
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ConfigInvalid, SandboxMissing, StoreError
from crossclaw.providers.failures import key_variable
from crossclaw.providers.keys import keys_of

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from crossclaw.ledger.channels import PairedSender

Grade = Literal["ok", "warning", "error"]

SQLITE_MIN = (3, 51, 3)  # before it, a WAL reset can lose committed data
FREE_BYTES_MIN = 200 * 2**20  # a busy day's transcripts; a full disk refuses new work
DAMAGED_SHOWN_MAX = 20  # a person looks at each
LISTED_SHOWN_MAX = 10  # models; a name that was meant is seen among them


class Finding(NamedTuple):
    subject: str
    grade: Grade
    text: str
    todo: str | None = None
    """The advice, as a command if there is one; everything that is not ok has it."""
    repairs: tuple[Repair, ...] = ()
    """Repairs that `doctor --fix` can make."""


Check = Callable[[StateLocation], Iterator[Finding]]


def look_at_config() -> Iterator[Finding]:
    try:
        place = find_place(to_serve=True)
    except ConfigInvalid as error:
        if isinstance(error, Unloadable) and error.variables:
            yield _lacking(error)
            return
        todo = "Fix it; crossclaw config check looks again."
        known = renames(find_unread_place(), error) if isinstance(error, Unloadable) else []
        yield Finding("config", "error", error_text(error), todo, tuple(known))
        return
    path = place.loaded.path
    if not place.loaded.exists:
        yield Finding(
            "config", "ok", tr("none at {path}; everything at its default").format(path=path)
        )
        return
    yield Finding("config", "ok", tr("{path} is good").format(path=path))
    if listed := lines_for_people(place.loaded.no_effect):
        todo = "Nothing is unlocked by them. Leave them, or: crossclaw config unset KEY"
        yield Finding("config", "warning", "\n  ".join([NO_EFFECT, *listed]), todo)
    for line in located_warnings(place):
        yield Finding("config", "warning", line, "Look at it; the gateway starts with it as it is.")
    yield from _private(place, "config", path, 0o600)


def _lacking(error: Unloadable) -> Finding:
    """The finding for missing variables. They are often set only where the gateway runs; then nothing is wrong."""
    place = find_unread_place()
    number, names = served_port(place), ", ".join(dict.fromkeys(error.variables))
    if number and greets_as_gateway(number):
        text = f"{place.paths.config_path} is good; not set in this terminal: {names}"
        todo = f"Nothing, while the gateway runs: it has its own. For all terminals: {place.paths.state_dir}/.env"
        return Finding("config", "warning", text, todo)
    todo = f"export {names.split(', ')[0]}=…, or a line of it in {place.paths.state_dir}/.env"
    return Finding("config", "error", str(error), todo)


def environment_file(place: StateLocation) -> Iterator[Finding]:
    """Checks `.env` of the state folder."""
    path = place.paths.state_dir / dotenv.NAME
    try:
        read = dotenv.read_dotenv(path)
    except ConfigInvalid as error:
        yield Finding(dotenv.NAME, "error", str(error), f"ls -l {path}")
        return
    yield from _private(place, dotenv.NAME, path, 0o600)
    for line in read.odd[:LISTED_SHOWN_MAX]:
        text = f"{path}:{line} is not understood and read over"
        yield Finding(dotenv.NAME, "warning", text, "Write NAME=value, a line each.")


def python_version(place: StateLocation) -> Iterator[Finding]:
    yield Finding("python", "ok", sys.version.split()[0])


def sqlite_version(place: StateLocation) -> Iterator[Finding]:
    import apsw  # noqa: PLC0415  only here

    text = apsw.sqlite_lib_version()
    if tuple(map(int, text.split("."))) >= SQLITE_MIN:
        yield Finding("sqlite", "ok", text)
    else:
        yield Finding(
            "sqlite", "error", f"{text} can lose committed data", "pip install --upgrade apsw"
        )


def state_folder(place: StateLocation) -> Iterator[Finding]:
    folder = place.paths.state_dir
    if not folder.exists():
        yield Finding("state", "ok", f"{folder} is not there yet; the first start makes it")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("state", "error", f"{folder} cannot be written", f"chown it: ls -ld {folder}")
        return
    yield Finding("state", "ok", str(folder))
    yield from _private(place, "state", folder, 0o700)
    yield from _private(place, "ledger", place.paths.ledger_path, 0o600)
    secrets = place.paths.token_path.parent
    yield from _private(place, "credentials", secrets, 0o700)
    for file in sorted(secrets.glob("*")) if os.access(secrets, os.R_OK | os.X_OK) else ():
        yield from _private(place, "credentials", file, 0o700 if file.is_dir() else 0o600)
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES_MIN:
        yield Finding("disk", "warning", f"only {free // 2**20} MiB are free", "Make room soon.")


def stored_rows(place: StateLocation) -> Iterator[Finding]:
    """Reads every row of the ledger, as the gateway would."""
    path = place.paths.ledger_path
    if not path.exists():
        return
    from crossclaw.ledger.sqlite.inspecting import damaged_rows  # noqa: PLC0415  only here

    count = 0
    try:
        for damaged in damaged_rows(path):
            count += 1
            if count <= DAMAGED_SHOWN_MAX:
                text = f"{damaged.table}, {damaged.name}: {damaged.why}"
                todo = "Nothing else is hurt by it. A backup has it whole, if it was made before."
                yield Finding("ledger", "warning", text, todo)
    except (StoreError, OSError) as error:
        yield Finding("ledger", "error", str(error), "Restore a backup.")
        return
    if count > DAMAGED_SHOWN_MAX:
        more = f"{count - DAMAGED_SHOWN_MAX} more rows cannot be read"
        yield Finding("ledger", "warning", more, "Restore a backup.")
    elif not count:
        yield Finding("ledger", "ok", tr("every row can be read"))


def _private(place: StateLocation, subject: str, path: Path, mode: int) -> Iterator[Finding]:
    """Checks that a path is private. With gateway.trustGroup its group may read it; whether that is set
    stands in the config."""
    others = 0o007 if place.config.gateway.trust_group else 0o077
    if path.exists() and (found := stat.S_IMODE(path.stat().st_mode)) & others:
        repair = close_to_others(path, mode | (0o070 & ~others))
        text = f"{path} is open to others ({found:o})"
        yield Finding(subject, "warning", text, repair.command, () if place.unread else (repair,))


def token(place: StateLocation) -> Iterator[Finding]:
    if place.environ.get(TOKEN_VARIABLE):
        yield Finding("token", "ok", f"from {TOKEN_VARIABLE}")
    elif place.config.gateway.auth.token or place.config.gateway.auth.password:
        yield Finding("token", "ok", "from the config")
    elif place.paths.token_path.exists():
        yield Finding("token", "ok", str(place.paths.token_path))
    else:
        yield Finding("token", "ok", "none yet; the first start of the gateway makes one")


def folders(place: StateLocation) -> Iterator[Finding]:
    """Finds folders that the config names and that do not exist."""
    agents = place.config.agents
    for agent_id in agents.ids():
        folder = Path(os.path.normpath(place.paths.workspace(agent_id, agents)))
        if not folder.exists() and not folder.is_relative_to(place.paths.state_dir):
            text = f"{folder} is not there; the agent's first run makes it"
            repair = make_missing(folder)
            yield Finding(f"workspace of {agent_id}", "warning", text, repair.command, (repair,))


def port_file(place: StateLocation) -> Iterator[Finding]:
    path, number = place.paths.port_path, served_port(place)
    if path.is_file() and not (number and is_taken(number)):
        repair = forget_port(place)
        text = f"{path} names a gateway that does not run"
        yield Finding("gateway", "warning", text, repair.command, (repair,))


def port(place: StateLocation) -> Iterator[Finding]:
    number = local_port(place)
    if not is_taken(number):
        yield Finding("gateway", "ok", tr("does not run; port {port} is free").format(port=number))
    elif greets_as_gateway(number) and number in (served_port(place), named_port(place)):
        yield Finding("gateway", "ok", tr("runs on port {port}").format(port=number))
    elif greets_as_gateway(number):
        yield Finding(
            "gateway",
            "warning",
            f"the one on port {number} has another state folder than {place.paths.state_dir}",
            "Set gateway.port to another for this folder, or OPENCLAW_STATE_DIR to the other's.",
        )
    else:
        yield Finding(
            "gateway",
            "error",
            f"port {number} belongs to another program",
            f"See which: ss -ltnp 'sport = :{number}'; or set gateway.port to another.",
        )


def port_without_config(place: StateLocation) -> Iterator[Finding]:
    """The check of the port while the config does not load: a running gateway keeps the config before; none
    can be started with this one."""
    number = served_port(place)
    if number and greets_as_gateway(number):
        yield Finding(
            "gateway",
            "warning",
            f"runs on port {number} and goes on with the config before; it takes over the file when"
            " that is fixed",
            "Do not stop it until then: it would not start again.",
        )
        works = "message, chat, watch, sessions, cron, status and all else that asks the gateway"
    else:
        yield Finding(
            "gateway",
            "error",
            "none runs for this state folder, and none starts with this config",
            "Fix the config first, then: crossclaw gateway",
        )
        works = "config path, config check, doctor"
    yield Finding("until then", "ok", f"these work: {works}")
    yield Finding(
        "not looked at",
        "warning",
        "token, models and sandbox, which stand in the config",
        "crossclaw doctor looks at them when it is fixed.",
    )


def greets_as_gateway(number: int) -> bool:
    """Whether a gateway listens there: every one answers /health without a token, with TLS or without."""
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415

    from crossclaw.client.trust import unchecked_context  # noqa: PLC0415

    secure = HTTPSConnection("127.0.0.1", number, timeout=PROBE_S, context=unchecked_context())
    return _is_well(HTTPConnection("127.0.0.1", number, timeout=PROBE_S)) or _is_well(secure)


def _is_well(connection: "HTTPConnection") -> bool:
    from http.client import HTTPException  # noqa: PLC0415

    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def models(place: StateLocation) -> Iterator[Finding]:
    users: dict[str, list[str]] = {}
    for agent_id in place.config.agents.ids():
        chosen = place.config.model_for(agent_id, place.environ).primary
        users.setdefault(chosen, []).append(agent_id)
    for chosen, agents in users.items():
        yield from _model(place, f"model of {', '.join(agents)}", chosen)


def _model(place: StateLocation, subject: str, chosen: str) -> Iterator[Finding]:
    provider = chosen.partition("/")[0]
    entry = place.config.models.providers.get(provider)
    if fault := model_fault(place.config.models, chosen):
        yield Finding(subject, "error", fault, "No run of theirs can be answered as it stands.")
    elif provider == "rehearsal":
        todo = tr("For a model that thinks: crossclaw onboard")
        yield Finding(subject, "warning", tr("the scripted rehearsal answers"), todo)
    elif provider in NEED_KEYS and not _has_key(place, provider, entry):
        todo = tr("export {variable}=… where the gateway runs, or: crossclaw onboard")
        todo = todo.format(variable=key_variable(provider))
        todo += "; " + tr("to try without a key: {command}").format(command=WITHOUT_KEY)
        yield Finding(subject, "error", tr("{model} has no key").format(model=chosen), todo)
    elif importlib.util.find_spec("httpx2") is None:
        todo = how_to_install("models")
        yield Finding(subject, "error", f"{chosen} needs the package httpx2", todo)
    elif entry and entry.models and entry.find_model(chosen.partition("/")[2]) is None:
        listed = ", ".join(each.id for each in entry.models[:LISTED_SHOWN_MAX])
        text = f"{chosen} is not among models.providers.{provider}.models, which has {listed}"
        yield Finding(subject, "warning", text, "crossclaw doctor --models asks the service.")
    else:
        asks = "not tried; crossclaw doctor --models asks the service"
        yield Finding(subject, "ok", f"{chosen} ({asks})")


def _has_key(place: StateLocation, provider: str, entry: ProviderEntry | None) -> bool:
    if entry and (entry.api_key or entry.api_keys):
        return True
    if entry and entry.base_url and entry.base_url != KNOWN_AT.get(provider):
        return True  # a server of one's own may need none
    kept = find_profiles(place.paths.state_dir, place.config.agents.default_id, {})
    return bool(
        keys_of(provider, [], place.config.environment(place.environ)) or kept.get(provider)
    )


def leftovers(place: StateLocation) -> Iterator[Finding]:
    folder = place.paths.state_dir
    drafts = [*folder.glob(".*.draft"), *folder.glob("credentials/.gateway-token.*")]
    for draft in filter(is_old_draft, drafts):
        repair = remove_draft(draft)
        text = f"{draft} is half a write of long ago"
        yield Finding("leftover", "warning", text, repair.command, (repair,))
    if stores := find_unimported(folder):
        text = f"its sessions or jobs are in this folder and not imported yet ({', '.join(stores[:LISTED_SHOWN_MAX])})"
        todo = "crossclaw import --dry-run, then crossclaw stop and crossclaw import"
        yield Finding("OpenClaw", "warning", text, todo)
    for name in LEGACY_FOLDERS:
        old = place.paths.home / name
        if old.is_dir() and old != folder:
            text = f"{old} is an older state folder, not used"
            yield Finding("leftover", "warning", text, f"crossclaw import --dry-run {old}")


def mcp_servers(place: StateLocation) -> Iterator[Finding]:
    """Checks MCP servers that are programs here; whether one speaks MCP is seen when it is started."""
    for name, server in place.config.mcp.servers.items():
        if not server.command or server.disabled or not server.enabled:
            continue
        path = server.env["PATH"].reveal() if "PATH" in server.env else place.environ.get("PATH")
        there = shutil.which(server.command, path=path) or (server.cwd and "/" in server.command)
        if there:
            yield Finding(f"MCP server {name}", "ok", server.command)
        else:
            text = f"there is no program {server.command}, so its tools are missing"
            todo = f"Install it, or correct mcp.servers.{name}.command."
            yield Finding(f"MCP server {name}", "error", text, todo)


def held_tools(place: StateLocation) -> Iterator[Finding]:
    """Tools that changed or came after the server was first seen: no agent has them until the owner agrees."""
    path = place.paths.ledger_path
    if not path.exists():
        return
    from crossclaw.ledger.sqlite.inspecting import held_in  # noqa: PLC0415  only here

    try:
        for held in held_in(path):
            why = "is new" if held.is_new else "says something else of itself than before"
            text = f"the tool {held.tool} {why}, and is held"
            yield Finding(f"MCP server {held.server}", "warning", text, "crossclaw mcp held")
    except StoreError:
        return  # told already, with the rows


def let_in(place: StateLocation) -> "list[PairedSender]":
    """The people who may write to chat accounts by a pairing code, as far as the store here knows."""
    path = place.paths.ledger_path
    if not path.exists():
        return []
    from crossclaw.ledger.sqlite.inspecting import paired_in  # noqa: PLC0415  only here

    return paired_in(path)


def sandbox(place: StateLocation) -> Iterator[Finding]:
    agents = place.config.agents
    boxed = [name for name in agents.ids() if agents.sandbox_for(name).mode != "off"]
    yield from _open_host(place)
    if not boxed:
        return
    from crossclaw.sandbox.bubblewrap import Bubblewrap  # noqa: PLC0415  only where it is wanted

    try:
        Bubblewrap(shutil.which("bwrap", path=place.environ.get("PATH")), {}).check()
    except SandboxMissing as error:
        yield Finding(
            "sandbox",
            "error",
            str(error),
            f"The gateway does not start: {', '.join(boxed)} need it.",
        )
    else:
        yield Finding("sandbox", "ok", f"bubblewrap works, for {', '.join(boxed)}")
    yield from _rooms(place, boxed)


def _rooms(place: StateLocation, boxed: list[str]) -> Iterator[Finding]:
    """Finds what limits the workspaces of sandboxed agents to their size."""
    from crossclaw.sandbox.quota import find_quota  # noqa: PLC0415  only where it is wanted

    agents = place.config.agents
    for agent_id in boxed:
        folder, settings = place.paths.workspace(agent_id, agents), agents.sandbox_for(agent_id)
        limits, found = settings.bounds, find_quota(folder)
        about = f"workspace of {agent_id}"
        if settings.workspace_access != "rw":
            continue
        if found is not None:
            most = [f"{found.bytes // 2**20} MB"] if found.bytes else []
            most += [f"{found.files} files"] if found.files else []
            yield Finding(about, "ok", f"a quota of the kernel holds it to {' and '.join(most)}")
        elif limits.workspace_mb or limits.workspace_files:
            most = [f"{limits.workspace_mb} MB"] if limits.workspace_mb else []
            most += [f"{limits.workspace_files} files"] if limits.workspace_files else []
            text = f"held to {' and '.join(most)} by measuring it (no quota of the kernel is in force there)"
            yield Finding(about, "ok", text)
        else:
            text = "a sandboxed session may fill the disk with it, up to sandbox.limits.keepFreeMb"
            todo = "Set sandbox.limits.workspaceMb and workspaceFiles."
            yield Finding(about, "warning", text, todo)


def _open_host(place: StateLocation) -> Iterator[Finding]:
    """Checks whether commands outside of a sandbox are kept from the gateway's token."""
    agents = place.config.agents
    free = [name for name in agents.ids() if agents.sandbox_for(name).mode != "all"]
    if not free:
        return
    from crossclaw.sandbox.masked import HiddenPaths, MaskedHost  # noqa: PLC0415  only where it is wanted

    program = shutil.which("bwrap", path=place.environ.get("PATH"))
    try:
        if program is None:
            raise SandboxMissing("bubblewrap is not installed")
        if place.paths.state_dir.is_dir():
            MaskedHost(program, {}, HiddenPaths(place.paths.state_dir)).check()
    except SandboxMissing as error:
        text = (
            f"{error}; commands of {', '.join(free)} can read the gateway's token, so whoever may "
            "write to them (operator.write) is as good as the owner"
        )
        yield Finding("host", "warning", text, "Install bubblewrap, or set sandbox.mode to all.")
    else:
        yield Finding(
            "host", "ok", tr("commands outside of a sandbox cannot reach the gateway's own files")
        )


CHECKS: tuple[Check, ...] = (
    python_version,
    sqlite_version,
    state_folder,
    environment_file,
    stored_rows,
    token,
    port,
    port_file,
    folders,
    models,
    mcp_servers,
    held_tools,
    sandbox,
    leftovers,
)
CHECKS_WITHOUT_CONFIG: tuple[Check, ...] = (
    python_version,
    sqlite_version,
    state_folder,
    environment_file,
    stored_rows,
    port_without_config,
    port_file,
    leftovers,
)

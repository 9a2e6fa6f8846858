"""agents.create, update, delete and agents.files.*: agents as OpenClaw's clients and the page make and change them.

What is written is the config file, by the rules of every change over the wire: a folder of an agent's own choice, programs
and variables are named only in the file itself. The owner's words to an agent (`PROMPT_FILES`) are files of its workspace.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
import msgspec
from msgspec import UNSET, UnsetType

from crossclaw.config.agent_entries import change_agent, put_agent, remove_agent
from crossclaw.config.agents import Agents
from crossclaw.config.changing import ConfigChanges
from crossclaw.config.current import CurrentConfig
from crossclaw.disk.private import make_folder
from crossclaw.domain.agents import suggest_agent_id
from crossclaw.domain.aliases import Filled
from crossclaw.domain.errors import CrossclawError, Invalid, NotFound
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.sandbox.contract import PROMPT_FILES, WorkPlace
from crossclaw.sandbox.environment import PATH
from crossclaw.sandbox.files import find_file, replace_file
from crossclaw.sandbox.host import Host

FILES = (*PROMPT_FILES, "MEMORY.md")
FILE_BYTES_MAX = 1_000_000  # of one of them; every prompt carries it

ShortText = Annotated[str, msgspec.Meta(max_length=1_000)]
FileContent = Annotated[str, msgspec.Meta(max_length=FILE_BYTES_MAX)]


class CreateAgentParams(Params, frozen=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    workspace: str | None = None
    model: Filled | None = None
    emoji: ShortText | None = None
    avatar: ShortText | None = None
    description: ShortText | None = None
    """Ours: what it is for, in one line, which other agents read."""


class UpdateAgentParams(Params, frozen=True):
    """What is not named stays; `model: null` takes the default's. The last four are ours."""

    agent_id: Filled
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    workspace: str | None = None
    model: Filled | UnsetType | None = UNSET
    emoji: ShortText | None = None
    avatar: ShortText | None = None
    description: ShortText | UnsetType | None = UNSET
    tools: dict[str, Any] | UnsetType | None = UNSET
    budget: dict[str, Any] | UnsetType | None = UNSET
    subagents: dict[str, Any] | UnsetType | None = UNSET


class DeleteAgentParams(Params, frozen=True):
    agent_id: Filled
    delete_files: bool = False


class AgentMade(Result, frozen=True):
    ok: bool
    agent_id: str
    name: str
    workspace: str
    model: str | None = None


class AgentChanged(Result, frozen=True):
    ok: bool
    agent_id: str


class AgentDeleted(Result, frozen=True):
    ok: bool
    agent_id: str
    removed_bindings: int


class AgentParams(Params, frozen=True):
    agent_id: Filled


class FileParams(AgentParams, frozen=True):
    name: Literal[FILES]  # type: ignore[valid-type]


class GetFileParams(FileParams, frozen=True, kw_only=True):
    with_hash: bool = False
    """Ours: whether to add the hash by which `set` knows that nobody has written meanwhile."""


class SetFileParams(GetFileParams, frozen=True, kw_only=True):
    content: FileContent
    expected_hash: str | None = None


class AgentFile(Result, frozen=True):
    name: str
    path: str
    missing: bool
    size: int | None = None
    updated_at_ms: int | None = None
    content: str | None = None
    hash: str | None = None


class AgentFiles(Result, frozen=True):
    agent_id: str
    workspace: str
    files: list[AgentFile]


class OneFile(Result, frozen=True):
    agent_id: str
    workspace: str
    file: AgentFile
    ok: Literal[True] | None = None


class AgentMethods:
    def __init__(
        self,
        config: CurrentConfig,
        changes: ConfigChanges,
        workspace_in: Callable[[str, Agents], Path],
        environ: Mapping[str, str],
    ) -> None:
        self._config = config
        self._config_changes = changes
        self._workspace_in = workspace_in
        self._host = Host({"PATH": environ.get("PATH", PATH)})

    # ── who there is ───────────────────────────────────────────────────────────────────────────

    @method(
        "agents.create", "operator.admin", "change", "A new agent, with a workspace of its own."
    )
    async def create(self, caller: Caller, params: CreateAgentParams) -> AgentMade:
        agent_id = self._new_id(params.name)
        _refuse_folder(params.workspace)
        agent = _entry(agent_id, params)
        written = await self._config_changes.change(lambda file: put_agent(file, agent))
        return AgentMade(
            ok=True,
            agent_id=agent_id,
            name=params.name,
            workspace=str(self._workspace_in(agent_id, written.agents)),
            model=params.model,
        )

    @method(
        "agents.update",
        "operator.admin",
        "change",
        "Change an agent's name, model, tools or budget.",
    )
    async def update(self, caller: Caller, params: UpdateAgentParams) -> AgentChanged:
        agent_id = self._known(params.agent_id)
        _refuse_folder(params.workspace)
        changes = _changed_keys(params)
        await self._config_changes.change(lambda file: change_agent(file, agent_id, changes))
        return AgentChanged(ok=True, agent_id=agent_id)

    @method(
        "agents.delete",
        "operator.admin",
        "change",
        "Take an agent out of the config; its sessions and its workspace stay.",
    )
    async def delete(self, caller: Caller, params: DeleteAgentParams) -> AgentDeleted:
        agent_id = self._known(params.agent_id)
        agents = self._config.agents
        if agent_id == agents.default_id or len(agents.ids()) == 1:
            raise Invalid(f'"{agent_id}" is the default agent, which answers when nobody is named')
        if params.delete_files:
            raise Invalid(
                "files are deleted only on the gateway's machine; deleteFiles must be false"
            )
        removed: list[int] = []
        await self._config_changes.change(lambda file: removed.append(remove_agent(file, agent_id)))
        return AgentDeleted(ok=True, agent_id=agent_id, removed_bindings=removed[-1])

    def _new_id(self, name: str) -> str:
        agent_id = suggest_agent_id(name)
        if not agent_id:
            raise Invalid("an agent's name needs letters or digits, from which its id is made")
        if self._config.agents.has(agent_id):
            raise Invalid(f'agent "{agent_id}" already exists')
        return agent_id

    def _workspace_of(self, agent_id: str) -> Path:
        return self._workspace_in(agent_id, self._config.agents)

    def _known(self, named: str) -> str:
        agent = self._config.agents.find(named)
        if agent is None:
            raise NotFound(f'agent "{named}" not found')
        return agent.id

    # ── what the owner says to it ──────────────────────────────────────────────────────────────

    @method(
        "agents.files.list", "operator.read", "read", "The files that an agent's prompt is made of."
    )
    async def list_files(self, caller: Caller, params: AgentParams) -> AgentFiles:
        agent_id = self._known(params.agent_id)
        folder = self._workspace_of(agent_id)
        files = await anyio.to_thread.run_sync(lambda: [_listed(folder, name) for name in FILES])
        return AgentFiles(agent_id=agent_id, workspace=str(folder), files=files)

    @method("agents.files.get", "operator.read", "read", "One of these files.")
    async def get_file(self, caller: Caller, params: GetFileParams) -> OneFile:
        agent_id = self._known(params.agent_id)
        folder = self._workspace_of(agent_id)
        file = await anyio.to_thread.run_sync(lambda: _look(folder, params.name, whole=True))
        return OneFile(
            agent_id=agent_id, workspace=str(folder), file=_without_unwanted_hash(file, params)
        )

    @method("agents.files.set", "operator.admin", "change", "Write one of these files.")
    async def set_file(self, caller: Caller, params: SetFileParams) -> OneFile:
        agent_id = self._known(params.agent_id)
        folder = self._workspace_of(agent_id)
        place = WorkPlace(folder, str(folder), True, False, False, self._host)
        file = await anyio.to_thread.run_sync(_write, place, params)
        shown = _without_unwanted_hash(file, params)
        return OneFile(ok=True, agent_id=agent_id, workspace=str(folder), file=shown)


def _without_unwanted_hash(file: AgentFile, params: GetFileParams) -> AgentFile:
    """The file without its hash, unless it was asked for: OpenClaw's answer is closed."""
    return file if params.with_hash else msgspec.structs.replace(file, hash=None)


def _write(place: WorkPlace, params: SetFileParams) -> AgentFile:
    make_folder(place.folder)
    before = _look(place.folder, params.name, whole=True)
    if params.expected_hash is not None and params.expected_hash.lower() != before.hash:
        raise Invalid(f"{params.name} has changed since you looked; get it again")
    replace_file(place, params.name, params.content.encode())
    return _look(place.folder, params.name, whole=True)


def _listed(folder: Path, name: str) -> AgentFile:
    """A file's row in the list. One that an agent has replaced, for example by a link out of its workspace,
    does not hide the others; reading it says why."""
    try:
        return _look(folder, name)
    except (CrossclawError, OSError):
        return AgentFile(name=name, path=str(folder / name), missing=True)


def _look(folder: Path, name: str, *, whole: bool = False) -> AgentFile:
    path = str(folder / name)
    with find_file(folder, name) as file:
        if file is None:
            return AgentFile(name=name, path=path, missing=True, hash=_hash(b"") if whole else None)
        about = os.fstat(file.fileno())
        data = file.read(FILE_BYTES_MAX) if whole else b""
    return AgentFile(
        name=name,
        path=path,
        missing=False,
        size=about.st_size,
        updated_at_ms=int(about.st_mtime * 1000),
        content=data.decode("utf-8", "replace") if whole else None,
        hash=_hash(data) if whole else None,
    )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _entry(agent_id: str, params: CreateAgentParams) -> dict[str, Any]:
    """The agent as it is written into the config file."""
    given = {"name": params.name, "model": params.model, "description": params.description}
    looks = _filled({"emoji": params.emoji, "avatar": params.avatar})
    return {"id": agent_id} | _filled(given) | ({"identity": looks} if looks else {})


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _changed_keys(params: UpdateAgentParams) -> dict[str, Any]:
    """The values to change, by their places in the agent's entry; None takes one out."""
    changes: dict[str, Any] = {
        name: value
        for name in ("model", "description", "tools", "budget", "subagents")
        if (value := getattr(params, name)) is not UNSET
    }
    if params.name is not None:
        changes["name"] = params.name
    looks = {"emoji": params.emoji, "avatar": params.avatar}
    return changes | {f"identity.{key}": value for key, value in looks.items() if value is not None}


def _refuse_folder(workspace: str | None) -> None:
    if workspace:
        raise Invalid(
            "an agent made over the wire has its workspace in the state folder; another folder is named in the file itself"
        )

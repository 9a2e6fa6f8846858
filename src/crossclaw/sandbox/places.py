"""Places: where each session's tools work, decided anew for every call."""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.to_thread

from crossclaw.config import Config
from crossclaw.config.agents import Agents, SandboxConfig
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import ConfigInvalid, SandboxMissing
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision
from crossclaw.policy.sandbox import decide_sandbox
from crossclaw.sandbox.bubblewrap import WORKSPACE, Bubblewrap
from crossclaw.sandbox.contract import CommandLimits, WorkPlace
from crossclaw.sandbox.folder_space import LimitedFolder
from crossclaw.sandbox.host import Host
from crossclaw.sandbox.masked import HiddenPaths, MaskedHost
from crossclaw.sandbox.reach import refuse_config_within, refuse_nested

log = logging.getLogger(__name__)


class Places:
    """Decides the places. `workspace_of` returns the folder of an agent; `state_dir` is the
    gateway's own."""

    def __init__(
        self,
        config: Config,
        workspace_of: Callable[[str], Path],
        state_dir: Path,
        environ: Mapping[str, str],
        config_files: Sequence[Path] = (),
    ) -> None:
        self._config = config
        self._workspace_of = workspace_of
        self._state_dir = state_dir
        self._environ = environ
        self._program = shutil.which("bwrap", path=environ.get("PATH"))
        self._config_files = tuple(config_files)
        self._checked = False
        self._masking = anyio.Lock()
        self._unmasked: str | None = None
        """Why programs on the host can read the gateway's own files; empty: they cannot; None: not
        tried yet."""
        self._open_state: dict[str, bool] = {}
        """Whether an agent's workspace contains the gateway's own folder, by agent."""
        self._writing: dict[Path, anyio.Lock] = {}
        self._rooms: dict[tuple[Path, int, int], LimitedFolder] = {}
        self._settings: tuple[Agents, dict[str, SandboxConfig]] = (config.agents, {})
        """The sandbox settings by agent, as long as the config has these; asked for in every
        run."""

    @property
    def _agents(self) -> Agents:
        return self._config.agents

    async def prepare(self) -> None:
        """Checks at the start that the sandbox works, if an agent needs it."""
        refuse_config_within(self._config_files, self._writable())
        refuse_nested(self._workspaces(), self._boxed())
        for agent_id in self._agents.ids():
            if self._agents.sandbox_for(agent_id).mode != "off":
                self._refuse_open_state(agent_id)
                await self._check()

    def _workspaces(self) -> dict[str, Path]:
        return {agent_id: self._workspace_of(agent_id) for agent_id in self._agents.ids()}

    def _writable(self) -> dict[str, Path]:
        """The folders in which agents can write, sandboxed or not."""
        found = {"the folder of sandboxes": self._state_dir / "sandboxes"}
        for agent_id, workspace in self._workspaces().items():
            settings = self._settings_of(agent_id)
            if settings.mode != "all" or settings.workspace_access == "rw":
                found[f"the workspace of agent {agent_id}"] = workspace
        return found

    def _boxed(self) -> dict[str, Path]:
        """The folders in which sandboxed sessions can write. What a sandboxed session causes
        elsewhere is sandboxed whatever the mode there, so if one agent is, all count."""
        found = {"the folder of sandboxes": self._state_dir / "sandboxes"}
        all_settings = {each: self._settings_of(each) for each in self._agents.ids()}
        if any(settings.mode != "off" for settings in all_settings.values()):
            for agent_id, settings in all_settings.items():
                if settings.workspace_access == "rw":
                    workspace = self._workspace_of(agent_id)
                    found[f"the workspace of agent {agent_id}"] = workspace
        return found

    def decide(self, key: SessionKey, authority: Authority) -> Decision:
        return decide_sandbox(self._settings_of(key.agent_id), key, authority)

    def is_open(self, path: Path) -> bool:
        """Whether agents can write there, sandboxed or not. It reads the disk."""
        folders = [*self._workspaces().values(), self._state_dir / "sandboxes", Path(WORKSPACE)]
        real = path.resolve()
        return any(
            each.is_relative_to(folder)
            for folder in {*folders, *(folder.resolve() for folder in folders)}
            for each in (path, real)
        )

    async def of(self, key: SessionKey, authority: Authority) -> WorkPlace:
        passed = self._agents.exec_for(key.agent_id, self._config.tools.exec).pass_env or ()
        folder = self._workspace_of(key.agent_id)
        if not self.decide(key, authority).allowed:
            host = await self._host(passed)
            closed = (self._state_dir, *self._config_files)
            return WorkPlace(folder, str(folder), True, True, False, host, closed)
        settings = self._settings_of(key.agent_id)
        self._refuse_open_state(key.agent_id)
        await self._check()
        here = Authority(owner=True, workspace=settings.workspace_access)
        access = authority.meet(here).workspace
        folder = self._among(authority.workspaces, folder)
        folder = self._scratch(settings, key) if access == "none" else folder
        return WorkPlace(
            folder=folder,
            seen_as=WORKSPACE,
            writable=access != "ro",
            network=settings.allows_network and authority.network,
            sandboxed=True,
            free_bytes=settings.bounds.keep_free_mb * 2**20,
            room=self._room(folder, settings) if access != "ro" else None,
            keeps_prompt=access == "rw",
            sandbox=Bubblewrap(self._program, self._environ, passed, self._limits(settings)),
        )

    def _room(self, folder: Path, settings: SandboxConfig) -> LimitedFolder:
        """The space limit of a folder, shared by all who work there: it remembers what it has
        measured."""
        most = (settings.bounds.workspace_mb * 2**20, settings.bounds.workspace_files)
        return self._rooms.setdefault((folder, *most), LimitedFolder(folder, *most))

    def _among(self, agents: frozenset[str] | None, own: Path) -> Path:
        """The agent's own workspace if the run may see it, else that of the agent on whose behalf
        it works."""
        if agents is None:
            return own
        seen = [self._workspace_of(agent_id) for agent_id in sorted(agents)]
        return own if own in seen or not seen else seen[0]

    async def _host(self, passed: tuple[str, ...] = ()) -> Host | MaskedHost:
        """How commands run outside of a sandbox: without access to the gateway's own files, if
        bubblewrap works."""
        if await self.why_unmasked() is not None:
            return Host(self._environ, passed)
        assert self._program is not None
        return MaskedHost(self._program, self._environ, self._hidden(), passed)

    async def shield(self, command: Sequence[str]) -> Sequence[str]:
        """A program that the config names, likewise without access to the gateway's own files."""
        host = await self._host()
        if isinstance(host, MaskedHost):
            return await anyio.to_thread.run_sync(host.shield, command)
        return command

    async def why_unmasked(self) -> str | None:
        """Why commands outside of a sandbox can reach the gateway's own files; None if they
        cannot."""
        async with self._masking:
            if self._unmasked is None:
                self._unmasked = await anyio.to_thread.run_sync(self._try_mask)
        return self._unmasked or None

    def _try_mask(self) -> str:
        if self._program is None:
            return "bubblewrap is not installed"
        try:
            MaskedHost(self._program, self._environ, self._hidden()).check()
        except (SandboxMissing, OSError) as error:
            return str(error)
        return ""

    def _hidden(self) -> HiddenPaths:
        return HiddenPaths(self._state_dir, self._config_files, tuple(self._workspaces().values()))

    async def tell_of_open_host(self) -> None:
        """Warns the owner once, at the start, if programs cannot be kept from the secrets."""
        free = [each for each in self._agents.ids() if self._settings_of(each).mode != "all"]
        if not free and not self._config.mcp.servers:
            return
        if (why := await self.why_unmasked()) is not None:
            log.warning(
                "commands outside of a sandbox, and MCP servers, can read the gateway's token and its "
                "store (%s): whoever may write to an unsandboxed agent (operator.write) is as good as "
                "the owner. Install bubblewrap, or set agents.defaults.sandbox.mode to all",
                why,
            )

    def writing(self, place: WorkPlace) -> anyio.Lock:
        """A lock for one writer at a time in a folder: two edits of one file must not lose one of
        them. There are as many locks as folders in use, which are as many as agents (or sessions,
        by sandbox.scope)."""
        return self._writing.setdefault(place.folder, anyio.Lock())

    def _settings_of(self, agent_id: str) -> SandboxConfig:
        agents, known = self._settings
        if agents is not self._agents:
            agents, known = self._settings = (self._agents, {})
        if agent_id not in known:
            known[agent_id] = agents.sandbox_for(agent_id)
        return known[agent_id]

    async def _check(self) -> None:
        if not self._checked:
            probe = Bubblewrap(self._program, self._environ)
            await anyio.to_thread.run_sync(probe.check)
            self._checked = True

    def _scratch(self, settings: SandboxConfig, key: SessionKey) -> Path:
        """The folder of sessions that may not see the workspace."""
        name = {
            "session": f"session-{sha256(key.text.encode()).hexdigest()[:16]}",
            "agent": f"agent-{key.agent_id}",
            "shared": "shared",
        }[settings.scope]
        return self._state_dir / "sandboxes" / name

    def _refuse_open_state(self, agent_id: str) -> None:
        workspace = self._workspace_of(agent_id)
        if agent_id not in self._open_state:  # asked with every call; a folder's place stays
            state = self._state_dir.resolve()
            self._open_state[agent_id] = state.is_relative_to(workspace.resolve())
        if self._open_state[agent_id]:
            raise ConfigInvalid(
                f"the workspace {workspace} of agent {agent_id} holds the gateway's own folder "
                f"{self._state_dir}, which no sandboxed session may reach; choose another workspace"
            )

    def _limits(self, settings: SandboxConfig) -> CommandLimits:
        limits = settings.bounds
        return CommandLimits(
            memory_bytes=limits.memory_mb * 2**20,
            processes=limits.processes,
            file_bytes=limits.file_mb * 2**20,
            free_bytes=limits.keep_free_mb * 2**20,
            ledger=self._state_dir,
        )

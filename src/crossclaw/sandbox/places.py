"""Places: where each session's tools work, decided for every call anew."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.to_thread

from crossclaw.config import Config
from crossclaw.config.agents import Agents, Sandbox
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import ConfigInvalid
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.decision import Decision
from crossclaw.policy.sandbox import decide_sandbox
from crossclaw.sandbox.bubblewrap import WORKSPACE, Bubblewrap
from crossclaw.sandbox.contract import Limits, Place
from crossclaw.sandbox.host import Host
from crossclaw.sandbox.reach import refuse_config_within, refuse_nested


class Places:
    """`workspace_of` answers the folder of an agent; `state_dir` is the gateway's own."""

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
        self._open_state: dict[str, bool] = {}
        """By agent: whether its workspace holds the gateway's own folder."""
        self._writing: dict[Path, anyio.Lock] = {}
        self._settings: tuple[Agents, dict[str, Sandbox]] = (config.agents, {})
        """By agent, as long as the config has these; asked for in every run."""

    @property
    def _agents(self) -> Agents:
        return self._config.agents

    async def prepare(self) -> None:
        """At the start: where an agent is to be sandboxed, the sandbox must work."""
        refuse_config_within(self._config_files, self._writable())
        refuse_nested(self._workspaces(), self._boxed())
        for agent_id in self._agents.ids():
            if self._agents.sandbox_for(agent_id).mode != "off":
                self._refuse_open_state(agent_id)
                await self._check()

    def _workspaces(self) -> dict[str, Path]:
        return {agent_id: self._workspace_of(agent_id) for agent_id in self._agents.ids()}

    def _writable(self) -> dict[str, Path]:
        """Where agents can write, sandboxed or not."""
        found = {"the folder of sandboxes": self._state_dir / "sandboxes"}
        for agent_id, workspace in self._workspaces().items():
            settings = self._settings_of(agent_id)
            if settings.mode != "all" or settings.workspace_access == "rw":
                found[f"the workspace of agent {agent_id}"] = workspace
        return found

    def _boxed(self) -> dict[str, Path]:
        """Where sandboxed sessions can write. What a sandboxed session causes elsewhere is sandboxed whatever
        the mode there, so where one agent is, all count."""
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

    async def of(self, key: SessionKey, authority: Authority) -> Place:
        passed = self._agents.exec_for(key.agent_id, self._config.tools.exec).pass_env or ()
        folder = self._workspace_of(key.agent_id)
        if not self.decide(key, authority).allowed:
            host = Host(self._environ, passed)
            closed = (self._state_dir, *self._config_files)
            return Place(folder, str(folder), True, True, False, host, closed)
        settings = self._settings_of(key.agent_id)
        self._refuse_open_state(key.agent_id)
        await self._check()
        access = settings.workspace_access
        return Place(
            folder=self._scratch(settings, key) if access == "none" else folder,
            seen_as=WORKSPACE,
            writable=access != "ro",
            network=settings.allows_network,
            sandboxed=True,
            free_bytes=settings.bounds.keep_free_mb * 2**20,
            keeps_prompt=access == "rw",
            sandbox=Bubblewrap(self._program, self._environ, passed, _limits(settings)),
        )

    def writing(self, place: Place) -> anyio.Lock:
        """One writer at a time in a folder: two edits of one file must not lose one of them. As many
        locks as folders are in use, which are as many as agents (or sessions, by sandbox.scope)."""
        return self._writing.setdefault(place.folder, anyio.Lock())

    def _settings_of(self, agent_id: str) -> Sandbox:
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

    def _scratch(self, settings: Sandbox, key: SessionKey) -> Path:
        """The folder of those who may not see the workspace."""
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


def _limits(settings: Sandbox) -> Limits:
    limits = settings.bounds
    free = limits.keep_free_mb * 2**20
    return Limits(limits.memory_mb * 2**20, limits.processes, limits.file_mb * 2**20, free)

"""Paths: the place of everything on disk, decided once from the environment and the home folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from crossclaw.config.agents import Agents
from crossclaw.config.doors import Logging

STATE_FOLDER = ".openclaw"
LEGACY_FOLDERS = (".clawdbot", ".moltbot")


class Paths(msgspec.Struct, frozen=True):
    home: Path
    state_dir: Path
    config_path: Path

    @property
    def sessions_dir(self) -> Path:
        """Transcripts for people: `<agent>/<session id>.jsonl`."""
        return self.state_dir / "sessions"

    @property
    def ledger_path(self) -> Path:
        return self.state_dir / "crossclaw.sqlite"

    @property
    def token_path(self) -> Path:
        return self.state_dir / "credentials" / "gateway-token"

    @property
    def config_epoch_path(self) -> Path:
        """The file with the number of the config that this gateway has taken over from others that share its
        ledger."""
        return self.state_dir / "config-epoch"

    @property
    def port_path(self) -> Path:
        """The file with the port of the gateway that serves this folder, while it does."""
        return self.state_dir / "gateway.port"

    @property
    def fingerprint_path(self) -> Path:
        """The file with the fingerprint of its certificate, while it serves with TLS."""
        return self.state_dir / "gateway.fingerprint"

    @property
    def certificate_dir(self) -> Path:
        """The folder of a generated certificate and its key. OpenClaw's own place."""
        return self.state_dir / "gateway" / "tls"

    def channel_folder(self, channel: str, account_id: str) -> Path:
        """The folder of a chat account, for example with the keys of its device."""
        return self.state_dir / "channels" / quote(channel, safe="") / quote(account_id, safe="")

    def log_path(self, logging: Logging) -> Path:
        """The log's path: what the section `logging` names, or beside the state."""
        if logging.file:
            return self.resolve(logging.file)
        return self.state_dir / "logs" / "gateway.log"

    def workspace(self, agent_id: str, agents: Agents) -> Path:
        """The agent's workspace: its own setting; else the shared one for the default agent, else one each."""
        agent = agents.get(agent_id)
        is_default = agent.id == agents.default_id
        written = agent.workspace or (agents.defaults.workspace if is_default else None)
        if written:
            return self.resolve(written)
        return self.state_dir / ("workspace" if is_default else f"workspace-{agent.id}")

    def resolve(self, written: str) -> Path:
        """A path of the config file: `~` is home, and a relative one is relative to that file."""
        return self.config_path.parent / _expanded(written, self.home)


def find_paths(
    environ: Mapping[str, str], home: Path, is_dir: Callable[[Path], bool] = Path.is_dir
) -> Paths:
    state = _state_dir(environ, home, is_dir)
    config = _set(environ, "OPENCLAW_CONFIG_PATH", home)
    return Paths(home, state, config or state / "openclaw.json")


def _state_dir(environ: Mapping[str, str], home: Path, is_dir: Callable[[Path], bool]) -> Path:
    given = _set(environ, "OPENCLAW_STATE_DIR", home) or _set(environ, "CLAWDBOT_STATE_DIR", home)
    if given:
        return given
    current = home / STATE_FOLDER
    if is_dir(current):
        return current
    return next(filter(is_dir, (home / name for name in LEGACY_FOLDERS)), current)


def _set(environ: Mapping[str, str], name: str, home: Path) -> Path | None:
    text = environ.get(name, "").strip()
    return _expanded(text, home).absolute() if text else None


def _expanded(text: str, home: Path) -> Path:
    """The path with `~` replaced by the given home, not by that of this process."""
    path = Path(text)
    return home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path

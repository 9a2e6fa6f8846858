"""Where things lie on disk."""

from pathlib import Path

from crossclaw.config import find_paths
from crossclaw.config.agents import AgentConfig, AgentDefaults, Agents

HOME = Path("/home/me")


def nowhere(_path: Path) -> bool:
    return False


def test_everything_lies_under_openclaws_folder() -> None:
    paths = find_paths({}, HOME, nowhere)
    assert paths.state_dir == HOME / ".openclaw"
    assert paths.config_path == HOME / ".openclaw/openclaw.json"
    assert paths.sessions_dir == HOME / ".openclaw/sessions"
    assert paths.ledger_path == HOME / ".openclaw/crossclaw.sqlite"
    assert paths.token_path == HOME / ".openclaw/credentials/gateway-token"


def test_variables_move_the_state_and_the_config() -> None:
    environ = {"OPENCLAW_STATE_DIR": "~/state", "OPENCLAW_CONFIG_PATH": "/etc/claw.json"}
    paths = find_paths(environ, HOME, nowhere)
    assert paths.state_dir == HOME / "state"
    assert paths.config_path == Path("/etc/claw.json")
    assert find_paths({"OPENCLAW_STATE_DIR": "/s"}, HOME, nowhere).config_path == Path(
        "/s/openclaw.json"
    )


def test_blank_variables_are_not_set() -> None:
    paths = find_paths({"OPENCLAW_STATE_DIR": " ", "OPENCLAW_CONFIG_PATH": ""}, HOME, nowhere)
    assert paths.config_path == HOME / ".openclaw/openclaw.json"


def test_an_older_folder_is_used_only_when_it_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / ".clawdbot").mkdir()
    assert find_paths({}, tmp_path).state_dir == tmp_path / ".clawdbot"
    (tmp_path / ".openclaw").mkdir()
    assert find_paths({}, tmp_path).state_dir == tmp_path / ".openclaw"


def test_each_agent_has_its_workspace() -> None:
    paths = find_paths({}, HOME, nowhere)
    agents = Agents(
        listed=(
            AgentConfig(id="main"),
            AgentConfig(id="work"),
            AgentConfig(id="own", workspace="~/own"),
        )
    )
    assert paths.workspace("main", agents) == HOME / ".openclaw/workspace"
    assert paths.workspace("work", agents) == HOME / ".openclaw/workspace-work"
    assert paths.workspace("own", agents) == HOME / "own"


def test_the_shared_workspace_setting_is_the_default_agents() -> None:
    paths = find_paths({"OPENCLAW_CONFIG_PATH": "/etc/claw/openclaw.json"}, HOME, nowhere)
    agents = Agents(
        defaults=AgentDefaults(workspace="rooms/main"),
        listed=(AgentConfig(id="a"), AgentConfig(id="b", default=True)),
    )
    assert paths.workspace("b", agents) == Path("/etc/claw/rooms/main")
    assert paths.workspace("a", agents) == HOME / ".openclaw/workspace-a"

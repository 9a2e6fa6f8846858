"""What a config may say and hardly means is told, and keeps nobody from starting."""

from pathlib import Path

import pytest

from crossclaw.config import Config, load
from crossclaw.config.lint import lint
from crossclaw.config.toolnames import KNOWN
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway

TWO = "list: [{ id: 'main' }, { id: 'librarian' }]"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("{ tools: { deny: ['exce'] } }", 'tools.deny[0]: "exce" names no known tool; did you mean "exec"?'),
        ("{ tools: { deny: ['shell'] } }", 'tools.deny[0]: "shell" names no known tool'),
        (
            "{ tools: { allow: ['group:fss'] } }",
            'tools.allow[0]: "group:fss" names no known tool; did you mean "group:fs"?',
        ),
        (
            f"{{ agents: {{ {TWO} }}, tools: {{ agentToAgent: {{ allow: ['main', 'libarian'] }} }} }}",
            'tools.agentToAgent.allow[1]: "libarian" names no known agent; did you mean "librarian"?',
        ),
        (
            "{ agents: { list: [{ id: 'main', subagents: { allowAgents: ['nobody'] } }] } }",
            'agents.list[0].subagents.allowAgents[0]: "nobody" names no known agent',
        ),
        (
            "{ agents: { entries: { main: { tools: { deny: ['wirte'] } } } } }",
            'agents.entries.main.tools.deny[0]: "wirte" names no known tool; did you mean "write"?',
        ),
        (
            "{ agents: { defaults: { userTimezone: 'Viena' } } }",
            'there is no time zone "Viena", so the machine\'s own is used; did you mean "Europe/Vienna"?',
        ),
        ("{ hooks: { enabled: true, token: 'short' } }", "hooks.token: short enough to be guessed"),
        ("{ cron: { enabled: true }, cron: { enabled: false } }", "cron: written twice"),
        ("{ agents: { defaults: { model: 'x' } } }", "agents.defaults.model: 'x' names no model"),
        (
            "{ agents: { defaults: { model: { primary: 'local/a', fallbacks: ['nosuch/b'] } } } }",
            "agents.defaults.model.fallbacks[0]: unknown provider 'nosuch'",
        ),
    ],
)  # fmt: skip
def test_what_names_nobody_is_told(tmp_path: Path, text: str, warning: str) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    (told,) = load(path, {}).warnings
    assert warning in told
    assert "short" not in told.replace("short enough", "")  # no secret is shown


@pytest.mark.parametrize(
    "text",
    [
        "{ tools: { deny: ['sess*', 'group:plugins', 'bash', 'docs__search', 'docs__*', 'Exec'] } }",
        "{ tools: { allow: ['browser', 'canvas', 'apply-patch', '*'] } }",
        "{ tools: { agentToAgent: { allow: ['*', 'team-*', 'main'] } } }",
        "{ agents: { defaults: { subagents: { allowAgents: ['*', ' Main '] } } } }",
        "{ agents: { defaults: { userTimezone: 'Europe/Vienna', model: 'anthropic/claude-x' } } }",
        "{ agents: { defaults: { model: 'mine/x' } }, models: { providers: { mine: {} } } }",
        "{ logging: { level: 'debug' }, hooks: { enabled: false, token: 'short' } }",
        "{ cron: { enabled: true }, hooks: { enabled: false } }",
    ],
)
def test_what_can_be_meant_is_not_doubted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    assert load(path, {}).warnings == ()


async def test_every_tool_of_the_gateway_is_a_known_name(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, RehearsalProvider()) as gateway:
        assert set(gateway.toolsets.known) <= KNOWN


def test_the_defaults_raise_no_doubt() -> None:
    assert list(lint(Config())) == []

"""What a config says and nobody here reads: one list, rights first; and a lock that nothing keeps is refused."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from crossclaw.cli.checks import look_at_config
from crossclaw.cli.gateway import warn
from crossclaw.cli.main import main
from crossclaw.cli.place import find_place
from crossclaw.config import load
from crossclaw.config.load import NO_EFFECT
from crossclaw.config.no_effect import REFUSED, RIGHTS, lines_for_people
from crossclaw.domain.errors import ConfigInvalid

GROWN = Path(__file__).parent / "grown_openclaw.json5"
PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text("utf-8")
VARIABLES = {"TELEGRAM_TOKEN": "t", "GATEWAY_TOKEN": "g", "ZAI_API_KEY": "z"}


def refusal(folder: Path, text: str) -> str:
    (folder / "openclaw.json").write_text(text)
    with pytest.raises(ConfigInvalid) as refused:
        load(folder / "openclaw.json", {})
    return str(refused.value)


def test_what_touches_rights_is_told_first_with_what_holds_instead() -> None:
    listed = lines_for_people(load(GROWN, VARIABLES).no_effect)
    assert listed[0] == "touches rights:"
    rights = [line for line in listed if line.startswith("  ")]
    assert listed[1 : len(rights) + 1] == rights
    assert "  tools.elevated: no command gets more rights than its agent has" in rights
    assert "  commands.useAccessGroups: commands.allowFrom says who may use commands" in rights
    assert all(": " in line for line in rights)
    channels, other = listed[len(rights) + 1 :]
    assert channels.startswith("channels: ")
    assert {"broadcast", "messages.tts"} <= set(channels[10:].split(", "))
    assert other.startswith("other: ")
    assert "browser" in other


def test_what_is_so_anyway_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(
        "{ tools: { fs: { workspaceOnly: true } }, commands: { bash: false }, hooks: { presets: ['gmail'] } }"
    )
    assert load(path, {}).all_warnings == ()
    path.write_text("{ tools: { fs: { workspaceOnly: false } } }")
    (told_once,) = load(path, {}).all_warnings
    assert "tools.fs: files are always those of the workspace" in told_once


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{ tools: { toolsBySender: { '*': { deny: ['exec'] } } } }", "tools.toolsBySender"),
        ("{ agents: { defaults: { tools: { deny: ['exec'] } } } }", "agents.defaults.tools"),
        ("{ mcp: { servers: { x: { url: 'http://h', tools: { include: ['a'] } } } } }", "mcp.servers.x.tools"),
        ("{ tools: { bash: { security: 'deny' } } }", "tools.bash"),
        ("{ hooks: { presets: ['gmial'] } }", "hooks.presets[0]"),
    ],
)  # fmt: skip
def test_a_lock_or_a_way_in_that_is_not_here_is_refused_by_its_line(
    tmp_path: Path, text: str, key: str
) -> None:
    assert refusal(tmp_path, f"\n{text}").startswith(f"{tmp_path / 'openclaw.json'}:2: {key}: ")


def test_the_run_the_check_and_the_doctor_print_the_same_list_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "openclaw.json").write_text(
        "{ ui: {a: 1}, channels: { googlechat: { enabled: true } }, tools: { elevated: { enabled: true } } }"
    )
    wanted = "\n  ".join(
        [
            *(NO_EFFECT, "touches rights:"),
            "  tools.elevated: no command gets more rights than its agent has",
            *("channels: channels.googlechat", "other: ui"),
        ]
    )
    warn(find_place())
    assert capsys.readouterr().err.count(wanted) == 1
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out.count(wanted) == 1
    (finding,) = [each for each in look_at_config() if each.text == wanted]
    assert finding.todo


SETTINGS, UNREAD = PAGE.split("## What has no effect")
UNREAD_KEYS = set(re.findall(r"`([^` ]+)`(?= \||,|$| \()", UNREAD, re.M))
"""As docs/config.md lists them; another test holds that page to what the code says."""


def test_a_field_that_says_it_has_no_effect_is_in_the_list_and_no_other() -> None:
    known = dict(re.findall(r"^\| `([^`]+)` \|.*\| (.*) \|$", SETTINGS, re.M))
    silent = {key for key, words in known.items() if words.startswith("No effect")}
    assert silent == UNREAD_KEYS & set(known)
    assert len(silent) > 20


def test_every_rule_about_rights_is_about_a_key_that_is_known() -> None:
    names = [key.replace("[]", "") for key in UNREAD_KEYS]
    assert [each for each in RIGHTS | REFUSED if not any(fnmatchcase(n, each) for n in names)] == []

"""The page about tools says what the program does."""

import os
import re
from pathlib import Path

import anyio
import pytest

from crossclaw.config.load import load
from crossclaw.config.supported import refuse_unsupported
from crossclaw.domain.tools import GROUP_RULES
from crossclaw.testing import ScriptedProvider, open_gateway
from tests import starting
from tests.docs.test_examples import ROOT, commands_of

PAGE = ROOT / "docs" / "agent-tools.md"
TEXT = PAGE.read_text("utf-8")
CONFIGS = re.findall(r"```json5\n(.*?)```", TEXT, re.S)


def test_the_table_has_the_tools_that_there_are(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`.+?`) \| (pure|once|effects) \|", TEXT, re.M)
    named = {name: effect for names, effect in rows for name in re.findall(r"`(\w+)`", names)}

    async def look() -> dict[str, str]:
        async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
            return {name: tool.effect for name, tool in gateway.toolsets.known.items()}

    assert named == anyio.run(look)


@pytest.mark.parametrize("text", CONFIGS)
def test_a_config_on_the_page_is_understood_to_the_last_key(text: str, tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text(text, "utf-8")

    loaded = load(tmp_path / "openclaw.json", {})

    assert loaded.warnings == ()
    refuse_unsupported(loaded.config)


def test_groups_on_the_page_exist() -> None:
    assert set(re.findall(r"group:\w+", TEXT)) <= GROUP_RULES


@pytest.mark.spec("V4")
@pytest.mark.parametrize("config", ["{}", CONFIGS[2].replace("non-main", "all")])
def test_the_commands_on_the_page_work_with_and_without_a_sandbox(
    config: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "openclaw.json").write_text(config, "utf-8")
    environ = {**os.environ, "OPENCLAW_STATE_DIR": str(state), "OPENCLAW_GATEWAY_PORT": "1"}

    shown = ""
    for _, *words in commands_of(PAGE):
        done = starting.run(("crossclaw", *words), env=environ, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, done.stderr
        shown += done.stdout

    assert shown.count("hello") == 2
    assert (state / "workspace" / "note.txt").read_text("utf-8") == "hello\n"


@pytest.mark.spec("V4")
def test_a_missing_sandbox_is_told_to_the_person_who_starts_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "openclaw.json").write_text(CONFIGS[2], "utf-8")
    environ = {"PATH": str(tmp_path), "OPENCLAW_STATE_DIR": str(state), "HOME": str(tmp_path)}

    command = ("crossclaw", "gateway", "--port", "0")
    done = starting.run(command, env=environ, cwd=tmp_path, timeout=60)

    assert done.returncode != 0
    assert "apt install bubblewrap" in done.stderr
    assert "Traceback" not in done.stderr

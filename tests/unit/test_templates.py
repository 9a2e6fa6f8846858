"""What CONTRIBUTING.md says about adding something is true: one of each is added to a copy, and works there."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from dev import add

ROOT = Path(__file__).parents[2]
ADDED = {
    "session-tool": "sessions_pin",
    "tool": "word_count",
    "method": "sessions.peek",
    "channel": "pigeon",
    "migration": "letters",
    "view": "notes",
}
NEW = ("sessions_pin", "word_count", "sessions_peek")
USED = """
import json, sys
from pathlib import Path
import anyio, apsw
from crossclaw.channels.pigeon.account import PLATFORM as pigeon
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.domain.messages import Text, ToolResultMessage, ToolUse
from crossclaw.domain.tools import SESSION_TOOLS
from crossclaw.door.principal import person_principal
from crossclaw.door.registry import Caller
from crossclaw.testing import ScriptedProvider, open_gateway

async def main(folder):
    section = {"token": "ring", "dmPolicy": "open", "allowFrom": ["*"]}
    config = Config(channels=Loose.of({"pigeon": section}))
    calls = [Text("Let me see."), ToolUse("a", "sessions_pin", {}), ToolUse("b", "word_count", {"text": "one two"})]
    model = ScriptedProvider([calls, "Done."])
    async with open_gateway(folder, model, config=config, inline=False) as gateway:
        await pigeon.type_in("ana", "what is here?", "1")
        while not pigeon.shown:
            await anyio.sleep(0.01)
        owner = Caller(principal=person_principal("cli", {"operator.admin"}))
        peeked = await gateway.door.dispatch(owner, "sessions.peek", {"key": "main"})
        entries = await gateway.ledger.list_entries(peeked.session_id, limit=9)
    results = [entry.message.content for entry in entries if isinstance(entry.message, ToolResultMessage)]
    db = apsw.Connection(str(folder / "state" / "crossclaw.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name = 'letters'")]
    print(json.dumps([pigeon.shown, results, peeked.key, tables, sorted(SESSION_TOOLS & {"sessions_pin"})]))

anyio.run(main, Path(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With its compiled files: they are as good as those here."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", root / "src")
    shutil.copytree(ROOT / "dev" / "templates", root / "dev" / "templates")
    for kind, name in ADDED.items():
        assert add.main([kind, name], root, lambda line: None) == 0
    return root


def test_a_tool_a_method_a_channel_and_a_migration_that_were_added_from_templates_work(
    copy: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", USED, str(tmp_path)],
        capture_output=True,
        text=True,
        env=dict(os.environ) | {"PYTHONPATH": str(copy / "src")},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    shown, results, key, tables, closed = json.loads(done.stdout)
    assert shown == [["ana", "Done."]]
    assert results[0]["sessionKey"] == "main"
    assert results[1] == "2 words"
    assert key == "agent:main:main"
    assert tables == ["letters"]
    assert closed == ["sessions_pin"]


def test_the_test_that_contributing_shows_passes_as_it_stands(copy: Path, tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    code = textwrap.dedent("   " + text.split("```py\n   ")[1].split("   ```")[0])
    (tmp_path / "test_sessions_pin.py").write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)],
        capture_output=True,
        text=True,
        env=dict(os.environ) | {"PYTHONPATH": str(copy / "src")},
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_what_was_added_is_written_as_everything_else(copy: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    new = [
        str(file)
        for file in (copy / "src").rglob("*.py")
        if file.stem in NEW or file.parent.name == "pigeon"
    ]
    for words in (["check", "-q"], ["format", "-q", "--check"]):
        done = subprocess.run(
            [
                ruff,
                *words,
                "--config",
                str(ROOT / "pyproject.toml"),
                *new,
                str(copy / add.BUILDING),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    assert len(new) == 7


def test_what_cannot_be_added_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add.main(["tool", "Read File"], tmp_path) == 1
    assert add.main(["wing", "left"], tmp_path) == 1

    told = capsys.readouterr().err
    assert "'Read File' is no name for a tool; one is word_count" in told
    assert "kinds: session-tool, tool, method, channel, migration, view" in told
    assert not list(tmp_path.iterdir())


def test_contributing_names_every_kind_with_the_files_it_touches() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for name, kind in add.KINDS.items():
        section = re.search(
            rf"^### [^\n]*\(`make new KIND={name}[^\n]*\n(.*?)(?=^##)", text, re.M | re.S
        )
        assert section, name
        for line in kind.lines:
            assert line.file.removeprefix(add.SRC) in section[1], (name, line.file)


def test_the_template_of_a_view_imports_what_the_page_has() -> None:
    template = (ROOT / "dev" / "templates" / "view.js.txt").read_text("utf-8")
    imported = re.findall(r'^import \{ (.+) \} from "\./(.+)";$', template, re.M)
    assert imported
    for names, module in imported:
        text = (ROOT / "src" / "crossclaw" / "web" / module).read_text("utf-8")
        exported = set(re.findall(r"^export (?:const|class|(?:async )?function) (\w+)", text, re.M))
        assert set(names.split(", ")) <= exported, module

"""The examples in our pages work as printed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from crossclaw.cli.commands import TREE
from crossclaw.cli.exits import MEANINGS
from tests import starting
from tests.process.program import Folder

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRANSLATIONS = sorted(ROOT.glob("README.*.md"))
CLIENT = "from crossclaw.client import"


def examples_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S)


EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(examples_of(page), 1)
    if CLIENT not in code  # these need a gateway: below
]
WITH_A_GATEWAY = [ROOT / "README.md", ROOT / "docs" / "client.md"]


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_python_example_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def run_with_a_gateway(codes: list[str], home: Path) -> list[str]:
    """What they print, one after the other."""
    folder = Folder(home)
    environ = {"HOME": str(home), "OPENCLAW_STATE_DIR": str(folder.state)}
    with folder.serve():
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(codes)],
            capture_output=True,
            text=True,
            env=dict(os.environ) | environ,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_examples_of_the_client_run_one_after_the_other_against_a_gateway(
    tmp_path: Path,
) -> None:
    codes = examples_of(ROOT / "docs" / "client.md")
    printed = run_with_a_gateway(codes, tmp_path)

    assert len(codes) == 6
    assert all(CLIENT in code for code in codes)
    assert printed[:3] == ["Good day!", "[sessions_list]", "One session. ok"]
    assert any("['0', '1', '2']" in line for line in printed)
    assert printed[-3:] == ["error no luck", "no reply within 0.1 s; the run goes on", "Late."]


def test_the_readme_shows_the_client_first(tmp_path: Path) -> None:
    first, *others = examples_of(ROOT / "README.md")

    assert run_with_a_gateway([first], tmp_path) == ["ok Good day!"]
    assert not any(CLIENT in code for code in others)


def test_examples_that_need_a_gateway_stand_where_they_get_one() -> None:
    pages = [page for page in PAGES if any(CLIENT in code for code in examples_of(page))]

    assert pages == WITH_A_GATEWAY


def test_the_first_example_shows_a_reply_and_its_transcript(tmp_path: Path) -> None:
    code = str(EXAMPLES[0].values[0])
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )

    assert shown.stdout.startswith("ok Good morning!\n")
    assert '"type":"session"' in shown.stdout


@pytest.mark.parametrize(
    "page",
    [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        *TRANSLATIONS,
        *PAGES[1:],
    ],
    ids=lambda p: p.name,
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text("utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_in_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {
        name
        for page in [*PAGES, *TRANSLATIONS]
        for name in re.findall(r"\bmake ([a-z-]+)\b", page.read_text("utf-8"))
    }

    assert named - targets <= {"it", "sure"}


def commands_of(page: Path) -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.S)
    return [
        shlex.split(line[2:])
        for block in blocks
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def test_the_first_two_minutes_are_the_same_commands_in_every_language() -> None:
    """What people type is the same but for words of their own, and every command is one that there is."""
    first = [_bare(words) for words in commands_of(ROOT / "README.md")]

    assert [page.suffixes[0] for page in TRANSLATIONS] == [".es", ".it", ".pt"]
    assert ["crossclaw", "onboard"] in first
    for page in TRANSLATIONS:
        assert [_bare(words) for words in commands_of(page)] == first
        named = re.findall(r"`crossclaw ([a-z]+)", page.read_text("utf-8"))
        assert set(named) <= TREE.keys()


def _bare(words: list[str]) -> list[str]:
    """Without comments, texts in quotes and names."""
    words = words[: words.index("#")] if "#" in words else words
    bare = [word for word in words if " " not in word]
    return [*bare[:3], "<id>", *bare[4:]] if bare[1:3] == ["agents", "add"] else bare


@pytest.mark.timeout(300)  # some twenty programs one after the other, on a machine that may be busy
@pytest.mark.parametrize("page", ["cli.md", "cron-and-hooks.md"])
def test_the_commands_of_a_page_work_in_their_order(page: str, tmp_path: Path) -> None:
    environ = {**os.environ, "OPENCLAW_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    environ |= {"OPENCLAW_GATEWAY_PORT": "1"}  # nobody listens there: each call works alone
    commands = commands_of(ROOT / "docs" / page)
    assert len(commands) >= 5

    for _, *words in commands:
        done = starting.run(("crossclaw", *words), env=environ, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert done.stdout.strip()


def test_the_exit_codes_on_the_page_are_the_programs_own() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "cli.md").read_text("utf-8"), re.M)

    assert {int(code): meaning for code, meaning in rows} == {
        code.value: meaning for code, meaning in MEANINGS.items()
    }


@pytest.mark.spec("V2")
def test_the_explanation_on_the_visibility_page_is_what_is_printed(tmp_path: Path) -> None:
    environ = {**os.environ, "OPENCLAW_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    environ |= {"OPENCLAW_GATEWAY_PORT": "1"}  # nobody listens there: each call works alone
    environ |= {"COLUMNS": "80"}
    page = ROOT / "docs" / "visibility.md"
    (printed,) = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.S)

    for _, *words in commands_of(page):
        done = starting.run(("crossclaw", *words), env=environ, cwd=tmp_path, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stderr}"

    assert done.stdout == printed

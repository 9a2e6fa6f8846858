"""Makes the terminal pictures of the README from real runs: `make pictures`."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "pictures"
COLUMNS = 92
CROSSCLAW = [sys.executable, "-m", "crossclaw.cli.main"]
HIDDEN = {
    r"/tmp/[\w.-]*?/sessions": "/tmp/crossclaw-demo-…/sessions",
    r"[0-9a-f]{8}-[0-9a-f-]{27}": "01a1de…",
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    _draw_channels()
    with tempfile.TemporaryDirectory() as state:
        home = {**os.environ, "OPENCLAW_STATE_DIR": state, "COLUMNS": str(COLUMNS)}
        _draw("demo", "make demo", [_run(["demo"], home)])
        _run(["agents", "add", "librarian", "--name", "The librarian"], home)
        ask = 'tool: sessions_send {"agentId": "librarian", "message": "say: Shelf nine."}'
        story = [
            ["message", "send", ask],
            ["sessions", "list"],
            ["message", "send", "hi", "--agent", "nobody"],
        ]
        _draw(
            "message",
            "crossclaw message send",
            [_typed(words, _run(words, home)) for words in story],
        )


def _draw_channels() -> None:
    """Two people on two chat platforms, and what their agents said to each other between."""
    command = [sys.executable, "-m", "tests.channels.story"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    story = json.loads(done.stdout.splitlines()[-1])
    heads = {"matrix": "Matrix: Ann", "between": "sessions_send", "telegram": "Telegram: Ben"}
    table = Table.grid(expand=True, padding=(0, 1))
    for _ in heads:
        table.add_column(ratio=1)
    table.add_row(*(Panel(_said(story[name]), title=head) for name, head in heads.items()))
    _record("channels", "two agents on two chat platforms", [table])


def _said(lines: list[list[str]]) -> Text:
    colours = {"main": "cyan", "librarian": "green"}
    words = Text()
    for who, text in lines:
        words.append(f"{who}\n", style=f"bold {colours.get(who, 'white')}")
        words.append(f"{text}\n\n")
    words.rstrip()
    return words


def _run(words: list[str], environ: dict[str, str]) -> str:
    done = subprocess.run(
        [*CROSSCLAW, *words], capture_output=True, text=True, env=environ, check=False
    )
    shown = (done.stderr + done.stdout).replace(
        "no gateway runs; working without one for this call (crossclaw gateway starts one)\n", ""
    )
    for pattern, short in HIDDEN.items():
        shown = re.sub(pattern, short, shown)
    return shown.strip()


def _typed(words: list[str], shown: str) -> str:
    line = " ".join(f"'{word}'" if " " in word else word for word in words)
    return f"$ crossclaw {line}\n{shown}\n"


def _draw(name: str, title: str, parts: list[str]) -> None:
    _record(name, title, [Text.from_ansi(part) for part in parts])


def _record(name: str, title: str, parts: Sequence[RenderableType]) -> None:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: SIM115  ends with us
    for part in parts:
        console.print(part)
    svg = console.export_svg(title=title, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # the reader's own font will do
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    (FOLDER / f"{name}.svg").write_text(re.sub(r"\n\s*\n+", "\n", svg), "utf-8")


if __name__ == "__main__":
    main()

"""Adds something new from a template: `make new KIND=session-tool NAME=sessions_pin`.

It writes the new file and the lines that name it elsewhere, and says what is left to do. The templates lie in
dev/templates; tests/unit/test_templates.py adds one of each to a copy and uses it, so they stay true.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SRC = "src/crossclaw/"
BUILDING, METHODS = SRC + "app/building.py", SRC + "app/methods.py"


class Line(NamedTuple):
    """A line that goes into `file` right after the first one that matches `after`."""

    file: str
    after: str
    text: str


class Kind(NamedTuple):
    name: str
    """A pattern that the name must match."""
    example: str
    template: str
    file: str
    lines: tuple[Line, ...] = ()
    left: tuple[str, ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    """Further new files: template and file."""


_DECLARED = 'ToolDeclaration(name="session_status"'
_TOOLS_PAGE = (
    "docs/agent-tools.md: its row by hand; a line in CHANGELOG.md; then make docs and make check"
)
_SESSION_TOOLS_PAGES = (
    "docs/tools.md: its section, its row, its refusals (CONTRIBUTING.md says how); README.md, docs/clients.md and docs/agent-tools.md: "
    "its rows; a line in CHANGELOG.md; then make docs and make check"
)
_SESSION_TOOLS_LISTS = "add it, with open eyes, to what sub-agents do not have in tests/flows/test_tools_are_declared.py and test_spawns.py"
_TEST = "write its test: tests/flows has the nearest neighbours, crossclaw.testing the model and the time"

KINDS = {
    "session-tool": Kind(
        r"[a-z]+(_[a-z]+)*", "sessions_pin", "session_tool.py.txt", SRC + "tools/{name}.py",
        (
            Line(SRC + "domain/tools.py", re.escape(_DECLARED),
                 '        ToolDeclaration(name="{name}", group="sessions", effect="pure", children=False),'),
            Line(SRC + "tools/texts.py", r"^TEXTS\b.*\{$",
                 '    "{name}": ToolText(\n        "Say when a model should use it and what comes back.",\n'
                 '        {{"sessionKey": "the session; default your own"}},\n    ),'),
            Line(BUILDING, r"^from crossclaw\.tools\.session_tools import", "from crossclaw.tools.{name} import {Class}"),
            Line(BUILDING, r"^        \*guest_methods\(", "        *{Class}(run_services.resolver).methods(),"),
            Line(SRC + "tools/__init__.py", r'^    "session_tools",', '    "{name}",'),
        ),
        (f"say what it does in {SRC}tools/texts.py", _TEST,
         f"what changes something has the effect `once` in {SRC}domain/tools.py",
         "tests/wire/auth_matrix.json has a row a method: add \"tool.{name}\" with its scope, after thinking about it",
         _SESSION_TOOLS_LISTS, _SESSION_TOOLS_PAGES),
    ),
    "tool": Kind(
        r"[a-z]+(_[a-z]+)*", "word_count", "tool.py.txt", SRC + "tools/{name}.py",
        (
            Line(SRC + "domain/tools.py", re.escape(_DECLARED),
                 '        ToolDeclaration(name="{name}", group="other", effect="pure", children=True),'),
            Line(BUILDING, r"^from crossclaw\.tools\.session_tools import", "from crossclaw.tools.{name} import {Class}Tool"),
            Line(BUILDING, r"^        ReadTool\(places\),", "        {Class}Tool(),"),
            Line(SRC + "tools/__init__.py", r'^    "session_tools",', '    "{name}",'),
        ),
        ("choose its group, its effect and whether sub-agents have it in " + SRC + "domain/tools.py", _TEST, _TOOLS_PAGE),
    ),
    "method": Kind(
        r"[a-z]+(\.[a-z]+)+", "sessions.peek", "method.py.txt", SRC + "gateway/methods/{module}.py",
        (
            Line(METHODS, r"^from crossclaw\.gateway\.methods\.display import",
                 "from crossclaw.gateway.methods.{module} import {Class}"),
            Line(METHODS, r"^        Subscribing\(resolver\),", "        {Class}(resolver),"),
        ),
        ("tests/wire/auth_matrix.json has a row a method: add \"{name}\" with its scope, after thinking about it", _TEST,
         "make docs writes docs/protocol.md anew"),
    ),
    "channel": Kind(
        r"[a-z]+", "pigeon", "channel_account.py.txt", SRC + "channels/{name}/account.py", (),
        ("put the platform's client in the place of {Class}Platform; docs/adding-a-channel.md says in which order",
         "say by knows_key_for_s how long the platform knows a delivery key",
         "tests/channels/{name}: a strict fake, a driver (the smallest is tests/channels/memory.py) and a class of ChannelContract; "
         ".venv/bin/python -m pytest -n 0 tests/channels/{name} asks it; then make docs"),
        (
            ("channel_init.py.txt", SRC + "channels/{name}/__init__.py"),
            ("channel_settings.py.txt", SRC + "channels/{name}/settings.py"),
            ("channel_manifest.py.txt", SRC + "channels/{name}/manifest.py"),
        ),
    ),
    "migration": Kind(
        r"[a-z]+(_[a-z]+)*", "letters", "migration.sql.txt", SRC + "ledger/sqlite/migrations/{number:04}_{name}.sql",
        (Line(SRC + "ledger/sqlite/migrate.py", r"^    Migration\({last}, ", '    Migration({number}, "{name}"),'),),
        ("write the SQL; what the new table must learn from old ones is the migration's `fill`",
         "at the commit before: .venv/bin/python -m tests.ledger.make_store tests/ledger/stores/v<number of before>.sqlite.zst; tests/ledger/test_upgrades.py "
         "opens it and finds what it had"),
    ),
    "view": Kind(
        r"[a-z]+", "notes", "view.js.txt", SRC + "web/{name}.js",
        (
            Line(SRC + "web/app.js", r"^  exchanges: \{",
                 '  {name}: {{ tag: "cc-{name}", title: "{Title}", load: () => import("./{name}.js") }},'),
            Line(SRC + "web/index.html", r'data-view="exchanges"',
                 '        <li><a href="#/{name}" data-view="{name}"><svg aria-hidden="true"><use href="#i-exchanges"/></svg>'
                 "<span data-t>{Title}</span></a></li>"),
        ),
        ("draw an icon of its own in web/index.html (a <symbol id=\"i-…\">), and name it in the link",
         "display/locale/{{es,it,pt}}/LC_MESSAGES/crossclaw.po: its title and its texts; then make docs; tests/unit/test_languages.py knows what is missing",
         "tests/browser/test_for_everybody.py: its route and a sign of life in `busy`, its name in VIEWS; a test of its own: visit(route(\"{name}\"))",
         "docs/page.md says what it shows; Ctrl-K finds it by VIEWS in web/switcher.js, its weight counts by VIEWS in tests/browser/figures.py; a line in CHANGELOG.md",
         "make check, make browser; the rail at 390 px in every language"),
    ),
}  # fmt: skip


def main(words: list[str], root: Path = ROOT, say: Callable[[str], None] = print) -> int:
    if len(words) != 2 or words[0] not in KINDS:
        return _stop(f"make new KIND=… NAME=…; kinds: {', '.join(KINDS)}")
    kind, name = KINDS[words[0]], words[1]
    if not re.fullmatch(kind.name, name):
        return _stop(f"{name!r} is no name for a {words[0]}; one is {kind.example}")
    fields = _fields(name, root)
    new = {
        root / file.format(**fields): template
        for template, file in ((kind.template, kind.file), *kind.more)
    }
    for file in new:
        if file.exists():
            return _stop(
                f"{file.relative_to(root)} is there already: take another name, or rename that one first"
            )
    for line in kind.lines:
        _inserted(root / line.file, line, fields)  # all of them can be, before the first is written
    for file, template in new.items():
        file.parent.mkdir(exist_ok=True)
        text = (root / "dev" / "templates" / template).read_text("utf-8")
        file.write_text(_filled(text, fields), "utf-8")
        say(f"new      {file.relative_to(root)}")
    for line in kind.lines:
        file = root / line.file
        file.write_text(_inserted(file, line, fields), "utf-8")
    for changed in dict.fromkeys(line.file for line in kind.lines):
        say(f"changed  {changed}")
    _tidy([*new, *(root / line.file for line in kind.lines)])
    for each in kind.left:
        say(f"to do    {each.format(**fields)}")
    return 0


def _tidy(files: list[Path]) -> None:
    """Sorts imports and formats lines."""
    ruff, config = Path(sys.executable).with_name("ruff"), str(ROOT / "pyproject.toml")
    python = [file for file in files if file.suffix == ".py"]
    for words in (["check", "--select", "I,RUF022", "--fix"], ["format"]):
        if python:
            subprocess.run([ruff, *words, "--quiet", "--config", config, *python], check=True)


def _fields(name: str, root: Path) -> dict[str, object]:
    numbers = [int(p.name[:4]) for p in (root / SRC / "ledger/sqlite/migrations").glob("*.sql")]
    words = re.split(r"[._]", name)
    return {
        "name": name,
        "module": "_".join(words),
        "Class": "".join(word.capitalize() for word in words),
        "Title": " ".join(words).capitalize(),
        "NAME": "_".join(words).upper(),
        "last": max(numbers),
        "number": max(numbers) + 1,
    }


def _filled(text: str, fields: dict[str, object]) -> str:
    """The template with its fields filled in by name, and only ours: the templates have braces of their own."""
    return re.sub(r"\{(name|module|Class|Title|NAME)\}", lambda found: str(fields[found[1]]), text)


def _inserted(file: Path, line: Line, fields: dict[str, object]) -> str:
    lines = file.read_text("utf-8").splitlines(keepends=True)
    pattern = re.compile(line.after.replace("{last}", str(fields["last"])))
    at = next((at for at, text in enumerate(lines) if pattern.search(text)), None)
    if at is None:
        raise SystemExit(f"add: {file} has no line like {line.after}; dev/add.py must be changed")
    return "".join([*lines[: at + 1], line.text.format(**fields) + "\n", *lines[at + 1 :]])


def _stop(why: str) -> int:
    print(f"add: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

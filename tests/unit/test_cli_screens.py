"""How a reply looks while it is written."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from crossclaw.cli.screens import MarkdownScreen, PlainScreen
from crossclaw.cli.tables import ago, table
from crossclaw.display.conversation import progress_line
from crossclaw.display.terminal import open_block

REPLY = "# Title\n\nSome **bold** words\nover two lines.\n\n- one\n- two\n\n```py\nx = 1\n\ny = 2\n```\n\nEnd."


def spoken(text: str, console: Console) -> str:
    screen = MarkdownScreen(console)
    for end in range(1, len(text) + 1):
        screen.words(text[:end])
    screen.close()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def a_console() -> Console:
    return Console(file=io.StringIO(), width=60, highlight=False, force_terminal=False)


def test_markdown_that_comes_letter_by_letter_ends_up_whole_and_once() -> None:
    shown = spoken(REPLY, a_console())

    for word in ("Title", "bold", "over two lines.", "• one", "• two", "x = 1", "y = 2", "End."):
        assert shown.count(word) == 1, word
    assert "**" not in shown
    assert "```" not in shown


def test_what_is_settled_never_changes() -> None:
    settled = ""
    for end in range(len(REPLY) + 1):
        begin = open_block(REPLY[:end])
        assert REPLY[:begin].startswith(settled)
        settled = REPLY[:begin]
    assert settled.endswith("```\n\n")


def test_a_fence_is_open_until_it_is_closed() -> None:
    assert open_block("Look:\n\n```\na\n\nb\n\nc") == len("Look:\n\n")


def test_a_tool_line_stands_between_the_words_of_two_turns() -> None:
    console = a_console()
    screen = MarkdownScreen(console)
    screen.words("Let me look.")
    screen.tool(progress_line("read", {"path": "a.md"}))
    screen.words("Found.")
    screen.close()

    assert isinstance(console.file, io.StringIO)
    lines = [line.strip() for line in console.file.getvalue().splitlines() if line.strip()]
    assert lines == ["Let me look.", "→ read path: a.md", "Found."]


@given(st.text("ab \n", min_size=1, max_size=30).map(str.strip).filter(bool), st.data())
def test_plain_text_is_written_once_however_it_arrives(reply: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(reply)), max_size=5)))
    with pytest.MonkeyPatch.context() as patch:
        stdout = io.StringIO()
        patch.setattr("sys.stdout", stdout)
        screen = PlainScreen()
        for cut in [*cuts, len(reply)]:
            screen.words(reply[:cut])
        screen.words(reply[: len(reply) // 2])  # overtaken by later words
        screen.close()

    assert stdout.getvalue() == reply + "\n"


def test_long_arguments_are_one_short_line() -> None:
    line = progress_line("write", {"path": "a\nb", "text": "x" * 500})

    assert line.startswith("→ write path: a b, text: xxx")
    assert line.endswith("…")
    assert len(line) < 100


def test_a_table_keeps_its_columns() -> None:
    assert table(("who", "n"), [("main", 1), ("librarian", None)]) == (
        "who        n\nmain       1\nlibrarian  –"
    )


def test_on_a_terminal_a_table_fits_however_many_columns_are_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crossclaw.cli.tables.on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    shown = table(("a", "b", "c"), [("x" * 60, "short", "y" * 50)]).splitlines()

    assert max(map(len, shown)) == 80
    assert shown[1].count("…") == 2
    assert " short " in shown[1]


@pytest.mark.parametrize(
    ("passed_s", "text"),
    [(3, "3 s ago"), (90, "1 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago")],
)
def test_times_as_people_say_them(passed_s: int, text: str) -> None:
    assert ago(0, passed_s * 1000) == text
    assert ago(None, 0) is None

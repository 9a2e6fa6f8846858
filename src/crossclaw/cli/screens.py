"""Screens: how a reply looks while it is written. Markdown on a terminal, plain text in a pipe, or
nothing at all for programs that want one JSON value at the end."""

import sys
from typing import TYPE_CHECKING, Protocol

from crossclaw.cli.say import cleaned, draws_on, note, out
from crossclaw.cli.say import console as new_console
from crossclaw.display.terminal import open_block, to_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

REFRESH_HZ = 12


class Screen(Protocol):
    def words(self, text: str) -> None:
        """Shows the reply so far, whole."""

    def tool(self, line: str) -> None:
        """Shows that a tool began or failed."""

    def close(self) -> None:
        """Ends the output and leaves the terminal as it was."""


def choose_screen(*, quiet: bool) -> Screen:
    if quiet:
        return QuietScreen()
    return MarkdownScreen() if draws_on(sys.stdout) else PlainScreen()


class QuietScreen:
    def words(self, text: str) -> None:
        pass

    def tool(self, line: str) -> None:
        pass

    def close(self) -> None:
        pass


class PlainScreen:
    """Plain output, which cannot be taken back: words that do not continue the last ones begin a new
    paragraph, and so do those after a tool. Words that were overtaken by later ones are left out."""

    def __init__(self) -> None:
        self._written = ""
        self._paragraphs = 0

    def words(self, text: str) -> None:
        text = cleaned(text)
        if self._written.startswith(text):
            return
        if not text.startswith(self._written):
            self._end_paragraph()
        if not self._written and self._paragraphs:
            out()
        out(text[len(self._written) :], end="")
        self._written = text

    def tool(self, line: str) -> None:
        self._end_paragraph()
        note(cleaned(line))

    def close(self) -> None:
        self._end_paragraph()

    def _end_paragraph(self) -> None:
        if self._written:
            out("" if self._written.endswith("\n") else "\n", end="")
            self._paragraphs += 1
        self._written = ""


class MarkdownScreen:
    """Markdown output. Blocks that are complete are printed and stay; only the last, open one is drawn again.
    So a reply longer than the terminal scrolls as any other text does."""

    def __init__(self, console: "Console | None" = None) -> None:
        self._console = console or new_console(highlight=False)
        self._live: Live | None = None
        self._said = ""
        self._settled = 0
        self._needs_gap = False

    def words(self, text: str) -> None:
        text = cleaned(text)
        if self._said.startswith(text):
            return
        if not text.startswith(self._said[: self._settled]):
            self._settle()
        self._said = text
        begin = self._settled + open_block(text[self._settled :])
        if begin > self._settled:
            self._print(text[self._settled : begin])
            self._settled = begin
        self._draw(text[self._settled :])

    def tool(self, line: str) -> None:
        self._settle()
        self._console.print(cleaned(line), style="dim", markup=False)

    def close(self) -> None:
        self._settle()

    def _settle(self) -> None:
        """Prints the open block for good."""
        self._print(self._said[self._settled :])
        self._said, self._settled = "", 0

    def _print(self, markdown: str) -> None:
        self._stop()
        if not markdown.strip():
            return
        self._gap()
        self._console.print(to_terminal(markdown))
        self._needs_gap = True

    def _draw(self, markdown: str) -> None:
        from rich.live import Live  # noqa: PLC0415

        if not markdown.strip():
            return
        if self._live is None:
            self._gap()
            self._live = Live(console=self._console, transient=True, refresh_per_second=REFRESH_HZ)
            self._live.start()
        self._live.update(to_terminal(markdown))

    def _gap(self) -> None:
        """Prints one empty line between blocks."""
        if self._needs_gap:
            self._console.print()
        self._needs_gap = False

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

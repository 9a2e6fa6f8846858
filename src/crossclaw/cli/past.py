"""A conversation's history for people, in Markdown on a terminal and as plain text in a pipe."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crossclaw.cli.say import cleaned, console, draws_on, out
from crossclaw.display.conversation import (
    ConversationPart,
    ShownMessage,
    Silence,
    ToolLine,
    Trouble,
    Words,
    conversation,
)
from crossclaw.display.dialects import PLAIN
from crossclaw.display.reading import read
from crossclaw.display.terminal import to_terminal

if TYPE_CHECKING:
    from rich.console import Console

_SILENCE = "(said nothing)"


def show_past(messages: Sequence[dict[str, Any]], *, tools: bool) -> None:
    said = conversation(messages, results=tools)
    if not said:
        out("nothing was said yet")
    elif draws_on(sys.stdout):
        draw(said, console(highlight=False))
    else:
        out("\n\n".join(map(plain_text, said)))


def show_words(markdown: str) -> None:
    if not draws_on(sys.stdout):
        out(cleaned(markdown))
        return
    console(highlight=False).print(to_terminal(cleaned(markdown)))


def plain_text(said: ShownMessage) -> str:
    return "\n".join([_head(said), *(line for part in said.parts for line in _plain(part))])


def _plain(part: ConversationPart) -> Iterator[str]:
    match part:
        case Words(markdown=markdown):
            yield cleaned(markdown).strip()  # as it was said: a pipe may want its Markdown
        case ToolLine(line=line, result=result):
            yield cleaned(line)
            if result:
                yield _indented(PLAIN.write(read(cleaned(result))))
        case Trouble(text=text):
            yield f"({cleaned(text)})"
        case Silence():
            yield _SILENCE


def draw(said: Sequence[ShownMessage], console: "Console") -> None:
    for number, each in enumerate(said):
        if number:
            console.print()
        console.print(_head(each), style="bold", markup=False)
        for part in each.parts:
            _draw_part(part, console)


def _draw_part(part: ConversationPart, console: "Console") -> None:
    match part:
        case Words(markdown=markdown):
            console.print(to_terminal(cleaned(markdown)))
        case ToolLine(line=line, result=result):
            console.print(cleaned(line), style="dim", markup=False)
            if result:
                console.print(to_terminal(cleaned(result)))
        case Trouble(text=text):
            console.print(f"({cleaned(text)})", style="red", markup=False)
        case Silence():
            console.print(_SILENCE, style="dim", markup=False)


def _head(said: ShownMessage) -> str:
    who = cleaned(said.who)
    if said.at is None:
        return who
    when = datetime.fromtimestamp(said.at / 1000).astimezone()
    return f"{who}, {when:%Y-%m-%d %H:%M:%S}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))

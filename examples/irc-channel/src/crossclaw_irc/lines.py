"""Lines of IRC (RFC 1459, RFC 2812): read into parts, and words made into lines that fit."""

import msgspec

LINE_BYTES_MAX = 400
"""Of the words: the rest of the 512 is for the sender's name, the command and the target."""


class Line(msgspec.Struct, frozen=True):
    source: str
    """`nick!user@host`, or a server; empty where it is not said."""
    command: str
    params: tuple[str, ...]

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]


def read_line(text: str) -> Line | None:
    """None: nothing that we could understand."""
    if text.startswith("@"):
        text = text.partition(" ")[2].lstrip()  # tags
    source = ""
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, colon, trailing = text.partition(" :")
    words = head.split()
    if not words:
        return None
    params = (*words[1:], trailing) if colon else tuple(words[1:])
    return Line(source, words[0].upper(), params)


def lines_of(text: str) -> list[str]:
    """Never a line break inside, which would begin a command of its own; never a cut inside a character."""
    lines: list[str] = []
    for line in text.replace("\r", "\n").replace("\0", "").split("\n"):
        part = ""
        for character in line.rstrip():
            if len((part + character).encode("utf-8", "replace")) > LINE_BYTES_MAX:
                lines.append(part)
                part = ""
            part += character
        lines += [part] if part else []
    return lines

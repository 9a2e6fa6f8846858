"""Shell words: whether a command is one program with fixed arguments, and which.

Only such a command can be in a list: it is run without a shell reading it again, so what was matched is what
happens. Anything that a shell would do more with (chains, pipes, redirections, substitutions, variables, globs,
assignments, comments, line breaks) makes it another thing, and the answer is why.
"""

from collections.abc import Iterator

_SPACE = " \t"
_MEANT = {
    ";": "a chain of commands",
    "&": "a chain of commands",
    "|": "a pipe",
    "\n": "more than one line",
    "\r": "more than one line",
    ">": "a redirection",
    "<": "a redirection",
    "$": "a variable or a substitution",
    "`": "a substitution",
    "(": "a group of commands",
    ")": "a group of commands",
    "{": "a group or an expansion",
    "}": "a group or an expansion",
    "*": "a pattern of file names",
    "?": "a pattern of file names",
    "[": "a pattern of file names",
    "]": "a pattern of file names",
    "~": "a home folder",
    "!": "a history expansion or a negation",
    "#": "a comment",
    "\\": "an escaped character",
    "^": "a character that some shells replace",
}
_MEANT_IN_QUOTES = {name: _MEANT[name] for name in ("$", "`", "\\", "!", "\n", "\r")}


class NotPlain(ValueError):
    """The command is more than a program with fixed arguments; the text says what."""


def plain_words(command: str) -> list[str]:
    """The words of a command that is nothing but words. Strict: what is not certainly a plain word is
    refused."""
    words = list(_words(command))
    if not words:
        raise NotPlain("nothing")
    if "=" in words[0]:
        raise NotPlain("a variable that is set")
    return words


def _words(command: str) -> Iterator[str]:
    at, end = 0, len(command)
    while at < end:
        if command[at] in _SPACE:
            at += 1
            continue
        word: list[str] = []
        while at < end and command[at] not in _SPACE:
            piece, at = _piece(command, at)
            word.append(piece)
        yield "".join(word)


def _piece(command: str, at: int) -> tuple[str, int]:
    """One character of a word, or what stands in quotes, and the position behind it."""
    char = command[at]
    if char == "'":
        close = _closing(command, at)
        return _checked(
            command[at + 1 : close], {"\n": _MEANT["\n"], "\r": _MEANT["\r"]}
        ), close + 1
    if char == '"':
        close = _closing(command, at)
        return _checked(command[at + 1 : close], _MEANT_IN_QUOTES), close + 1
    return _checked(char, _MEANT), at + 1


def _closing(command: str, at: int) -> int:
    close = command.find(command[at], at + 1)
    if close < 0:
        raise NotPlain("quotes that are not closed")
    return close


def _checked(text: str, meant: dict[str, str]) -> str:
    for char in text:
        if char in meant:
            raise NotPlain(meant[char])
        if not char.isprintable():
            raise NotPlain("a character that cannot be seen")
    return text

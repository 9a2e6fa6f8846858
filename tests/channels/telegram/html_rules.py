"""What the Bot API says to a text with `parse_mode: HTML`: the words that people see, or a refusal.

Rules from https://core.telegram.org/bots/api#html-style (Bot API 9.3, read 2026-11-16) and the answers that bot
authors report for each mistake: only the listed tags, closed in order, attributes quoted; code and pre hold nothing but
each other; a quote holds no quote. `&lt; &gt; &amp; &quot;` and numbers are decoded, other names stay as they are.
"""

import re

_TAGS = frozenset(
    [
        "b",
        "strong",
        "i",
        "em",
        "u",
        "ins",
        "s",
        "strike",
        "del",
        "a",
        "code",
        "pre",
        "blockquote",
        "tg-spoiler",
        "span",
        "tg-emoji",
    ]
)
_TOKEN = re.compile(
    r"<(?P<end>/?)(?P<name>[^\s>/<]*)(?P<rest>[^<>]*)>|&(?P<ref>#x?[0-9a-fA-F]+|\w+);|<"
)
_ATTRIBUTE = re.compile(r"\s+([a-z-]+)(?:=(?:\"([^\"<>]*)\"|'([^'<>]*)'|([^\s\"'<>]+)))?")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}


class CannotParse(Exception):
    """The description that the Bot API answers with a 400."""


def visible(text: str) -> str:
    """What a person reads."""
    out: list[str] = []
    opened: list[str] = []
    at = 0
    for found in _TOKEN.finditer(text):
        out.append(text[at : found.start()])
        at = found.end()
        where = len(text[: found.start()].encode())
        if found["ref"]:
            out.append(_decoded(found["ref"]) or found[0])
        elif found["name"] is None:
            raise CannotParse(f"Unclosed start tag at byte offset {where}")
        elif found["end"]:
            _close(found["name"], opened, where)
        else:
            _open(found["name"].lower(), found["rest"], opened, where)
    if opened:
        raise CannotParse(f'Can\'t find end tag corresponding to start tag "{opened[-1]}"')
    return "".join([*out, text[at:]])


def _open(name: str, rest: str, opened: list[str], where: int) -> None:
    if name not in _TAGS:
        raise CannotParse(f'Unsupported start tag "{name}" at byte offset {where}')
    if _ATTRIBUTE.sub("", rest).strip():
        raise CannotParse(
            f'Expected equal sign in declaration of an attribute of the tag "{name}" at byte offset {where}'
        )
    inside_code = {"code", "pre"} & set(opened)
    if inside_code and not (name == "code" and opened == ["pre"]):
        raise CannotParse(f'Tag "{name}" inside of code at byte offset {where}')
    if name == "blockquote" and "blockquote" in opened:
        raise CannotParse(f"Quotes can't be nested, at byte offset {where}")
    opened.append(name)


def _close(name: str, opened: list[str], where: int) -> None:
    if not opened:
        raise CannotParse(f"Unexpected end tag at byte offset {where}")
    if name.lower() not in ("", opened[-1]):
        raise CannotParse(
            f'Unmatched end tag at byte offset {where}, expected "</{opened[-1]}>", found "</{name}>"'
        )
    opened.pop()


def _decoded(reference: str) -> str | None:
    if not reference.startswith("#"):
        return _NAMED.get(reference)
    number = int(reference[2:], 16) if reference[1:2] == "x" else int(reference[1:])
    return chr(number) if 0 < number < 0x110000 else None

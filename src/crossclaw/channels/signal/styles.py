"""Styles: Signal has no marks in its texts; beside a text it takes ranges, counted in UTF-16 units."""

from typing import NamedTuple

from crossclaw.display.dialects import SIGNAL_MARKS

STYLES = {"bold": "BOLD", "italic": "ITALIC", "strike": "STRIKETHROUGH", "code": "MONOSPACE"}
_OPENS = {marks[0]: STYLES[style] for style, marks in SIGNAL_MARKS.items()}
_CLOSES = {marks[1]: STYLES[style] for style, marks in SIGNAL_MARKS.items()}


class StyledWords(NamedTuple):
    text: str
    ranges: tuple[str, ...]
    """`start:length:STYLE`."""


def read_styles(formatted: str) -> StyledWords:
    """The dialect's marks as ranges; they are characters that no text has. Signal cuts blanks off both ends, and a range
    that goes beyond the end is refused."""
    marked = formatted.strip()
    written: list[str] = []
    at = 0
    opened: dict[str, int] = {}
    ranges: list[tuple[int, int, str]] = []
    for char in marked:
        if (style := _OPENS.get(char)) is not None:
            opened[style] = at
        elif (style := _CLOSES.get(char)) is not None:
            begin = opened.pop(style, at)
            if at > begin:
                ranges.append((begin, at - begin, style))
        else:
            written.append(char)
            at += 2 if ord(char) > 0xFFFF else 1
    ranges += [(begin, at - begin, style) for style, begin in opened.items() if at > begin]
    text = "".join(written)
    cut = len(text) - len(text.lstrip())  # a mark may have stood before a blank
    return StyledWords(text.strip(), tuple(_fitting(sorted(ranges), cut, text)))


def _fitting(ranges: list[tuple[int, int, str]], cut: int, text: str) -> list[str]:
    end = len(text.strip().encode("utf-16-le")) // 2
    fitting: list[str] = []
    for begin, length, style in ranges:
        first, last = max(0, begin - cut), min(end, begin + length - cut)
        if last > first:
            fitting.append(f"{first}:{last - first}:{style}")
    return fitting

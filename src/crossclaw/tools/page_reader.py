"""The page reader: HTML in, Markdown out, as a program of its own. A page can be built so that reading
it takes minutes or gigabytes; a thread could not be stopped then, a process can.

It bounds itself too: should the gateway be killed, nobody else would end it.
"""

import math
import os
import re
import resource
import sys

READING_S = 10.0  # for a page that is built to be slow
MEMORY_BYTES_MAX = 1024 * 1024 * 1024  # the tree of 2 MB of tags has some hundred MB
TEXT_CHARS_MAX = 2_000_000  # nested quotes and lists make a page longer than it was
TOO_DEEP = 3
"""Its exit code for a page that is nested too deeply."""

_SILENT = ("script", "style", "noscript", "template", "svg", "iframe", "head", "form", "button")


def as_markdown(html: str) -> str:
    """What a person would read of the page, with its headings, lists, tables and links."""
    from bs4 import BeautifulSoup  # noqa: PLC0415  with the extra `web`
    from markdownify import MarkdownConverter  # noqa: PLC0415

    page = BeautifulSoup(html, "html.parser")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for silent in page(_SILENT):
        silent.decompose()
    text = MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(page)
    lines = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines()))
    return f"{title}\n\n{lines.strip()}".strip()


def bound_self() -> None:
    """By the kernel, which neither a busy parser nor a dead gateway keeps from acting."""
    os.nice(10)  # the gateway comes first
    _bound(resource.RLIMIT_CPU, math.ceil(READING_S))
    _bound(resource.RLIMIT_AS, MEMORY_BYTES_MAX)
    _bound(resource.RLIMIT_CORE, 0)


def _bound(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> int:
    bound_self()
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        text = as_markdown(html)[:TEXT_CHARS_MAX]
    except RecursionError:
        return TOO_DEEP
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The page reader: bytes of a page in, text out, as a program of its own. A page can be built so that decoding
or reading it takes minutes or gigabytes; a thread could not be stopped then, a process can.

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
"""The exit code for a page that is nested too deeply."""

CHARSETS = {
    "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "utf-8", "ascii": "utf-8",
    "utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be",
    "iso-8859-1": "cp1252", "latin1": "cp1252", "latin-1": "cp1252", "windows-1252": "cp1252",
    **{f"iso-8859-{part}": f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)},
    **{f"windows-{page}": f"cp{page}" for page in (874, 1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258)},
    "koi8-r": "koi8_r", "koi8-u": "koi8_u", "macintosh": "mac_roman",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp",
    "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "big5": "big5hkscs",
    "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030",
}  # fmt: skip
"""The charsets of pages, and Python's names for them. Python knows many more codecs, and some of them are
programs: punycode takes seconds for a page, others unpack archives."""

_SILENT = ("script", "style", "noscript", "template", "svg", "iframe", "head", "form", "button")


def as_markdown(html: str) -> str:
    """The readable part of a page, with its headings, lists, tables and links."""
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
    """Limits this process by the kernel, which neither a busy parser nor a dead gateway keeps from acting."""
    os.nice(10)  # the gateway comes first
    _bound(resource.RLIMIT_CPU, math.ceil(READING_S))
    _bound(resource.RLIMIT_AS, MEMORY_BYTES_MAX)
    _bound(resource.RLIMIT_CORE, 0)


def _bound(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def decoded(body: bytes, charset: str) -> str:
    """The page's text. A charset that no page has is read as UTF-8, and a BOM goes before a header."""
    codec = CHARSETS.get(charset.strip().lower(), "utf-8")
    for mark, marked in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if body.startswith(mark):
            codec = marked
    return body.decode(codec, "replace")


def main() -> int:
    """Reads a page; `kind` is html or text. Writes the part that is asked for and the number of characters in all."""
    bound_self()
    kind, charset, chars = sys.argv[1:4]
    text = decoded(sys.stdin.buffer.read(), charset)
    try:
        text = as_markdown(text) if kind == "html" else text
    except RecursionError:
        return TOO_DEEP
    text = text[:TEXT_CHARS_MAX]
    sys.stdout.buffer.write(f"{len(text)}\n{text[: int(chars)]}".encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Highlighting: marks comments, strings, numbers and keywords of code for a page.

It uses one pattern for families of similar languages, in which no part can be read in two ways: it
takes time by the length of the text, whoever wrote it. Unknown languages stay plain.
"""

import re
from functools import cache
from html import escape

CHARS_MAX = 40_000  # of one block; what is longer is not read, and stays plain

CLASSES = frozenset({"hk", "hs", "hc", "hm", "hd", "hi"})
"""The CSS classes for keywords, strings, comments, numbers, and for lines that a patch removes and
adds."""

_HASH = r"\#[^\n]*"
_SLASHES = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/)?"
_DASHES = r"--[^\n]*"
_SEMICOLON = r";[^\n]*"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"?' + r"|'(?:[^'\\\n]|\\.)*'?"
_TRIPLE = r'"""(?:[^"\\]|\\.|"(?!""))*(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*(?:''')?"
_BACKTICKS = r"`(?:[^`\\]|\\.)*`?"
_DOUBLE = r'"(?:[^"\\\n]|\\.)*"?'

_C = (
    "abstract as async await break case catch class const continue default defer delete do else enum export extends "
    "false final finally fn for from func function go if impl implements import in include instanceof int interface "
    "let long match mod mut namespace new null nil operator override package private protected pub public return "
    "self static struct super switch template this throw throws trait true try type typeof undefined union unsafe "
    "use using var virtual void volatile where while with yield bool char double float string auto val fun when object"
)
_PYTHON = (
    "False None True and as assert async await break class continue def del elif else except finally for from global "
    "if import in is lambda match nonlocal not or pass raise return self try type while with yield"
)
_SHELL = (
    "if then else elif fi for in do done while until case esac function return export local readonly set unset shift "
    "exit cd echo source alias trap"
)
_RUBY = (
    "alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue "
    "retry return self super then true undef unless until when while yield require local function"
)
_SQL = (
    "add all alter and as asc between by case create cross default delete desc distinct drop else end exists false "
    "from full group having in index inner insert into is join key left like limit not null offset on or order outer "
    "primary references returning right select set table then true union unique update using values view when where with"
)
_DATA = "true false null yes no on off"

_FAMILIES: dict[str, tuple[str, str, str]] = {
    # languages: comments, strings, keywords
    "c cpp c++ cs csharp css dart go java javascript js jsx kotlin kt php rs rust scala swift ts tsx typescript zig": (
        _SLASHES,
        f"{_QUOTED}|{_BACKTICKS}",
        _C,
    ),
    "py python python3 starlark": (_HASH, f"{_TRIPLE}|{_QUOTED}", _PYTHON),
    "bash sh shell zsh fish dockerfile makefile make": (_HASH, _QUOTED, _SHELL),
    "rb ruby perl pl r elixir ex lua julia jl": (f"{_HASH}|{_DASHES}", _QUOTED, _RUBY),
    "sql": (f"{_DASHES}|/\\*(?:[^*]|\\*(?!/))*(?:\\*/)?", _QUOTED, _SQL),
    "json json5 jsonc": (_SLASHES, _QUOTED, _DATA),
    "yaml yml toml": (_HASH, _QUOTED, _DATA),
    "ini conf properties": (f"{_SEMICOLON}|{_HASH}", _DOUBLE, _DATA),
}
_BY_NAME = {name: family for names, family in _FAMILIES.items() for name in names.split()}
_KINDS = {"comment": "hc", "string": "hs", "number": "hm", "word": "hk"}


def highlighted(code: str, language: str) -> str | None:
    """HTML of the code, with spans of `CLASSES`; None if it stays plain."""
    name = language.strip().lower()
    if not code or len(code) > CHARS_MAX:
        return None
    if name in ("diff", "patch"):
        return "".join(_patch_line(line) for line in code.splitlines(keepends=True))
    if name not in _BY_NAME:
        return None
    pattern, keywords = _pattern(name)
    parts, at = list[str](), 0
    for found in pattern.finditer(code):
        kind, text = found.lastgroup or "", found[0]
        if kind == "word" and (text.lower() if name == "sql" else text) not in keywords:
            continue
        parts += [
            _safe(code[at : found.start()]),
            f'<span class="{_KINDS[kind]}">{_safe(text)}</span>',
        ]
        at = found.end()
    return "".join(parts) + _safe(code[at:])


@cache
def _pattern(name: str) -> tuple[re.Pattern[str], frozenset[str]]:
    comment, string, keywords = _BY_NAME[name]
    number = r"\b\d[\w.]*"
    text = f"(?P<comment>{comment})|(?P<string>{string})|(?P<number>{number})|(?P<word>[A-Za-z_][\\w]*)"
    return re.compile(text, re.S), frozenset(keywords.split())


def _patch_line(line: str) -> str:
    css = {"+": "hi", "-": "hd", "@": "hk"}.get(line[:1])
    return f'<span class="{css}">{_safe(line)}</span>' if css else _safe(line)


def _safe(text: str) -> str:
    return escape(text, quote=False)

"""Languages: the texts of the first hour in the reader's language, from ordinary gettext
catalogues.

A text is written in English where it is used, `tr("Stopped.")`, and looked up in
`locale/<language>/LC_MESSAGES/crossclaw.po`. The files are read directly: nothing has to be
compiled after a change. It needs only the standard library, because `make run` uses it before
anything is installed, also with Pythons that are too old.
"""

from __future__ import annotations

import ast
import gettext
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "locale"
SPOKEN = ("en", "es", "it", "pt")
"""The languages that are offered. English needs no catalogue: it is in the source."""

_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as everywhere
_LINE = re.compile(r'(?:(msgctxt|msgid|msgstr) +)?(".*")$')


class Catalogue(gettext.NullTranslations):
    """The texts of one language. What is missing is shown in English."""

    def _parse(self, file: Any) -> None:
        self.texts = dict(entries(file.read().decode("utf-8").split("\n")))

    def gettext(self, message: str) -> str:
        return self.texts.get(message) or message


def entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a .po file: English and translation. Raises for a line that cannot be read."""
    kept: dict[str, str] = {}
    field = ""
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"line {number} of a catalogue cannot be read: {line}")
        if found[1]:
            if found[1] == "msgid" and "msgstr" in kept:
                yield kept["msgid"], kept["msgstr"]
                kept = {}
            field = found[1]
        kept[field] = kept.get(field, "") + str(ast.literal_eval(found[2]))
    if "msgstr" in kept:
        yield kept["msgid"], kept["msgstr"]


def chosen_language(environ: Mapping[str, str], wanted: str | None = None) -> str:
    """The language code: `wanted` (`es`, `pt_BR`, `it-IT`), else the environment's; English if that
    is not offered."""
    asked = wanted or next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    code = re.split(r"[_.@-]", asked.strip().lower())[0]
    return code if code in SPOKEN else "en"


def catalogue(language: str) -> gettext.NullTranslations:
    path = FOLDER / language / "LC_MESSAGES" / "crossclaw.po"
    if language not in SPOKEN or not path.exists():
        return gettext.NullTranslations()
    with path.open("rb") as file:
        return Catalogue(file)


class _ProcessLanguage:
    """The language of this process, which one person uses."""

    def __init__(self) -> None:
        self.catalogue: gettext.NullTranslations | None = None


_language = _ProcessLanguage()


def speak(wanted: str | None = None) -> str:
    """Sets the language; returns which it is."""
    language = chosen_language(os.environ, wanted)
    _language.catalogue = catalogue(language)
    return language


def tr(text: str) -> str:
    """The text in the reader's language. Values are put in afterwards: `tr("at {url}").format(url=…)`."""
    if _language.catalogue is None:
        speak()
    assert _language.catalogue is not None
    return _language.catalogue.gettext(text)

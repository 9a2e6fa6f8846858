"""The first hour's texts: every one in every language, with the same places for values."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.generate import page_texts, page_words

from crossclaw.config.rehearsals import SHIPPED, read_shipped
from crossclaw.display.languages import FOLDER, SPOKEN, catalogue, chosen_language, entries

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src" / "crossclaw" / "web"
TRANSLATED = [language for language in SPOKEN if language != "en"]


def said_in_python() -> Iterator[str]:
    """The texts of `tr("…")`; one that is put together first could be found in no catalogue."""
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "dev").glob("*.py")]:
        source = path.read_text("utf-8")
        if "display.languages" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "tr"
            ):
                (text,) = node.args
                assert isinstance(text, ast.Constant), f"{path}:{node.lineno}: not a plain text"
                yield str(text.value)


SAID = {*said_in_python(), *page_texts()}


def _places(text: str) -> list[str]:
    return sorted(re.findall(r"\{[a-z]*\}", text))


def _in_catalogue(language: str) -> dict[str, str]:
    path = FOLDER / language / "LC_MESSAGES" / "crossclaw.po"
    pairs = list(entries(path.read_text("utf-8").split("\n")))
    texts = dict(pairs)
    assert len(texts) == len(pairs), "a text stands there twice"
    assert texts.pop("").startswith(f"Language: {language}\n")
    return texts


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_is_in_the_catalogue_and_nothing_else(language: str) -> None:
    texts = _in_catalogue(language)

    assert len(SAID) > 60
    assert SAID - texts.keys() == set()
    assert texts.keys() - SAID == set()


@pytest.mark.parametrize("language", TRANSLATED)
def test_a_translation_says_something_and_has_the_same_places_for_values(language: str) -> None:
    for text, translation in _in_catalogue(language).items():
        assert translation.strip(), text
        assert _places(translation) == _places(text), text
        assert re.findall(r"crossclaw \w+|--[\w-]+|https?://\S+", translation) == re.findall(
            r"crossclaw \w+|--[\w-]+|https?://\S+", text
        )


def test_the_scenes_that_the_page_offers_are_named_in_every_language() -> None:
    assert {read_shipped(name).title for name in SHIPPED} <= page_texts()


def test_what_the_page_has_is_what_the_catalogues_say() -> None:
    """`make docs` writes it."""
    assert (WEB / "words.js").read_text("utf-8") == page_words()


@pytest.mark.parametrize(
    ("environ", "wanted", "language"),
    [
        ({}, None, "en"),
        ({"LANG": "es_AR.UTF-8"}, None, "es"),
        ({"LANG": "es_ES.UTF-8", "LC_MESSAGES": "pt_BR.UTF-8"}, None, "pt"),
        ({"LC_ALL": "it_IT", "LC_MESSAGES": "pt_BR.UTF-8"}, None, "it"),
        ({"LC_ALL": "", "LANG": "pt"}, None, "pt"),
        ({"LC_ALL": "C.UTF-8", "LANG": "es_ES.UTF-8"}, None, "en"),
        ({"LANG": "de_DE.UTF-8"}, None, "en"),
        ({"LANG": "es_ES.UTF-8"}, "it", "it"),
    ],
)
def test_the_environment_says_the_language_and_an_option_goes_before_it(
    environ: dict[str, str], wanted: str | None, language: str
) -> None:
    assert chosen_language(environ, wanted) == language


def test_what_is_missing_in_a_catalogue_is_said_in_english() -> None:
    assert catalogue("es").gettext("Nobody has translated this.") == "Nobody has translated this."
    assert catalogue("es").gettext("Ctrl-C stops it.") == "Ctrl-C lo detiene."
    assert catalogue("de").gettext("Ctrl-C stops it.") == "Ctrl-C stops it."


def test_a_catalogue_is_read_as_its_tools_write_it() -> None:
    text = '# a comment\nmsgid ""\n"two "\n"parts"\nmsgstr "dos \\"partes\\"\\n"\n\nmsgid "b"\nmsgstr ""\n'

    assert list(entries(text.split("\n"))) == [("two parts", 'dos "partes"\n'), ("b", "")]
    with pytest.raises(ValueError, match="line 1"):
        list(entries(["nonsense"]))

"""The page's files: small, and fit for a strict content policy."""

import re
from pathlib import Path

import crossclaw

WEB = Path(crossclaw.__file__).parent / "web"


def test_the_page_is_small() -> None:
    assert sum(file.stat().st_size for file in WEB.iterdir()) <= 30_000


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    html = (WEB / "index.html").read_text("utf-8")

    assert not re.search(r"<script(?![^>]*\bsrc=)", html)
    assert not re.search(r"<style|\sstyle=|\son\w+=", html)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", html)
    named = re.findall(r'(?:src|href)="([^"#]+)"', html)
    assert set(named) <= {f"static/{file.name}" for file in WEB.iterdir()}


def test_words_of_others_are_put_in_as_text() -> None:
    script = (WEB / "app.js").read_text("utf-8")

    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
    assert not re.search(r"\.style\b|setAttribute\(\"style", script)


def test_every_field_has_its_label() -> None:
    html = (WEB / "index.html").read_text("utf-8")

    fields = re.findall(r'<(?:input|textarea) id="([^"]+)"', html)
    assert fields
    assert set(fields) == set(re.findall(r'<label[^>]* for="([^"]+)"', html))

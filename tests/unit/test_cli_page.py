"""The page's files: small, and fit for a strict content policy."""

import gzip
import re
from pathlib import Path

import crossclaw

WEB = Path(crossclaw.__file__).parent / "web"
SCRIPTS = sorted(WEB.glob("*.js"))
HTML = (WEB / "index.html").read_text("utf-8")


def test_the_page_is_small() -> None:
    """Its whole weight as it travels, and what the first view reads."""
    travels = sum(len(gzip.compress(file.read_bytes())) for file in WEB.iterdir())
    first = {WEB / "index.html", *(WEB / name.removeprefix("static/") for name in named())}

    assert travels <= 200_000 * 0.7
    assert sum(file.stat().st_size for file in first) <= 200_000


def named() -> set[str]:
    return set(re.findall(r'(?:src|href)="([^"#]+)"', HTML))


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    assert not re.search(r"<script(?![^>]*\bsrc=)", HTML)
    assert not re.search(r"<style|\sstyle=|\son\w+=", HTML)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", HTML)
    assert named() <= {f"static/{file.name}" for file in WEB.iterdir()}
    for script in SCRIPTS:
        imported = re.findall(r'(?:from |import |import\()"([^"\s]+)"', script.read_text("utf-8"))
        assert {name.removeprefix("./") for name in imported} <= {file.name for file in SCRIPTS}


def test_html_is_put_in_at_one_place_only() -> None:
    makers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc"
    found = [
        (script.name, line.strip())
        for script in SCRIPTS
        for line in script.read_text("utf-8").splitlines()
        if re.search(makers, line)
    ]

    assert found == [
        ("dom.js", "element.innerHTML = policy ? policy.createHTML(html) : html;"),
    ]


def test_every_field_has_its_label() -> None:
    fields = re.findall(r'<(?:input|textarea) id="([^"]+)"', HTML)
    assert fields
    assert set(fields) == set(re.findall(r'<label[^>]* for="([^"]+)"', HTML))


def test_every_icon_that_is_used_is_there() -> None:
    drawn = set(re.findall(r'<symbol id="i-([a-z]+)"', HTML))
    used = set(re.findall(r'href="#i-([a-z]+)"', HTML))
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        used |= set(re.findall(r'(?:icon|iconButton|iconUse)\("([a-z]+)"', text))
        used |= set(re.findall(r'"#i-([a-z]+)"', text))

    assert used <= drawn

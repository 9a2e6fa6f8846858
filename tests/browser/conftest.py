"""The page in a real Chromium, against the real program, offline. `make browser` brings both."""

import os
import shutil
from collections.abc import Callable, Generator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.browser.visiting import Place, Visitor, open_place

if find_spec("playwright") is None:
    collect_ignore_glob = ["test_*.py"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
Visit = Callable[..., Visitor]


@pytest.fixture(scope="session")
def chromium() -> Generator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  only make browser installs it

    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert program, "no Chromium here: make browser installs Debian's"
    # Chromium's own sandbox cannot be had by root, which containers often are.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    with open_place(tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture
def visit(chromium: Any, place: Place) -> Generator[Visit]:
    """Open the page as somebody who has the link. Whatever the console complains about is a failure."""
    visitors: list[Visitor] = []

    def come(where: str = "", **how: Any) -> Visitor:
        visitor = Visitor(chromium, how.pop("place", place), **how)
        visitors.append(visitor)
        visitor.come_in()
        if where:
            visitor.go(where)
        return visitor

    yield come
    for visitor in visitors:
        visitor.leave()

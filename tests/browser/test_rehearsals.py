"""Rehearsals at a click: each plays on a throwaway gateway of its own, with the map live beside it, and ends by itself."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, PATIENCE_MS, Place, open_place, route

pytestmark = pytest.mark.spec("N1")

LONG_MS = 3 * PATIENCE_MS
SCENES = {
    "Two agents talk": ("The librarian",),
    "A team of three, with a spawn": ("The researcher", "report on tides"),
    "A budget runs out": ("Main",),
}


@pytest.fixture(scope="module")
def theatre(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A gateway that nobody has talked to yet; what it starts has its folders here."""
    path = tmp_path_factory.mktemp("theatre")
    with open_place(path, "{}", TMPDIR=str(path)) as place:
        yield place


def begin(visit: Visit, theatre: Place, title: str) -> Any:
    """The tab of the stage, once it is there."""
    visitor = visit(route("exchanges"), place=theatre)
    with visitor.context.expect_page() as opened:
        visitor.see(".offers button", has_text=title).click()
    stage = opened.value
    stage.set_default_timeout(LONG_MS)
    stage.complaints = []
    stage.on("pageerror", lambda error: stage.complaints.append(str(error)))
    stage.locator(".scene h2", has_text=title).wait_for()
    return stage


def stages(theatre: Place) -> list[Path]:
    return list(theatre.folder.state.parent.glob("crossclaw-rehearsal-*"))


def until_gone(theatre: Place) -> None:
    deadline = time.monotonic() + LONG_MS / 1000
    while stages(theatre):
        assert time.monotonic() < deadline, "the stage did not end by itself"
        time.sleep(0.2)


@pytest.mark.parametrize("title", SCENES)
def test_a_scene_plays_at_a_click_with_the_map_beside_it(
    visit: Visit, theatre: Place, title: str
) -> None:
    stage = begin(visit, theatre, title)

    assert stage.evaluate("location.port") != str(theatre.program.port)
    stage.locator("cc-rehearsal > cc-map canvas").wait_for()
    stage.locator(".scene > p", has_text="That was all.").wait_for()
    assert stage.locator(".scene li[data-act=ok]").count() == stage.locator(".scene li").count()
    for agent in SCENES[title]:
        stage.locator(".flow li", has_text=agent).first.wait_for(state="attached")
    assert stage.complaints == []
    assert theatre.ledger("SELECT count(*) FROM runs") == [(0,)], "nothing happened in one's own"
    stage.close()


def test_a_gateway_that_is_killed_in_the_middle_goes_on_where_it_was(
    visit: Visit, theatre: Place
) -> None:
    stage = begin(visit, theatre, "Kill me")
    first = gateway_at(stage.evaluate("location.port"))

    stage.locator("#line[data-state=off], #line[data-state=wait]").wait_for(state="attached")
    stage.locator("#line[data-state=on]").wait_for(state="attached")
    stage.locator(".scene > p", has_text="That was all.").wait_for()
    assert stage.locator(".scene li[data-act=ok]").count() == 2
    second = gateway_at(stage.evaluate("location.port"))
    assert first != second, "it was another process"
    stage.goto(stage.url.partition("#")[0] + route("chat", MAIN))
    stage.locator(".message", has_text="on page nine").first.wait_for()
    said = stage.locator(".message.assistant", has_text="The librarian says: on page nine.").count()
    assert said == 1, "once"
    assert theatre.client.call("health", {})["ok"], "one's own was left alone"
    stage.close()


def gateway_at(port: Any) -> set[int]:
    """Processes that serve this port, by their command lines."""
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path("/proc", entry, "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if str(port) in words and "gateway" in words:
                found.add(int(entry))
    return found


def test_a_stage_that_nobody_looks_at_is_thrown_away(visit: Visit, theatre: Place) -> None:
    until_gone(theatre)

    assert stages(theatre) == []


def test_what_an_empty_place_says_works_when_it_is_typed(visit: Visit, place: Place) -> None:
    visitor = visit(route("exchanges"))
    words = visitor.see(".empty code", has_text="ask: ").inner_text()
    assert re.fullmatch(r"ask: librarian .+", words)

    visitor.go(route("chat", MAIN))
    visitor.say(words)
    visitor.see(".message.assistant", has_text="I was asked")
    visitor.say("Ask the librarian for the atlas")
    visitor.see(".message.assistant", has_text="for the atlas")
    place.settle()
    assert place.ledger("SELECT count(*) FROM exchanges") == [(2,)]

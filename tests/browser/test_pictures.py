"""The pictures of README and docs, drawn from a gateway at work. `make pictures` keeps them."""

import json
import os
import threading
from base64 import b64decode
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from crossclaw.domain.messages import AssistantBlock, Text, ToolUse
from crossclaw.testing import FakeModelServer
from crossclaw.testing.fake_models import FakeRequest
from tests.browser.conftest import Visit
from tests.browser.visiting import (
    AGENTS,
    HARBOUR,
    MAIN,
    Place,
    Visitor,
    ask_script,
    furnish,
    open_place,
    route,
)

BYTES_MAX = 100_000
QUALITY = 86  # text stays crisp
KEPT = os.environ.get("CROSSCLAW_PICTURES")
PEOPLE = (
    ("garden", "Ideas for the garden", "main", "Which herbs like the shade?"),
    ("release", "Release notes", "main", "Shorten the second paragraph, please."),
    ("tides", "Tide tables", "harbour", "Print the tables for June."),
    ("berths", "Berths in May", "harbour", "Is there room for a ketch?"),
    ("returns", "Books overdue", "librarian", "Who has the atlas?"),
)
SHELF = "Shelf nine, beside the atlas. It is lent out at the moment and due back on Friday."
ANSWERS = {
    "Which herbs": "Mint, parsley and chives do well there. Mint wants a pot of its own.",
    "Which shelf": SHELF,
    "Shelf nine": "REPLY_SKIP",
}


class Studio:
    """Models that play their parts, until the last of them is asked about the tide."""

    def __init__(self) -> None:
        self.curtain = threading.Event()

    def answer(self, request: FakeRequest) -> str | list[AssistantBlock]:
        asked = request.last_text
        if "announce step" in asked:
            return "ANNOUNCE_SKIP"
        if not asked:
            return "It is on **shelf nine**, beside the atlas, and due back on Friday."
        if "Where do we keep" in asked:
            return _ask(
                "I will ask the librarian.", "librarian", "Which shelf is the tide book on?"
            )
        if "Could we sail" in asked:
            return _ask("That depends on the tide.", "harbour", "When is high water tonight?")
        if "high water" in asked:
            self.curtain.wait(60)
        if "Which shelf" in asked:
            return SHELF
        return next((said for sign, said in ANSWERS.items() if sign in asked), "Done.")


def _ask(words: str, agent: str, question: str) -> list[AssistantBlock]:
    arguments = {"agentId": agent, "message": question, "timeoutSeconds": 300}
    return [Text(words), ToolUse(f"call-{agent}", "sessions_send", arguments)]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    studio = Studio()
    with FakeModelServer(studio.answer) as server:
        provider = {
            "api": "anthropic-messages",
            "baseUrl": server.url,
            "apiKey": "any",
            "models": [{"id": "heron", "name": "Heron"}],
        }
        config = {
            "agents": AGENTS | {"defaults": {"model": "studio/heron"}},
            "models": {"providers": {"studio": provider}},
        }
        with open_place(tmp_path_factory.mktemp("studio"), json.dumps(config)) as place:
            _play(place)
            yield place
        studio.curtain.set()


def _play(place: Place) -> None:
    for name, label, agent, words in PEOPLE:
        place.say(place.make(name, label=label, agentId=agent), words)
    place.say(MAIN, "Where do we keep the book on tides?")
    place.settle()
    place.client.submit("Could we sail to the island this evening?", MAIN, key="p1")


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("chat", "light"),
        ("chat", "dark"),
        ("map", "light"),
        ("map", "dark"),
        ("sessions", "light"),
        ("exchange", "light"),
        ("trace", "dark"),
        ("chat-narrow", "dark"),
    ],
)
def test_a_picture_is_drawn_and_small(
    visit: Visit, studio: Place, tmp_path: Path, name: str, scheme: str
) -> None:
    (exchange,) = studio.ledger("SELECT exchange_id FROM exchanges ORDER BY created_at LIMIT 1")[0]
    views = {
        "chat": (route("chat", MAIN), ".tool[data-state=running]"),
        "chat-narrow": (route("chat", MAIN), ".tool[data-state=running]"),
        "map": (route("map"), ".side .state[data-state=waiting]"),
        "sessions": (route("sessions", HARBOUR), ".panel .facts"),
        "exchange": (route("exchange", exchange), ".sequence .step"),
        "trace": (route("trace", exchange), ".span.critical"),
    }
    where, sign = views[name]
    size: dict[str, Any] = {"width": 390 if "narrow" in name else 1200, "height": 750}
    visitor = visit(where, place=studio, scheme=scheme, **size)
    visitor.see(sign)
    visitor.until("() => document.fonts.status === 'loaded'")
    visitor.until("() => !document.querySelector('.log .words.plain:not(:empty)')")  # as Markdown
    visitor.settle()

    check_small(take(visitor, tmp_path, f"{name}-{scheme}"))


def take(visitor: Visitor, folder: Path, name: str) -> Path:
    file = (Path(KEPT) if KEPT else folder) / f"page-{name}.webp"
    camera = visitor.context.new_cdp_session(visitor.page)
    taken = camera.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    file.write_bytes(b64decode(taken["data"]))
    return file


def check_small(file: Path) -> None:
    assert 5_000 < file.stat().st_size <= BYTES_MAX


CROWD = (
    "Main", "Librarian", "Harbour", "Cook", "Gardener", "Archivist", "Translator", "Treasurer", "Courier", "Watch",
    "Tailor", "Clockmaker",
)  # fmt: skip


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """Twelve agents, three thousand sessions, and trouble."""
    agents = [{"id": name.lower(), "name": name} for name in CROWD]
    config = {"agents": {"list": agents}, "tools": {"ask": ["write"]}}
    with open_place(tmp_path_factory.mktemp("crowd"), json.dumps(config)) as place:
        furnish(place, 3_000)
        place.client.submit("fail: the bucket has a hole", place.make("wells", label="The wells"))
        ask = {"agentId": "harbour", "message": "fail: no tide today", "timeoutSeconds": 60}
        pier = place.make("pier", label="Trouble at the pier")
        place.client.submit(
            f"tool: sessions_send {json.dumps(ask)}\nthen:\nsay: Nobody knows.", pier
        )
        place.settle()
        letter = {"path": "letter.txt", "content": "Dear Sir, the boats are late."}
        letters = place.make("letters", label="Letters", agentId="librarian")
        place.client.submit(f"tool: write {json.dumps(letter)}", letters)
        question = ask_script("harbour", "When is high water?", "wait: 600", "Tonight.")
        place.client.submit(question, place.make("sail", label="A sail this evening"))
        yield place


@pytest.mark.parametrize(
    ("name", "scheme", "wide", "sign"),
    [
        ("attention", "light", 1440, ".troubles li >> text=no tide today"),
        ("map", "dark", 1440, ".side .state[data-state=waiting]"),
        ("map", "light", 390, ".side .state[data-state=waiting]"),
        ("sessions", "dark", 390, ".tr .state[data-state=waiting]"),
    ],
)
def test_a_crowd_with_trouble_is_drawn_too(
    visit: Visit, crowd: Place, tmp_path: Path, name: str, scheme: str, wide: int, sign: str
) -> None:
    size: dict[str, Any] = {"width": wide, "height": 750}
    visitor = visit(route(name), place=crowd, scheme=scheme, **size)
    visitor.see(sign)
    if name == "map":
        visitor.until("() => document.querySelector('cc-map').labels?.length >= 12")
    visitor.settle()

    check_small(take(visitor, tmp_path, f"crowd-{name}-{wide}-{scheme}"))

"""The pictures of README and docs, drawn from a house at work. `make pictures` keeps them."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import HARBOUR, MAIN, Place, ask_script, route

BYTES_MAX = 100_000
KEPT = os.environ.get("CROSSCLAW_PICTURES")
PEOPLE = (
    ("garden", "Ideas for the garden", "main"),
    ("release", "Release notes", "main"),
    ("tides", "Tide tables", "harbour"),
    ("berths", "Berths in May", "harbour"),
    ("returns", "Books overdue", "librarian"),
)


@pytest.fixture(scope="module")
def at_work(place: Place) -> str:
    for name, label, agent in PEOPLE:
        key = place.make(name, label=label, agentId=agent)
        place.say(key, "say: Noted; I shall come back to it this afternoon.")
    place.say(
        MAIN,
        "Which shelf holds the book on tides?\n"
        + ask_script(
            "librarian",
            "Which shelf holds the book on tides?",
            "say: Shelf nine, beside the atlas. It is due back on Friday.",
            "It is on shelf nine, beside the atlas, and due back on Friday.",
        ),
    )
    place.settle()
    place.client.say(
        MAIN,
        ask_script("harbour", "When is high water tonight?", "wait: 600\nsay: At 22:40.", "22:40."),
        "p1",
    )
    (exchange,) = place.ledger("SELECT exchange_id FROM exchanges ORDER BY created_at LIMIT 1")[0]
    return str(exchange)


@pytest.mark.parametrize("name", ["chat", "map", "sessions", "exchange", "chat-narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_is_drawn_and_small(
    visit: Visit, at_work: str, tmp_path: Path, name: str, scheme: str
) -> None:
    views: dict[str, tuple[str, str]] = {
        "chat": (route("chat", MAIN), ".tool[data-state=ok]"),
        "chat-narrow": (route("chat", MAIN), ".tool[data-state=ok]"),
        "map": (route("map"), ".side .state[data-state=waiting]"),
        "sessions": (route("sessions", HARBOUR), ".panel .facts"),
        "exchange": (route("exchange", at_work), ".sequence .step"),
    }
    where, sign = views[name]
    size: dict[str, Any] = {"width": 1200, "height": 750}
    if name == "chat-narrow":
        size = {"width": 390, "height": 750}
    visitor = visit(where, scheme=scheme, **size)
    visitor.see(sign)
    visitor.until("() => document.fonts.status === 'loaded'")
    folder = Path(KEPT) if KEPT else tmp_path

    file = folder / f"page-{name}-{scheme}.png"
    visitor.page.screenshot(path=file)

    assert file.stat().st_size <= BYTES_MAX

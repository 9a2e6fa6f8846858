"""Approvals, forks and the quick switcher on the page."""

import json
from collections.abc import Generator

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import AGENTS, MAIN, Place, open_place, route

pytestmark = pytest.mark.spec("B7", "B9")
ASKS = json.dumps({"agents": AGENTS, "tools": {"exec": {"security": "allowlist"}}})
RUNS = 'tool: exec {"command": "echo  lavender"}\nthen:\nsay: Done.'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    with open_place(tmp_path_factory.mktemp("asking"), ASKS, PATH="/usr/bin:/bin") as place:
        yield place


def test_a_command_is_shown_whole_and_allowed_from_the_chat(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", MAIN))
    place.client.submit(RUNS, MAIN, key="ask-1")

    card = visitor.see("cc-approvals article")
    card.locator("pre", has_text="echo  lavender").wait_for()
    card.get_by_text("Program /usr/bin/echo").wait_for()
    visitor.see("cc-chat .about", has_text="needs approval")
    visitor.see("#attention-count", has_text="1")
    card.get_by_text("Always allow").click()
    visitor.see(".message.assistant .words", has_text="Done.")
    visitor.until("() => document.querySelector('cc-approvals').hidden")
    place.settle()
    place.client.submit(RUNS, MAIN, key="ask-2")
    place.settle()
    (status,) = place.ledger("SELECT status, reply FROM runs WHERE run_id = 'ask-2'")
    assert status == ("ok", "Done.")


def test_it_is_denied_among_what_needs_attention(visit: Visit, place: Place) -> None:
    key = place.make("denied")
    visitor = visit(route("attention"))
    place.client.submit(
        'tool: exec {"command": "echo a | cat"}\nthen:\nsay: Well.', key, key="ask-3"
    )

    row = visitor.see(".troubles li[data-kind=approval]", has_text="asks: may it run this?")
    row.locator(".why", has_text="echo a | cat").wait_for()
    row.get_by_text("Only once: it has a pipe.").wait_for()
    assert row.get_by_text("Always allow").count() == 0
    row.get_by_text("Deny").click()
    place.settle()
    (answered,) = place.ledger("SELECT status FROM approvals WHERE run_id = 'ask-3'")
    assert answered == ("deny",)


def test_a_conversation_is_forked_and_a_message_said_otherwise(visit: Visit, place: Place) -> None:
    key = place.make("garden")
    place.say(key, "say: The lavender blooms.")
    place.say(key, "say: And the sage.")
    visitor = visit(route("chat", key))

    mine = visitor.see(".message.user", has_text="And the sage.")
    mine.hover()
    mine.get_by_text("Edit in a fork").click()
    visitor.see(".log .note", has_text="Forked here from")
    visitor.until("() => document.getElementById('say').value === 'say: And the sage.'")
    visitor.page.fill("#say", "say: And the thyme.")
    visitor.page.press("#say", "Enter")
    visitor.see(".message.assistant .words", has_text="And the thyme.")
    assert visitor.page.locator(".message.assistant", has_text="And the sage.").count() == 0
    visitor.page.click(".log .note a")
    visitor.see(".message.assistant .words", has_text="And the sage.")


def test_the_switcher_goes_anywhere_by_a_few_letters(visit: Visit, place: Place) -> None:
    place.make("cellar", label="The cellar")
    visitor = visit(route("map"))

    visitor.page.keyboard.press("Control+k")
    visitor.see(".switcher input")
    visitor.page.keyboard.type("cellar")
    visitor.see(".switcher li[aria-selected=true]", has_text="The cellar")
    visitor.page.keyboard.press("Enter")
    visitor.see("cc-chat h2", has_text="The cellar")
    visitor.page.keyboard.press("Control+k")
    visitor.see("dialog.switcher[open] input")
    visitor.page.keyboard.type("exch")
    visitor.see(".switcher li[aria-selected=true]", has_text="Exchanges")
    visitor.page.keyboard.press("Enter")
    visitor.see("cc-exchanges")


def test_a_new_conversation_is_with_the_agent_that_was_chosen(visit: Visit) -> None:
    visitor = visit(route("chat", MAIN))

    visitor.page.click("cc-recent [aria-label='New conversation']")
    visitor.page.click("#whom >> text=Harbour master")
    visitor.see(".log .empty", has_text="Harbour master")
    visitor.until("() => !document.querySelector('cc-recent a[aria-current=page].unread')")
    visitor.page.select_option("cc-recent > select", "librarian")
    visitor.until("() => !document.querySelector('cc-recent a[href*=harbour]:not([aria-current])')")

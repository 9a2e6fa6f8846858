"""Exchanges step by step, and runs from cause to effect."""

import json
import re
from pathlib import Path

import pytest

import crossclaw
from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, Place, ask_script, route

pytestmark = pytest.mark.spec("B7")

ASK = ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you.")


def test_a_send_is_drawn_with_its_rounds_and_its_announce(visit: Visit, place: Place) -> None:
    place.say(MAIN, ASK)
    place.settle()
    visitor = visit(route("exchanges"))

    visitor.see(".cards a", has_text="Main → The librarian").click()
    kinds = visitor.see(".sequence").locator(".step .kind").all_inner_texts()
    assert [kind.split()[0] for kind in kinds][:2] == ["send", "round"]
    assert any(kind.startswith("announce") for kind in kinds)
    visitor.see(".chain", has_text="a person")

    step = visitor.see(".step", has_text="Which shelf?")
    step.locator("summary").click()
    step.get_by_text("Answered").wait_for()
    assert "The ninth." in step.locator(".more").inner_text()


def test_a_run_shows_its_turns_and_tools_and_what_followed(visit: Visit, place: Place) -> None:
    run_id = place.say(MAIN, ASK)
    place.settle()
    visitor = visit(route("run", run_id))

    visitor.see(".timeline", has_text="Turn 2")
    labels = visitor.find(".timeline .label b").all_inner_texts()
    assert labels == ["Asked", "Turn 1", "Tool call", "Turn 2", "Ended"]
    tool = visitor.see(".timeline .tool")
    tool.locator("summary").click()
    assert "The ninth." in tool.inner_text()
    visitor.see(".cards a", has_text="The librarian · send").click()
    visitor.see(".chain a[aria-current]", has_text="The librarian · send")
    visitor.see(".chain a", has_text="Main · chat")


def test_a_run_under_way_grows_on_the_page(visit: Visit, place: Place) -> None:
    key = place.make("growing")
    place.client.submit("wait: 600\nsay: done", key, key="grow-1")
    visitor = visit(route("run", "grow-1"))

    visitor.see(".timeline", has_text="At work")
    place.client.call("chat.abort", {"sessionKey": key})
    visitor.see(".timeline .bad", has_text="Ended")


def test_a_run_is_exported_as_json(visit: Visit, place: Place, tmp_path: Path) -> None:
    run_id = place.say(MAIN, "say: keep this")
    visitor = visit(route("run", run_id))

    with visitor.page.expect_download() as download:
        visitor.page.click("text=Export JSON")
    download.value.save_as(tmp_path / "run.json")

    kept = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert (kept["run"]["runId"], kept["reply"]) == (run_id, "keep this")


def test_what_is_not_there_is_said(visit: Visit) -> None:
    visitor = visit(route("run", "nobody-knows-it"))
    visitor.see(".empty", has_text="there is no run nobody-knows-it")
    visitor.go(route("exchange", "nor-this"))
    visitor.see(".empty", has_text="there is no exchange")


def test_a_spawn_is_drawn_with_its_child_and_its_report(visit: Visit, place: Place) -> None:
    place.say(MAIN, 'tool: sessions_spawn {"task": "say: forty-two"}\nthen:\nsay: It has begun.')
    place.settle()
    visitor = visit(route("exchanges"))

    visitor.see(".cards a", has_text="spawn").click()
    visitor.see(".sequence .step", has_text="forty-two")
    (child,) = place.ledger("SELECT child_key FROM spawns")[0]
    shown = visitor.page.evaluate("() => document.querySelector('cc-exchange').trace.target")
    assert shown == child
    visitor.go(route("map"))
    visitor.see(".flow a", has_text="report")


def test_what_is_left_out_leaves_no_word_behind(visit: Visit, place: Place) -> None:
    run_id = place.say(place.make("alone"), "say: nothing follows")
    visitor = visit(route("run", run_id))

    visitor.see(".timeline", has_text="Ended")
    texts = visitor.find("main .page").evaluate(
        "page => [...page.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.data)"
    )
    assert texts == []


def test_only_one_function_puts_parts_in_place_of_others() -> None:
    """The browser's own writes the word "false" for a part that is left out."""
    web = Path(crossclaw.__file__).parent / "web"
    users = [path.name for path in web.glob("*.js") if ".replaceChildren(" in path.read_text()]
    assert users == ["dom.js"]


def test_the_report_of_a_child_and_an_announce_are_told_in_words(
    visit: Visit, place: Place
) -> None:
    place.say(MAIN, 'tool: sessions_spawn {"task": "say: forty-three"}\nthen:\nsay: Begun.')
    place.settle()
    (child,) = place.ledger("SELECT child_key FROM spawns ORDER BY created_at DESC LIMIT 1")[0]
    visitor = visit(route("exchange", child))

    last = visitor.see(".sequence .step:last-child .said", has_text="forty-three")
    assert last.inner_text() == "forty-three"
    visitor.go(route("map"))
    visitor.see(".flow a .route", has_text=re.compile(r"^Main · child \w{6} announces$"))


def test_what_failed_is_red_wherever_it_is_shown_and_says_why(visit: Visit, place: Place) -> None:
    key = place.make("trouble")
    ask = {"agentId": "harbour", "message": "fail: no tide today", "timeoutSeconds": 60}
    run = place.client.submit(f"tool: sessions_send {json.dumps(ask)}\nthen:\nfail: no boat", key)
    place.settle()
    bad = ".state[data-state=bad]"
    visitor = visit(route("exchanges"))

    card = visitor.see(".cards li", has_text="trouble → Harbour master")
    card.locator(bad, has_text="failed").wait_for()
    card.locator(".problem", has_text="no tide today").wait_for()
    visitor.go(route("sessions"))
    visitor.see(".tr", has_text="agent:main:trouble").locator(bad, has_text="no boat").wait_for()
    visitor.go(route("chat", key))
    visitor.see("cc-recent li", has_text="trouble").locator(bad).wait_for()
    visitor.see(".tool[data-state=bad] .time", has_text="no tide today")
    visitor.go(route("map", "agent:harbour:main"))
    visitor.see(".side .facts").locator(bad, has_text="no tide today").wait_for()
    assert run


def test_an_exchange_under_way_says_so(visit: Visit, place: Place) -> None:
    key = place.make("patient")
    ask = {"agentId": "harbour", "message": "wait: 600", "timeoutSeconds": 600}
    place.client.submit(f"tool: sessions_send {json.dumps(ask)}", key, key="patient-1")
    visitor = visit(route("exchanges"))

    visitor.see(".cards a", has_text="patient → Harbour master").click()
    visitor.see(".figures div", has_text="Took").get_by_text("under way").wait_for()
    visitor.see("header .state[data-state=running]")
    for each in ("agent:harbour:main", key):
        place.client.call("chat.abort", {"sessionKey": each})
    visitor.see("header .state[data-state=stopped]")


def test_a_refusal_that_comes_late_leaves_what_was_opened_since(visit: Visit) -> None:
    visitor = visit()

    shown = visitor.page.evaluate(
        """async () => {
          const { findNamed } = await import(new URL('static/finding.js', document.baseURI));
          const view = { name: 'first' }, shown = [];
          const how = (ask) => ({ ask, draw: (found) => shown.push(found), refuse: (why) => shown.push(why.textContent) });
          let fail;
          const late = findNamed(view, how(() => new Promise((_, reject) => { fail = reject })));
          view.name = 'second';
          await findNamed(view, how(async () => 'the second'));
          fail(new Error('there is no first'));
          await late;
          return shown;
        }"""
    )

    assert shown == ["the second"]

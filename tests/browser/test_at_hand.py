"""Always at hand: notices lie on nothing, a lost line is told, the focus stays where somebody works."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, Place, Visitor, open_place, route

pytestmark = pytest.mark.spec("N1")

FOCUSED = "() => document.activeElement.getAttribute('href') || document.activeElement.className"
NOTICE = """async (undo) => {
  const { notice } = await import(new URL('static/gateway.js', document.baseURI));
  notice('Something is archived.', undo ? { undo: () => {} } : { bad: true });
}"""
LONG_NOTICES = """async () => {
  const { notice } = await import(new URL('static/gateway.js', document.baseURI));
  for (const n of [1, 2, 3, 4]) notice(`${n} ` + 'words that need many lines beside the rail '.repeat(6));
}"""
COVERED = """() => {
  const reached = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    const spots = [[0.5, 0.5], [0.1, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.9]];
    return spots.map(([x, y]) => document.elementFromPoint(left + x * (right - left), top + y * (bottom - top)));
  };
  const cut = (element) => {  // what is scrolled out of its own part is covered by nobody
    const { top, bottom } = element.getBoundingClientRect();
    const edge = element.closest('.panel, .page, .side, .log, nav, main').getBoundingClientRect();
    return top < edge.top || bottom > edge.bottom;
  };
  return [...document.querySelectorAll('#layout :is(a[href], button, input, select, textarea, summary)')]
    .filter((each) => !each.closest('.toast') && each.checkVisibility() && !cut(each))
    .filter((each) => reached(each).some((hit) => hit?.closest('.toast')))
    .map((each) => each.getAttribute('href') || each.textContent || each.localName);
}"""


@pytest.mark.parametrize("width", [1440, 820, 390])
def test_a_notice_covers_nothing_that_can_be_pressed(
    visit: Visit, place: Place, width: int
) -> None:
    place.say(MAIN, "say: hello")
    visitor = visit(width=width, height=844)
    signs = {
        route("chat", MAIN): ".message.assistant",
        route("sessions", MAIN): ".panel .acts",
        route("map"): ".flow a",
        route("exchanges"): ".empty",
        route("operations", "jobs"): "section[aria-label='Cron jobs'] form",
    }
    for where, sign in signs.items():
        visitor.go(where)
        visitor.see(sign)
        visitor.page.evaluate(NOTICE, True)
        visitor.page.evaluate(NOTICE, False)
        visitor.see(".toast.bad")
        assert visitor.page.evaluate(COVERED) == [], where


@pytest.mark.parametrize("height", [900, 700, 560, 420])
def test_many_long_notices_cover_no_link_however_low_the_window_is(
    visit: Visit, place: Place, height: int
) -> None:
    visitor = visit(width=1440, height=height)
    visitor.see(".rail a[data-view=operations]")
    visitor.page.evaluate(LONG_NOTICES)
    visitor.see(".toast", has_text="4 words")

    assert visitor.page.evaluate(COVERED) == []
    assert visitor.find("#toasts").bounding_box()["height"] > 100


def test_the_time_to_undo_stands_still_while_somebody_is_at_it(chromium: Any, place: Place) -> None:
    visitor = Visitor(chromium, place)
    visitor.page.clock.install()
    visitor.come_in()
    visitor.page.evaluate(NOTICE, True)

    visitor.page.focus(".toast button")
    visitor.page.clock.fast_forward(20_000)
    assert visitor.find(".toast").count() == 1
    visitor.page.focus("#skip")
    visitor.page.clock.fast_forward(20_000)

    assert visitor.find(".toast").count() == 0
    visitor.leave()


def test_on_a_phone_colours_and_token_are_a_touch_away(visit: Visit) -> None:
    visitor = visit(width=390, height=844)
    assert not visitor.find("#theme").is_visible()

    visitor.page.click("#more")
    visitor.page.click("#theme")
    visitor.see("#theme", has_text="Colours: dark")
    assert visitor.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    visitor.page.keyboard.press("Escape")
    visitor.find("#theme").wait_for(state="hidden")
    assert visitor.page.evaluate("() => document.activeElement.id") == "more"

    visitor.page.click("#more")
    visitor.page.click("#forget")
    visitor.see("#door")
    assert visitor.page.evaluate("() => sessionStorage.length") == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_a_gateway_that_went_away_is_told_in_words_until_it_is_back(
    visit: Visit, tmp_path: Path, width: int
) -> None:
    with open_place(tmp_path) as own:
        port = own.program.port
        visitor = visit(place=own, width=width, may_complain="WebSocket|ERR_CONNECTION")
        visitor.go(route("sessions"))
        assert not visitor.find("#lost").is_visible()
        own.program.kill()
        visitor.see("#lost", has_text="not connected")
        with own.folder.start("gateway", "--port", str(port)):
            visitor.find("#lost").wait_for(state="hidden")


def test_on_a_phone_the_panel_of_a_session_has_the_focus_until_it_is_closed(
    visit: Visit, place: Place
) -> None:
    key = place.make("panel")
    visitor = visit(route("sessions"), width=390, height=844)
    link = route("sessions", key)
    visitor.see(f".tbody a[href='{link}']").press("Enter")  # at once: the table may be drawn anew
    visitor.until("() => document.activeElement.getAttribute('aria-label') === 'Close'")

    assert visitor.page.evaluate("() => document.querySelector('.table').inert")
    visitor.page.keyboard.press("Escape")
    visitor.find(".panel").wait_for(state="hidden")
    assert visitor.page.evaluate(FOCUSED) == link
    assert not visitor.page.evaluate("() => document.querySelector('.table').inert")


def test_whoever_deletes_by_keyboard_stands_at_the_row_and_then_at_the_table(
    visit: Visit, place: Place
) -> None:
    key = place.make("leaves")
    visitor = visit(route("sessions", key))
    visitor.see(".panel .bad").focus()

    visitor.page.keyboard.press("Enter")
    visitor.find(".panel").wait_for(state="hidden")
    assert visitor.page.evaluate(FOCUSED) == route("sessions", key)
    visitor.find(".tbody a", has_text="leaves").wait_for(state="detached")

    assert visitor.page.evaluate(FOCUSED) == "table"
    assert place.ledger("SELECT key FROM sessions WHERE key = ?", key) == []


def test_whoever_adds_a_job_by_keyboard_stays_in_its_form(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations", "jobs"))
    form = visitor.see("form[aria-label='New job']")
    given = {"name": "Focus", "expr": "0 5 1 1 *", "message": "say: ok"}
    for name, text in given.items():
        form.locator(f"[name={name}]").fill(text)

    form.get_by_role("button").focus()
    visitor.page.keyboard.press("Enter")
    visitor.see("section[aria-label='Cron jobs'] li", has_text="Focus")

    visitor.until("() => document.activeElement.closest('form')?.ariaLabel === 'New job'")


def test_whoever_enters_stands_in_the_view(chromium: Any, place: Place) -> None:
    visitor = Visitor(chromium, place)
    visitor.go("")
    visitor.see("#door")
    visitor.page.fill("#token", place.token)
    visitor.page.press("#token", "Enter")
    visitor.see("#line[data-state=on]")

    assert visitor.page.evaluate("() => document.activeElement.id") == "view"
    visitor.leave()


def test_on_a_phone_the_focus_goes_into_the_conversation_and_back_to_the_list(
    visit: Visit, place: Place
) -> None:
    key = place.make("there-and-back")
    visitor = visit("#/chat", width=390, height=844)
    visitor.see(f"cc-recent a[href='{route('chat', key)}']").focus()
    visitor.page.keyboard.press("Enter")
    visitor.see(".log")
    assert visitor.page.evaluate(FOCUSED) == "log"

    visitor.page.focus(".back")
    visitor.page.keyboard.press("Enter")
    visitor.see("cc-recent nav")
    assert visitor.page.evaluate(FOCUSED) == route("chat", key)


def test_the_map_is_walked_by_keyboard(visit: Visit, place: Place) -> None:
    place.say(MAIN, "say: hello")
    visitor = visit(route("map"))
    visitor.see(".flow a")
    visitor.page.focus("canvas")

    visitor.page.keyboard.press("PageDown")
    first = visitor.see(".side .picked").inner_text()
    visitor.until(
        "name => document.querySelector('.stage [role=status]').textContent.startsWith(name)",
        first.splitlines()[-1],
    )
    visitor.page.keyboard.press("PageUp")
    visitor.see(".side .picked")
    visitor.page.keyboard.press("Escape")
    visitor.find(".side .picked").wait_for(state="detached")


def test_a_fresh_gateway_says_what_to_do_next_in_every_view(visit: Visit, tmp_path: Path) -> None:
    with open_place(tmp_path, "{}") as own:
        visitor = visit(place=own)
        visitor.see(".log .empty", has_text="rehearsal answers")
        for view in ("sessions", "exchanges"):
            visitor.go(f"#/{view}")
            visitor.see(f"main > cc-{view} .empty a[href='#/chat']")
        visitor.go("#/map")  # its agents are there before anybody talked to them
        visitor.see("main > cc-map canvas")
        visitor.go("#/operations/jobs")
        visitor.see("section[aria-label='Cron jobs'] .empty ~ form")
        visitor.page.close()

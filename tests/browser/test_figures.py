"""Figures over time on the page: what the last hour cost in one line, and drawn by agent, model and channel."""

from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import LIBRARIAN, MAIN, Place, route

pytestmark = pytest.mark.spec("N1")


@pytest.fixture(scope="module")
def talked(place: Place) -> Place:
    for number in range(3):
        place.say(MAIN, f"say: high water at {number}")
    place.say(LIBRARIAN, "say: the ninth shelf")
    place.client.submit("fail: the almanac is lost", MAIN, key="figures-fail")
    place.settle()
    return place


def test_the_first_view_says_what_the_last_hour_cost(visit: Visit, talked: Place) -> None:
    visitor = visit()
    line = visitor.see("cc-last-hour", has_text="5 turns")
    words = line.inner_text()
    told = talked.client.call("figures.get", {})["total"]

    assert words.startswith("Last hour: $0.00 · 5 turns · ")
    assert words.endswith(" · 1 failed")
    assert told["failed"] == 1
    line.locator("a", has_text="Last hour").click()
    visitor.see("cc-figures dd", has_text="5")
    assert visitor.find("select[aria-label=Time]").input_value() == "hour"
    visitor.go("#/chat")
    visitor.see("cc-last-hour a", has_text="1 failed").click()
    visitor.see(".troubles .why", has_text="the almanac is lost")


def test_an_agent_is_drawn_in_the_colour_that_it_has_everywhere(
    visit: Visit, talked: Place
) -> None:
    visitor = visit(route("operations", "figures") + "/hour/agent/turns")
    visitor.see(".chart rect")

    hues = "items => items.map(each => getComputedStyle(each).getPropertyValue('--hue').trim())"
    script = (
        "async () => { const { hueOf } = await import(new URL('static/dom.js', document.baseURI));"
        " return ['main', 'librarian'].map(each => String(hueOf(each))) }"
    )
    wanted = visitor.page.evaluate(script)
    assert visitor.find(".chart rect").evaluate_all(hues) == wanted
    assert visitor.find(".names .key").evaluate_all(hues) == wanted
    assert len(set(visitor.find(".chart rect").evaluate_all(_FILLED))) == 2


_FILLED = "items => items.map(each => getComputedStyle(each).fill)"


def test_times_below_the_first_class_are_not_made_up(visit: Visit, talked: Place) -> None:
    visitor = visit(route("operations", "figures"))
    visitor.see(".chart svg")
    told = visitor.page.evaluate(
        "() => { const element = document.querySelector('cc-figures');"
        " Object.assign(element.answer.total, { tookMedianMs: 150, took95Ms: 1200 }); element.draw();"
        " return [...element.querySelectorAll('dl.figures dd')].slice(-2).map(each => each.textContent) }"
    )
    assert told == ["less than 300 ms", "about 1.2 s"]


def test_turns_are_drawn_for_each_agent_with_the_same_numbers_as_a_table(
    visit: Visit, talked: Place
) -> None:
    visitor = visit(route("operations", "figures") + "/hour/agent/turns")
    picture = visitor.see(".chart svg[role=img]")

    visitor.until("() => document.querySelectorAll('.chart rect').length >= 2")
    assert "The librarian 1" in picture.get_attribute("aria-label")
    assert "Main 4" in picture.get_attribute("aria-label")
    visitor.page.click("summary")
    head = visitor.find("cc-figures thead th").all_inner_texts()
    rows = visitor.find("cc-figures tbody tr").all()
    columns = [[_number(cell) for cell in row.locator("td").all_inner_texts()] for row in rows]
    assert head == ["Time", "Main", "The librarian"]
    assert [sum(each) for each in zip(*columns, strict=True)] == [4, 1]


def _number(text: str) -> int:
    return 0 if text == "–" else int(text)


_TWO_CHOICES_AT_ONCE = """() => {
  for (const [label, value] of [["Divided", "model"], ["Figure", "time"]]) {
    const select = document.querySelector(`select[aria-label=${label}]`);
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
  }
}"""


def test_what_is_shown_stands_in_the_address(visit: Visit, talked: Place) -> None:
    visitor = visit(route("operations", "figures"))
    visitor.see(".chart svg")
    visitor.page.evaluate(_TWO_CHOICES_AT_ONCE)

    visitor.see(".names", has_text="rehearsal/rehearsal")
    visitor.page.wait_for_url("**/#/operations/figures/day/model/time")
    visitor.page.reload()
    visitor.see(".chart circle")
    assert visitor.find("select[aria-label=Figure]").input_value() == "time"


@pytest.mark.parametrize("width", [1440, 390])
def test_the_picture_is_as_wide_as_its_place(visit: Visit, talked: Place, width: int) -> None:
    visitor = visit(route("operations", "figures") + "/hour/channel/tokens", width=width)
    visitor.see(".chart rect")

    wide: Any = visitor.page.evaluate(
        "() => [document.querySelector('.chart svg'), document.querySelector('.chart'),"
        " document.documentElement].map(each => [each.clientWidth || each.getBoundingClientRect().width,"
        " each.scrollWidth])"
    )
    (drawn, _), (place, _), (page, scrolled) = wide
    assert abs(drawn - place) <= 1
    assert scrolled <= page

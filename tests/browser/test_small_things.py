"""Small things that were seen once and stay right: what is cut, what overlaps, what looks like one, what is unexplained."""

from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import LIBRARIAN, MAIN, Place, ask_script, route

pytestmark = pytest.mark.spec("B7")

CUT = "each => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1"
LEGEND = """() => { const m = document.querySelector('cc-map'), v = m.view, g = m.legend;
  const onScreen = m.labels.map(l => ({ name: l.name, l: l.l * v.zoom + v.x, r: l.r * v.zoom + v.x,
    t: l.t * v.zoom + v.y, b: l.b * v.zoom + v.y }));
  const box = { l: g.offsetLeft, t: g.offsetTop, r: g.offsetLeft + g.offsetWidth, b: g.offsetTop + g.offsetHeight };
  return [onScreen, box]; }"""


def test_what_the_line_says_is_never_cut(visit: Visit) -> None:
    visitor = visit(route("chat", MAIN))

    line = visitor.see("#line span")
    line.evaluate(
        "each => { each.textContent = 'not connected: the gateway is away, trying again' }"
    )

    assert line.evaluate(CUT) is False
    assert visitor.find("#line").evaluate(CUT) is False


def test_no_zoomed_name_is_written_over_the_legend(visit: Visit, place: Place) -> None:
    for number in range(14):
        place.say(place.make(f"ring-{number}"), "say: here")
    visitor = visit(route("map"), width=900, height=700)
    visitor.until("() => document.querySelector('cc-map').labels?.length > 3")

    sizes = []
    for _ in range(6):
        labels, legend = visitor.page.evaluate(LEGEND)
        assert not [label for label in labels if overlap(label, legend)]
        sizes += [round(label["b"] - label["t"]) for label in labels]
        visitor.page.focus("cc-map canvas")
        visitor.page.keyboard.press("+")
        visitor.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
    assert max(sizes) <= 2 * min(sizes) + 2  # one line or two, near and far


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["l"] < b["r"] and b["l"] < a["r"] and a["t"] < b["b"] and b["t"] < a["b"])


def test_three_children_are_three_lines(visit: Visit, place: Place) -> None:
    calls = "\n".join('tool: sessions_spawn {"task": "wait: 600"}' for _ in range(3))
    place.say(MAIN, f"{calls}\nthen:\nsay: Begun.")
    visitor = visit(route("map"))

    visitor.until("() => document.querySelector('cc-map').kin?.length >= 3")
    kin = visitor.page.evaluate("() => document.querySelector('cc-map').kin")
    assert {each["parent"] for each in kin} == {MAIN}
    assert len({each["by"] for each in kin}) == 3
    for each in kin:
        place.client.call("chat.abort", {"sessionKey": each["key"]})


def test_round_and_announce_are_explained_where_they_stand(visit: Visit, place: Place) -> None:
    place.say(MAIN, ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you."))
    place.settle()
    visitor = visit(route("exchanges"))

    visitor.see(".cards a", has_text="Which shelf?").click()
    visitor.see(".sequence .kind[title*='until one says REPLY_SKIP']", has_text="round 1")
    visitor.see(".sequence .kind[title*='its own chat should hear']", has_text="announce")
    step = visitor.see(".sequence .step", has_text="announce")
    step.locator("summary").click()
    step.get_by_text("its own chat should hear").wait_for()
    visitor.go(route("chat", LIBRARIAN))
    line = visitor.see(".log > .protocol")
    line.locator("summary").click()
    line.get_by_text("until one says REPLY_SKIP").wait_for()


def test_a_job_s_times_are_those_of_its_zone(visit: Visit, place: Place) -> None:
    schedule = {"kind": "cron", "expr": "30 7 * * *", "tz": "Asia/Kolkata"}
    payload = {"kind": "agentTurn", "message": "say: tea"}
    job = {"name": "tea", "schedule": schedule, "sessionTarget": "isolated", "wakeMode": "now"}
    place.client.call("cron.add", {**job, "payload": payload})
    visitor = visit(route("operations", "jobs"))

    told = visitor.see("cc-operations li", has_text="tea").inner_text()
    assert "07:30 in Asia/Kolkata" in told


def test_what_a_part_repeats_ends_when_it_is_taken_out(visit: Visit) -> None:
    visitor = visit()
    visitor.page.clock.install()

    visitor.page.evaluate(
        """async () => {
          const { Part } = await import(new URL('static/dom.js', document.baseURI));
          window.ticks = [];
          customElements.define('cc-ticking', class extends Part {
            open() { this.repeat(1000, () => ticks.push(1)) }
          });
          document.body.append(document.createElement('cc-ticking'));
        }"""
    )
    visitor.page.clock.run_for(2_500)
    times = visitor.page.evaluate(
        "() => { document.querySelector('cc-ticking').remove(); return ticks.length }"
    )
    visitor.page.clock.run_for(5_000)

    assert times == 2
    assert visitor.page.evaluate("() => ticks.length") == 2

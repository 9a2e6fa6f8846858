"""The map, the sequence and the table agree with the ledger, whatever the page missed."""

from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import (
    HARBOUR,
    LIBRARIAN,
    MAIN,
    HeldAnswers,
    Place,
    Visitor,
    ask_script,
    furnish,
    open_place,
    route,
)

pytestmark = pytest.mark.spec("B7", "N1")

ASK = ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you.")


def edges_in_the_ledger(place: Place) -> list[tuple[Any, ...]]:
    """Who brought about which run, read past all of our own code."""
    return place.ledger(
        "SELECT r.run_id, p.key, r.key FROM runs r "
        "LEFT JOIN runs p ON p.run_id = json_extract(r.cause, '$.chain[#-1]') ORDER BY r.id"
    )


def edges_on_the_map(visitor: Visitor) -> list[tuple[Any, ...]]:
    runs = visitor.page.evaluate(
        "() => document.querySelector('cc-map').runs.map(r => [r.runId, r.source ?? null, r.key])"
    )
    return [tuple(run) for run in runs]


def wait_for_all_runs(visitor: Visitor) -> None:
    (runs,) = visitor.place.ledger("SELECT count(*) FROM runs")[0]
    visitor.until(
        "n => { const m = document.querySelector('cc-map');"
        " return m.runs.length === n && m.runs.every(r => r.endedAt) }",
        runs,
    )


def check_all_agree(visitor: Visitor, place: Place) -> None:
    wait_for_all_runs(visitor)
    assert edges_on_the_map(visitor) == edges_in_the_ledger(place)

    (exchange,) = place.ledger(
        "SELECT exchange_id FROM exchanges ORDER BY created_at DESC LIMIT 1"
    )[0]
    visitor.go(route("exchange", exchange))
    visitor.see(".sequence .step")
    shown = visitor.page.evaluate(
        "() => document.querySelector('cc-exchange').trace.steps.map("
        "s => [s.run.runId, s.run.kind, s.run.status, s.reply])"
    )
    stored = place.ledger(
        "SELECT run_id, kind, status, reply FROM runs WHERE exchange_id = ? ORDER BY id", exchange
    )
    assert [tuple(step) for step in shown] == stored

    visitor.go(route("sessions"))
    visitor.see(".tbody .tr")
    rows = visitor.page.evaluate(
        "() => document.querySelector('cc-sessions').pages.get(0).rows.map("
        "r => [r.key, r.tokens, r.lane ?? null])"
    )
    kept = place.ledger("SELECT key, input_tokens + output_tokens, NULL FROM sessions")
    assert sorted(tuple(row) for row in rows) == sorted(kept)


def test_two_agents_talk_while_the_page_looks(visit: Visit, place: Place) -> None:
    visitor = visit(route("map"))
    visitor.see("cc-map canvas")

    run_id = place.say(MAIN, ASK)
    visitor.see(f".flow a[data-run='{run_id}']", has_text="a person → Main")
    visitor.see(".flow a", has_text="Main → The librarian")
    visitor.see(".flow a", has_text="The librarian → Main")
    place.settle()

    check_all_agree(visitor, place)


def test_two_agents_talk_while_the_page_is_cut_off(visit: Visit, place: Place) -> None:
    visitor = visit()
    line = Line(visitor)
    visitor.page.reload()
    visitor.see("#line[data-state=on]")
    visitor.go(route("map"))
    visitor.see("cc-map canvas")
    wait_for_all_runs(visitor)

    line.cut()
    visitor.find("#line:not([data-state=on])").wait_for()
    place.say(MAIN, ASK)
    place.settle()
    before = len(edges_on_the_map(visitor))
    assert before < len(edges_in_the_ledger(place))
    line.mend()
    visitor.find("#line[data-state=on]").wait_for()

    check_all_agree(visitor, place)


class Line:
    """The page's way to the gateway, which can be cut."""

    def __init__(self, visitor: Visitor) -> None:
        self._is_cut = False
        self._open: list[Any] = []
        visitor.page.route_web_socket("**/*", self._dial)

    def _dial(self, socket: Any) -> None:
        if self._is_cut:
            socket.close()
            return
        socket.connect_to_server()
        self._open.append(socket)

    def cut(self) -> None:
        self._is_cut = True
        for socket in self._open:
            socket.close(code=4001, reason="cut")
        self._open.clear()

    def mend(self) -> None:
        self._is_cut = False


def test_who_waits_for_whom_is_on_the_map_in_words_too(visit: Visit, place: Place) -> None:
    visitor = visit(route("map"))
    text = ask_script("harbour", "High water?", "wait: 600\nsay: At ten.", "At ten.")
    place.client.submit(text, MAIN, key="waiting-1")

    visitor.see(".side .state[data-state=waiting]", has_text="waits for Harbour master")
    visitor.until(
        "() => document.querySelector('canvas').getAttribute('aria-label').includes('1 waiting')"
    )
    place.client.call("chat.abort", {"sessionKey": HARBOUR})
    place.client.call("chat.abort", {"sessionKey": MAIN})
    place.settle()
    visitor.find(".side .state[data-state=waiting]").wait_for(state="detached")


def test_what_happens_while_the_map_is_being_read_is_not_passed_over(
    visit: Visit, place: Place
) -> None:
    visitor = visit()
    held = HeldAnswers(visitor, "map.get")
    visitor.page.reload()
    visitor.go(route("map"))
    held.wait_for(1)
    text = ask_script("harbour", "High water?", "wait: 600\nsay: At ten.", "At ten.")
    place.client.submit(text, MAIN, key="while-read-1")

    visitor.until(
        "async () => { const { gateway } = await import(new URL('static/gateway.js', document.baseURI));"
        " return gateway.recent.some(row => row.standing?.name === 'waiting') }"
    )
    held.let_go()
    try:
        visitor.until(
            "() => document.querySelector('canvas').ariaLabel.includes('1 at work, 1 waiting')"
        )
    finally:
        for key in (HARBOUR, MAIN):
            place.client.call("chat.abort", {"sessionKey": key})
        place.settle()


def test_the_last_hour_is_replayed(visit: Visit, place: Place) -> None:
    place.say(MAIN, ASK)
    place.settle()
    visitor = visit(route("map"))
    wait_for_all_runs(visitor)

    visitor.page.focus(".clockbar input")
    visitor.page.press(".clockbar input", "Home")
    visitor.see(".side", has_text="Messages until")
    visitor.see(".side .empty", has_text="Quiet")
    visitor.page.click("text=Live")
    visitor.see(".flow a", has_text="Main → The librarian")
    # Looked at in the same breath: a replay of a young gateway is over in a moment.
    press = "() => { const player = document.querySelector('.clockbar .icon'); player.click();"
    assert visitor.page.evaluate(f"{press} return player.ariaLabel }}") == "Pause"
    visitor.until("() => document.querySelector('cc-map').live")  # it has come to the end


def test_a_node_is_chosen_and_its_messages_lead_to_the_sequence(visit: Visit, place: Place) -> None:
    place.say(MAIN, ASK)
    place.settle()
    visitor = visit(route("map"))
    wait_for_all_runs(visitor)
    spot = visitor.page.evaluate(
        "key => { const m = document.querySelector('cc-map'), n = m.nodes.get(key), v = m.view,"
        " box = m.canvas.getBoundingClientRect();"
        " return [box.x + v.x + n.x * v.zoom, box.y + v.y + n.y * v.zoom] }",
        LIBRARIAN,
    )

    visitor.page.mouse.click(*spot)
    visitor.see(".side .picked", has_text="The librarian")
    visitor.see(".flow a", has_text="Main → The librarian").click()
    visitor.see(".sequence .step", has_text="Which shelf?")


def test_names_on_the_map_are_short_whole_and_apart(visit: Visit, place: Place) -> None:
    ids = [f"{number:08x}-1111-4222-8333-{number:012x}" for number in range(0xABC0, 0xABCC)]
    for each in ids:
        place.make(f"agent:main:openai:{each}")
    place.make("long", label="A label that is a good deal longer than any map has room for")
    visitor = visit(route("map"), width=700)

    visitor.until("n => document.querySelector('cc-map').nodes.size >= n", len(ids) + 1)
    visitor.until("() => document.querySelector('cc-map').labels?.length > 3")
    labels, bounds = visitor.page.evaluate(
        "() => { const m = document.querySelector('cc-map'), v = m.view;"
        " return [m.labels, [-v.x / v.zoom, (m.canvas.clientWidth - v.x) / v.zoom]] }"
    )
    names = [label["name"] for label in labels]
    assert any("openai 0000ab" in name for name in names)
    assert max(map(len, names)) <= 28
    assert all(bounds[0] <= label["l"] and label["r"] <= bounds[1] for label in labels)
    pairs = [(a, b) for a in labels for b in labels if a["key"] < b["key"]]
    assert not [(a, b) for a, b in pairs if overlap(a, b)]


def overlap(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["l"] < b["r"] and b["l"] < a["r"] and a["t"] < b["b"] and b["t"] < a["b"])


def test_whoever_holds_all_the_others_up_is_named_and_marked_when_it_takes_long(
    visit: Visit, place: Place
) -> None:
    asks = ask_script("librarian", "And the tide book?", "wait: 600\nsay: Here.", "Here.")
    place.client.submit(ask_script("harbour", "High water?", asks, "At ten."), MAIN, key="held-1")
    visitor = visit(route("map"))

    held = visitor.see(".side a", has_text="2 sessions wait for it")
    assert "The librarian" in held.inner_text()
    assert visitor.find(".side .late").count() == 0
    names = "() => document.querySelector('cc-map').labels?.map(each => each.key) ?? []"
    visitor.until(f"key => ({names})().includes(key)", LIBRARIAN)
    late = (
        "() => { const m = document.querySelector('cc-map'); m.skew -= 120000; m.list();"
        " return m.querySelectorAll('.side .late').length }"
    )
    assert visitor.page.evaluate(late) == 3
    for key in (LIBRARIAN, HARBOUR, MAIN):
        place.client.call("chat.abort", {"sessionKey": key})
    place.settle()
    visitor.find(".side a", has_text="wait for it").wait_for(state="detached")


def test_sessions_that_wait_for_each_other_are_one_circle(visit: Visit) -> None:
    visitor = visit(route("map"))
    found = visitor.page.evaluate(
        """async (waits) => {
          const { holdupsOf } = await import(new URL('static/holdups.js', document.baseURI));
          const told = waits.map(([key, targetKey, since]) => ({ key, targetKey, since }));
          return [...holdupsOf(told).values()].map(each => [each.key, [...each.waiting].sort(), each.since, each.circle]);
        }""",
        [["b", "a", 5], ["a", "b", 7], ["c", "b", 3], ["d", "e", 9], ["d", "f", 9]],
    )

    assert found == [
        ["a", ["b", "c"], 3, True],
        ["e", ["d"], 9, False],
        ["f", ["d"], 9, False],
    ]


@pytest.mark.parametrize("sessions", [5, 50, 500])
def test_however_many_sessions_there_are_a_wait_is_named_and_no_names_overlap(
    visit: Visit, tmp_path: Any, sessions: int
) -> None:
    with open_place(tmp_path) as own:
        furnish(own, sessions)
        own.client.submit(
            ask_script("harbour", "Tide?", "wait: 600", "Ten."), MAIN, key="in-the-crowd"
        )
        visitor = visit(route("map"), place=own)
        visitor.see(".side a", has_text="1 session waits for it")
        visitor.until(
            "keys => { const m = document.querySelector('cc-map');"
            " return keys.every(key => m.labels?.some(each => each.key === key)) }",
            [MAIN, HARBOUR],
        )
        labels = visitor.page.evaluate("() => document.querySelector('cc-map').labels")
        pairs = [(a, b) for a in labels for b in labels if a["key"] < b["key"]]
        assert not [(a, b) for a, b in pairs if overlap(a, b)]
        visitor.page.close()


def test_agents_are_there_before_anybody_talked_and_idle_sessions_are_one_dot(
    visit: Visit, tmp_path: Any
) -> None:
    with open_place(tmp_path) as own:
        visitor = visit(route("map"), place=own)
        visitor.until("() => document.querySelector('cc-map').nodes.size === 3")
        furnish(own, 3_000)
        own.client.submit("fail: no tide", own.make("tides", label="Tides"))
        own.settle()
        visitor.page.reload()
        found = """() => { const m = document.querySelector('cc-map');
          return m?.labels && [...m.nodes.values()].map(n => n.row.label).filter(Boolean) }"""
        visitor.until(f"() => ({found})()?.filter(l => /idle/.test(l)).length === 3")

        names = visitor.page.evaluate(found)
        assert sorted(names) == ["+1000 idle", "+1000 idle", "+1000 idle", "Tides"]
        visitor.until(
            "() => document.querySelector('cc-map').labels.some(l => l.name === '+1000 idle')"
        )
        sizes = []
        for zoom in (0.5, 1, 3):
            sizes.append(
                visitor.page.evaluate(
                    "z => new Promise(done => { const m = document.querySelector('cc-map');"
                    " m.view.zoom = z; m.view.moved = true; m.changed(); requestAnimationFrame(() =>"
                    " requestAnimationFrame(() => done(parseFloat(m.pen.font.match(/([\\d.]+)px/)[1]) * z))) })",
                    zoom,
                )
            )
        assert max(sizes) - min(sizes) < 1.5, "names are as large from near as from far"
        visitor.page.keyboard.press("0")
        visitor.page.evaluate(
            "() => { const m = document.querySelector('cc-map');"
            " m.choose([...m.nodes.values()].find(n => n.row.key === 'idle:main')) }"
        )
        visitor.until("() => document.querySelector('cc-map').nodes.size > 50")
        visitor.page.close()

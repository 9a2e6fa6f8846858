"""For everybody: names for screen readers, contrast, keyboard, narrow windows, light and dark."""

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.figures import weight
from tests.browser.visiting import HARBOUR, MAIN, Place, Visitor, ask_script, open_place, route

pytestmark = pytest.mark.spec("N1")

ASK = ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you, the ninth.")
WAITS = ask_script("harbour", "When is high water?", "wait: 600\nsay: At ten.", "At ten.")

# What is seen in each tab of the operations once it is there.
TABS = {
    "health": "section[aria-label=Gateway]:has(.state) ~ section[aria-label=Connected] li",
    "figures": ".chart text",
    "agents": "section[aria-label=Agents] li",
    "channels": "cc-channels .empty, cc-channels li",
    "jobs": "section[aria-label='Cron jobs'] form",
    "budgets": ".block:has(td) ~ .block .empty",
    "config": "cc-config .gutter i",
    "log": "section[aria-label=Log] pre",
}


@pytest.fixture(scope="module")
def busy(place: Place) -> Any:
    """A gateway with something of everything: talk, a tool, an exchange, a wait, a queue."""
    run_id = place.say(MAIN, ASK)
    place.settle()
    place.say(place.make("garden", label="Ideas for the garden"), "say: Lavender, then.")
    place.client.submit(WAITS, MAIN, key="waits-1")
    place.client.submit("say: later", MAIN, key="waits-2")
    place.client.submit("fail: the almanac is lost", place.make("trouble", label="Tide tables"))
    (exchange,) = place.ledger("SELECT exchange_id FROM exchanges ORDER BY created_at LIMIT 1")[0]
    yield {
        "chat": (route("chat", MAIN), ".growing, .tool"),
        "list": ("#/chat", "cc-recent a"),
        "sessions": (route("sessions"), ".tbody .tr .state"),
        "session": (route("sessions", MAIN), ".panel .facts"),
        "map": (route("map"), ".flow a"),
        "attention": (route("attention"), ".troubles .acts"),
        "exchanges": (route("exchanges"), ".cards a"),
        "exchange": (route("exchange", exchange), ".sequence .step"),
        "run": (route("run", run_id), ".timeline .tool"),
        "trace": (route("trace", run_id), ".span .n"),
        **{name: (route("operations", name), sign) for name, sign in TABS.items()},
        "rehearsal": (route("rehearsal"), ".scene .offers button"),
        "nothing": (route("run", "nobody"), ".empty"),
    }
    for key in (HARBOUR, MAIN):
        place.client.call("chat.abort", {"sessionKey": key})


VIEWS = (
    "chat",
    "list",
    "sessions",
    "session",
    "map",
    "attention",
    "exchanges",
    "exchange",
    "run",
    "trace",
    *TABS,
    "rehearsal",
    "nothing",
)


@pytest.mark.parametrize("width", [1440, 820, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_careful_eye_finds_nothing_wrong(
    visit: Visit, busy: Any, scheme: str, width: int
) -> None:
    visitor = visit(scheme=scheme, width=width, height=844)

    found = {view: _look(visitor, *busy[view]) for view in VIEWS}

    assert {view: wrong for view, wrong in found.items() if wrong} == {}


def _look(visitor: Visitor, where: str, sign: str) -> list[str]:
    visitor.go(where)
    visitor.see(sign)
    return visitor.look()


def test_the_careful_eye_sees_what_is_wrong(visit: Visit) -> None:
    visitor = visit()
    visitor.page.evaluate(
        "() => { const b = document.createElement('button'); document.querySelector('main').append(b);"
        " const p = document.createElement('p'); p.textContent = 'pale';"
        " p.style.color = 'rgb(200 200 200)'; document.querySelector('main').append(p);"
        " p.tabIndex = 3;"
        " const box = document.createElement('div'); box.style.cssText ="
        " 'position: fixed; left: 300px; top: 300px; z-index: 9';"
        " for (const [word, left] of [['under', 0], ['over', 20]]) {"
        " const s = document.createElement('span'); s.textContent = word;"
        " s.style.cssText = `position: absolute; top: 0; left: ${left}px`; box.append(s) }"
        " document.querySelector('main').append(box);"
        " const cut = document.createElement('button'); cut.textContent = 'a word that is cut';"
        " cut.style.cssText = 'width: 60px; white-space: nowrap; overflow: hidden; text-overflow: ellipsis';"
        " document.querySelector('main').append(cut);"
        " document.querySelector('.rail a[data-view=map] span').style.cssText = 'width: 9px; overflow: hidden' }"
    )

    wrong = " ".join(visitor.look())

    assert "<button> has no name" in wrong
    assert '"pale" has contrast' in wrong
    assert "<p> jumps ahead" in wrong
    assert '"over" and "under" lie on each other' in wrong or '"under" and "over"' in wrong
    assert '"a word that is cut" is cut by <button>' in wrong
    assert '"Map" is cut by <span>' in wrong


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "nothing"])
def test_everything_is_reached_by_keyboard_and_seen_when_it_is(
    visit: Visit, busy: Any, view: str
) -> None:
    visitor = visit(busy[view][0])
    visitor.see(busy[view][1])
    if view in ("chat", "list"):
        visitor.see(".growing")  # what is being said takes the foot of the message before
    visitor.settle()
    visitor.page.focus("#skip")
    there = visitor.page.evaluate(FOCUSABLE)

    seen: list[Any] = []
    while (focused := visitor.page.evaluate(FOCUSED)) and len(seen) < STEPS_MAX:
        seen.append(focused)
        visitor.page.keyboard.press("Tab")

    assert [each["name"] for each in seen if not each["marked"]] == []
    assert [each["name"] for each in seen] == there[:STEPS_MAX], "all, in the order of the page"


def test_a_view_that_is_drawn_anew_leaves_the_focus_where_it_was(visit: Visit) -> None:
    visitor = visit(route("operations", "agents"))
    visitor.settle()
    visitor.page.focus("section[aria-label=Agents] a >> nth=1")
    before = visitor.page.evaluate("() => document.activeElement.getAttribute('href')")
    visitor.page.evaluate("() => { document.activeElement.old = true }")

    visitor.page.evaluate("() => document.querySelector('cc-operations').read()")
    visitor.until("() => !document.activeElement.old")

    assert visitor.page.evaluate("() => document.activeElement.getAttribute('href')") == before


STEPS_MAX = 45
NAME = """const named = (element) => `${element.localName} ${
  element.getAttribute("href") || element.getAttribute("aria-label") || element.name || element.id}`;"""
FOCUSABLE = f"""() => {{
  {NAME}
  const all = "a[href]:not([tabindex='-1']), button:enabled, input, select, textarea, summary, [tabindex='0']";
  return [...document.querySelectorAll(all)].filter((element) => element.checkVisibility()).map(named);
}}"""
FOCUSED = f"""() => {{
  {NAME}
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const box = element.closest(".box");  // the field shows its focus on the box around it
  const marked = getComputedStyle(element).outlineStyle !== "none"
    || (box && getComputedStyle(box).borderColor === getComputedStyle(box.querySelector(".go")).backgroundColor);
  return {{ name: named(element), marked }};
}}"""


def test_views_come_back_after_a_reload(visit: Visit, busy: Any) -> None:
    visitor = visit()
    for where, sign in busy.values():
        visitor.go(where)
        visitor.page.reload()
        visitor.see(sign)


def test_the_theme_is_chosen_and_kept(visit: Visit) -> None:
    visitor = visit(scheme="light")
    paper = "() => getComputedStyle(document.body).backgroundColor"

    light = visitor.page.evaluate(paper)
    visitor.page.click("#theme")
    dark = visitor.page.evaluate(paper)
    visitor.page.reload()
    visitor.see("#line[data-state=on]")

    assert light != dark
    assert visitor.page.evaluate(paper) == dark


@pytest.mark.parametrize(
    ("locale", "door", "talk", "view", "hour", "scene"),
    [
        (
            "es-AR",
            "Esta página necesita el token del gateway.",
            "Habla con",
            "Intercambios",
            "Última hora:",
            "Dos agentes hablan",
        ),
        (
            "pt-BR",
            "Esta página precisa do token do gateway.",
            "Fale com",
            "Trocas",
            "Última hora:",
            "Dois agentes conversam",
        ),
        (
            "it-IT",
            "Questa pagina ha bisogno del token del gateway.",
            "Parla con",
            "Scambi",
            "Ultima ora:",
            "Due agenti parlano",
        ),
        (
            "de-DE",
            "This page needs the gateway's token.",
            "Talk with",
            "Exchanges",
            "Last hour:",
            "Two agents talk",
        ),
    ],
)
def test_the_first_texts_are_in_the_reader_s_language(
    visit: Visit,
    tmp_path: Path,
    locale: str,
    door: str,
    talk: str,
    view: str,
    hour: str,
    scene: str,
) -> None:
    with open_place(tmp_path, "{}") as own:
        visitor = visit(place=own, locale=locale)

        visitor.see(".log .empty", has_text=talk)
        visitor.see("nav a[data-view=exchanges]", has_text=view)
        visitor.see("cc-last-hour", has_text=hour)
        visitor.see(".offers button", has_text=scene)
        visitor.page.evaluate("sessionStorage.clear()")
        visitor.page.goto("about:blank")
        visitor.page.goto(visitor.url)
        visitor.see("#door", has_text=door)


def test_all_views_together_weigh_at_most_two_hundred_kilobytes(
    chromium: Any, place: Place
) -> None:
    assert weight(chromium, place) <= 200_000

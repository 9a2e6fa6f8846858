"""The trace: one waterfall from the root cause down, live, filtered, by keyboard, with a link and as files."""

import json
from pathlib import Path

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, Place, ask_script, route

pytestmark = pytest.mark.spec("B10")

ASK = ask_script("librarian", "Which shelf?", "say: The ninth.", "Thank you.")


def test_all_that_followed_from_a_message_is_one_waterfall(visit: Visit, place: Place) -> None:
    run_id = place.say(MAIN, ASK)
    place.settle()
    visitor = visit(route("run", run_id))

    visitor.see("header a", has_text="Trace").click()
    visitor.see(".tracehead h2", has_text="a person → Main")
    names = visitor.see(".spans").locator(".span .n b").all_inner_texts()
    assert names[0] == "Main · chat"
    assert {"The librarian · send", "Main · round 1", "sessions_send"} <= set(names)
    assert visitor.find(".span.critical").count() >= 2
    visitor.see(".figures div", has_text="Runs")

    visitor.page.locator(".waterfall").focus()
    visitor.page.keyboard.press("ArrowDown")
    visitor.see(".span[aria-selected=true]", has_text="Main · chat")
    visitor.page.keyboard.press("ArrowLeft")
    visitor.until("() => document.querySelectorAll('.span').length === 1")
    visitor.page.keyboard.press("ArrowRight")
    visitor.until("() => document.querySelectorAll('.span').length > 4")
    visitor.page.keyboard.press("ArrowDown")
    visitor.see(".spanmore .facts", has_text="Took")
    assert "?span=" in visitor.page.url
    there = visit()
    there.page.goto(visitor.page.url)
    there.see(".span[aria-selected=true]")

    visitor.page.select_option("select[aria-label=Agent]", "librarian")
    visitor.until(
        "() => [...document.querySelectorAll('.span b')].every(b => !b.textContent.startsWith('Main'))"
    )
    visitor.page.select_option("select[aria-label=Agent]", "")
    visitor.page.click("text=Lanes")
    visitor.until("() => document.querySelectorAll('.span[data-kind=lane]').length === 2")


def test_a_trace_grows_while_it_happens_and_what_failed_is_found(
    visit: Visit, place: Place
) -> None:
    key = place.make("slow")
    ask = {"agentId": "harbour", "message": "wait: 600", "timeoutSeconds": 600}
    place.client.submit(
        f"tool: sessions_send {json.dumps(ask)}\nthen:\nfail: no tide", key, key="slow-1"
    )
    visitor = visit(route("trace", "slow-1"))

    visitor.see(".span", has_text="Harbour master · send").get_by_text("under way").wait_for()
    visitor.see(".span[data-kind=wait]", has_text="waits for Harbour master")
    assert visitor.find(".axis b").all_inner_texts() == ["tokens", "cost", "took"]
    place.client.call("chat.abort", {"sessionKey": "agent:harbour:main"})
    visitor.see(".tracehead .state[data-state=bad]", has_text="no tide")
    visitor.see(".tracehead .figures .problem", has_text="1")
    visitor.page.select_option("select[aria-label=Outcome]", "bad")
    visitor.see(".span .problem", has_text="no tide")


def test_a_trace_is_kept_as_json_and_as_opentelemetry(
    visit: Visit, place: Place, tmp_path: Path
) -> None:
    run_id = place.say(MAIN, "say: keep this")
    visitor = visit(route("trace", run_id))

    kept = {}
    for name in ("Export JSON", "OpenTelemetry"):
        with visitor.page.expect_download() as download:
            visitor.see("header button", has_text=name).click()
        download.value.save_as(tmp_path / "kept.json")
        kept[name] = json.loads((tmp_path / "kept.json").read_text("utf-8"))

    assert kept["Export JSON"]["root"] == run_id
    assert kept["OpenTelemetry"]["resourceSpans"][0]["scopeSpans"][0]["spans"]


def test_ten_thousand_spans_are_few_in_the_document(visit: Visit, place: Place) -> None:
    run_id = place.say(MAIN, "say: many")
    visitor = visit(route("trace", run_id))
    visitor.see(".span")

    visitor.page.evaluate(
        "() => { const part = document.querySelector('cc-trace'); const [root, leaf] = part.tree.spans;"
        " part.tree = { ...part.tree, end: root.start + 10000, spans: [{ ...root, below: 9999, end: root.start + 10000 },"
        " ...Array.from({ length: 9999 }, (_, i) => ({ ...leaf, id: `s${i}`, name: `span ${i}`, depth: 1,"
        " start: root.start + i, end: root.start + i + 5 }))] }; part.choose() }"
    )
    visitor.see(".total", has_text="10,000 spans")
    assert visitor.find(".span").count() < 80
    visitor.page.evaluate("() => { document.querySelector('.waterfall').scrollTop = 299000 }")
    visitor.see(".span", has_text="span 9990")
    spent = visitor.page.evaluate(
        "() => { const part = document.querySelector('cc-trace'); const t = performance.now();"
        " for (let i = 0; i < 20; i++) { part.grid.scrollTop = i * 9000; part.draw() }"
        " return { ms: (performance.now() - t) / 20, rows: document.querySelectorAll('.span').length } }"
    )
    assert spent["rows"] < 80

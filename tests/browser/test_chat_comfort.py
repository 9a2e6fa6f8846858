"""What makes a conversation pleasant to read and to go on with: retry, copy, tables, code, titles, the list beside it."""

from typing import Any

from tests.browser.conftest import Visit
from tests.browser.visiting import HARBOUR, MAIN, Place, route

TABLE = "| a heading of several words | another one |\n|---|---|\n| {word} | {word} |"
READABLE = f"""say: Look:

- [x] washed
- [ ] ironed

```python
def tide(hour):  # in feet
    return "high" if hour > 6 else 12
```

{TABLE.format(word="incomprehensibilities" * 6)}
"""


def test_code_is_marked_and_copied_tasks_have_boxes_and_wide_tables_scroll(
    visit: Visit, place: Place
) -> None:
    key = place.make("readable")
    place.say(key, READABLE)
    visitor = visit(route("chat", key), width=390, height=800)
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])

    words = visitor.see(".message.assistant .words:not(.plain)")
    marked = words.locator("pre code")
    assert marked.locator(".hk").all_inner_texts() == ["def", "return", "if", "else"]
    assert marked.locator(".hs").all_inner_texts() == ['"high"']
    assert marked.locator(".hc").all_inner_texts() == ["# in feet"]
    boxes = words.locator("li").all_inner_texts()
    assert [box.split()[0] for box in boxes] == ["☑", "☐"]
    table = words.locator("table")
    assert table.evaluate("each => each.scrollWidth > each.clientWidth + 100")
    assert visitor.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    cell = table.locator("td").first
    assert cell.evaluate("each => each.getClientRects().length") == 1
    assert cell.bounding_box()["height"] < 40  # no word is broken by letters
    words.locator("pre .copy").click()
    assert _clipboard(visitor).startswith("def tide(hour):  # in feet\n")


def test_a_message_with_long_lines_of_code_stays_in_sight(visit: Visit, place: Place) -> None:
    key = place.make("wide")
    place.say(key, "Look at this:\n\n```\n" + "long " * 200 + "\n```")
    visitor = visit(route("chat", key), width=1200, height=800)

    visitor.see(".message.user .words:not(.plain) pre")
    log = visitor.page.locator(".log")
    body = visitor.page.locator(".message.user .body")
    assert log.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert body.bounding_box()["x"] + body.bounding_box()["width"] <= 1200


def test_a_message_is_copied_as_it_was_written(visit: Visit, place: Place) -> None:
    key = place.make("copied")
    place.say(key, "say: **bold** and `code`")
    visitor = visit(route("chat", key))
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])

    message = visitor.see(".message.assistant", has_text="bold and code")
    message.hover()
    message.locator(".foot").get_by_text("Copy").click()
    message.locator(".foot").get_by_text("Copied").wait_for()
    assert _clipboard(visitor) == "**bold** and `code`"


def test_a_failed_answer_is_retried_where_it_stands(visit: Visit, place: Place) -> None:
    key = place.make("hopeful")
    place.client.submit("fail: the line is busy", key, key="busy-1")
    place.settle()
    visitor = visit(route("chat", key))

    failed = visitor.see(".message.assistant", has_text="the line is busy")
    failed.hover()
    failed.get_by_text("Retry").click()
    visitor.until("() => document.querySelectorAll('.log .problem').length === 2")
    runs = place.ledger("SELECT status FROM runs WHERE key = ?", key)
    assert runs == [("error",), ("error",)]


def test_a_conversation_is_called_by_how_it_began(visit: Visit, place: Place) -> None:
    key = place.client.call("sessions.create", {"agentId": "harbour"})["key"]
    place.say(key, "Which boats leave before noon?")
    visitor = visit(route("chat", key))

    visitor.see("cc-chat h2", has_text="Which boats leave before noon?")
    visitor.see("cc-recent .name", has_text="Which boats leave before noon?")


def test_idle_children_are_folded_away_and_found_again(visit: Visit, place: Place) -> None:
    spawn = 'tool: sessions_spawn {"task": "say: done", "label": "the errand"}\nthen:\nsay: Sent.'
    place.say(HARBOUR, spawn)
    place.settle()
    visitor = visit(route("chat", MAIN))

    folded = visitor.see("cc-recent .aside summary", has_text="1 idle children and jobs")
    assert not visitor.find("cc-recent a", has_text="the errand").is_visible()
    folded.click()
    visitor.see("cc-recent .aside a", has_text="the errand")
    visitor.page.fill("cc-recent input", "errand")
    visitor.see("cc-recent .rows > li > a", has_text="the errand")
    visitor.page.fill("cc-recent input", "")
    visitor.page.select_option("cc-recent > select", "librarian")
    visitor.until("() => document.querySelectorAll('cc-recent .rows a').length <= 2")
    names = visitor.find("cc-recent .rows a .name").all_inner_texts()
    assert set(names) <= {"The librarian", "Main"}  # the one that is looked at stays


def test_an_empty_conversation_is_not_unread(visit: Visit, place: Place) -> None:
    visitor = visit(route("chat", MAIN))
    empty = place.make("bare", label="Bare")
    spoken = place.make("spoken", label="Spoken")
    place.say(spoken, "say: words")

    visitor.see("cc-recent a.unread", has_text="Spoken")
    row = visitor.see("cc-recent a", has_text="Bare")
    row.locator(".more", has_text="nothing said yet").wait_for()
    assert "unread" not in (row.get_attribute("class") or "")
    assert empty


def test_five_megabytes_of_lines_are_pasted_and_said_while_the_page_stays_usable(
    visit: Visit, place: Place
) -> None:
    """Laid out in the field, 100,000 lines held Chromium up for two minutes."""
    key = place.make("paste")
    visitor = visit(route("chat", key))
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = "a line of a log that nobody has ever read to its end\n"
    write = "line => navigator.clipboard.writeText(line.repeat(100_000))"
    visitor.page.evaluate(write, line)

    visitor.page.focus("#say")
    visitor.page.keyboard.press("Control+v")
    visitor.see("cc-composer .file", has_text="Pasted text, 5,300,000 characters")
    visitor.page.keyboard.type("What is this?")
    visitor.page.keyboard.press("Enter")
    visitor.see(".message.assistant[data-seq]")
    visitor.see(".message.user", has_text="more characters")
    assert visitor.find("cc-composer .file").count() == 0
    visitor.say("say: still here")
    visitor.see(".message.assistant[data-seq]", has_text="still here")
    (body,) = place.ledger("SELECT length(body) FROM entries WHERE role = 'user' ORDER BY 1 DESC")[
        0
    ]
    assert body > 5_300_000


def test_the_switcher_finds_agents_runs_commands_and_settings(visit: Visit, place: Place) -> None:
    key = place.make("shed", label="The shed")
    run_id = place.say(key, "say: swept")
    last = place.say(key, "say: painted")
    visitor = visit(route("chat", key))

    _switch(visitor, "harbour m", "Harbour master", "agent")
    visitor.see("cc-chat h2", has_text="Harbour master")
    _switch(visitor, "run of the sh", "Run of The shed", f"ok · {last}")
    visitor.see("cc-run .page", has_text="painted")
    _switch(visitor, run_id, f"Run {run_id}", "by its id")
    visitor.see("cc-run .page", has_text="swept")
    visitor.go(route("chat", key))
    _switch(visitor, "settings of", "Settings of this session", "The shed")
    visitor.see("cc-session", has_text="The shed")
    visitor.go(route("chat", key))
    _switch(visitor, "/activ", "/activation", "")
    visitor.until("() => document.getElementById('say').value === '/activation '")
    _switch(visitor, "config", "Config", "operations")
    visitor.see("cc-operations")


def _switch(visitor: Any, typed: str, name: str, about: str) -> None:
    visitor.page.keyboard.press("Control+k")
    visitor.see("dialog.switcher[open] input")
    visitor.page.keyboard.type(typed)
    goal = visitor.see(".switcher li", has_text=name)
    assert about in goal.inner_text()
    goal.click()


def _clipboard(visitor: Any) -> str:
    text: str = visitor.page.evaluate("() => navigator.clipboard.readText()")
    return text

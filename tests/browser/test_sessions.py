"""Sessions on the page: all of them, found, changed, deleted and brought back."""

import json
from pathlib import Path

import apsw
import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import (
    AGENTS,
    CONFIG,
    HARBOUR,
    MAIN,
    Place,
    ask_script,
    open_place,
    route,
    serve_place,
)

pytestmark = pytest.mark.spec("N1")


def test_every_session_is_in_the_table_with_its_state(visit: Visit, place: Place) -> None:
    place.client.submit(
        ask_script("harbour", "When?", "wait: 600\nsay: At ten.", "Ten."), MAIN, key="w1"
    )
    visitor = visit(route("sessions"))

    visitor.see(".tbody .tr", has_text=MAIN).locator(
        ".state[data-state=waiting]", has_text="waits for Harbour master"
    ).wait_for()
    visitor.see(".tbody .tr", has_text=HARBOUR).locator(".state[data-state=running]").wait_for()
    place.client.call("chat.abort", {"sessionKey": HARBOUR})
    place.client.call("chat.abort", {"sessionKey": MAIN})
    place.settle()

    visitor.see(".tbody .tr", has_text=HARBOUR).locator(".state[data-state=stopped]").wait_for()
    (total,) = place.ledger("SELECT count(*) FROM sessions")[0]
    visitor.until("n => document.querySelector('.total').textContent.startsWith(n)", str(total))


def test_names_are_filtered_and_messages_searched(visit: Visit, place: Place) -> None:
    key = place.make("lighthouse-desk", label="The lighthouse")
    place.say(key, "say: The lamp turns every eleven seconds.")
    visitor = visit(route("sessions"))

    visitor.page.fill("cc-sessions input[type=search]", "lighthouse")
    visitor.until("() => document.querySelector('.total').textContent === '1 session'")
    visitor.page.click("text=Messages")
    visitor.page.fill("cc-sessions input[type=search]", "every elev")
    found = visitor.see(".hits a mark", has_text="elev")
    found.click()

    visitor.see(".message.pointed", has_text="eleven seconds")


def test_settings_are_stored_when_they_are_chosen(visit: Visit, place: Place) -> None:
    key = place.make("settings")
    visitor = visit(route("sessions", key))

    visitor.see("[name=sendPolicy]").select_option("deny")
    visitor.see(".toast", has_text="Saved.")
    visitor.page.fill("[name=label]", "A quiet corner")
    visitor.page.press("[name=label]", "Tab")
    visitor.see(".tbody .tr", has_text="A quiet corner")

    sql = "SELECT send_policy, label FROM sessions WHERE key = ?"
    assert place.ledger(sql, key) == [("deny", "A quiet corner")]


def test_what_cannot_be_stored_is_said_and_not_shown_as_stored(visit: Visit, place: Place) -> None:
    visitor = visit(route("sessions", place.make("wants-it")))

    # As a program may: people are stopped while they type.
    visitor.see("[name=label]")
    visitor.page.eval_on_selector("[name=label]", "(field) => field.removeAttribute('maxlength')")
    visitor.page.fill("[name=label]", "x" * 65)
    visitor.page.press("[name=label]", "Tab")

    visitor.see(".toast.bad", has_text="at /label")
    visitor.until("() => document.querySelector('[name=label]').value === ''")


def test_a_deleted_session_comes_back_by_undo_and_goes_without(visit: Visit, place: Place) -> None:
    key = place.make("short-lived")
    visitor = visit(route("sessions", key))

    visitor.page.click(".panel >> text=Delete")
    visitor.see(".tbody .tr", has_text="deleted")
    visitor.page.click(".toast >> text=Undo")
    visitor.find(".tbody .tr .silent", has_text="deleted").wait_for(state="detached")
    assert place.ledger("SELECT 1 FROM sessions WHERE key = ?", key)

    visitor.go(route("sessions", key))
    visitor.page.click(".panel >> text=Delete")
    visitor.find(".tbody .tr", has_text=key).wait_for(state="detached")
    assert not place.ledger("SELECT 1 FROM sessions WHERE key = ?", key)


def test_a_main_session_cannot_be_deleted_here(visit: Visit, place: Place) -> None:
    place.say(MAIN, "say: hello")
    visitor = visit(route("sessions", MAIN))

    visitor.see(".panel >> text=Reset")
    assert visitor.find(".panel >> text=Delete").count() == 0


def test_an_archived_session_leaves_the_list_and_is_found_among_the_archived(
    visit: Visit, place: Place
) -> None:
    key = place.make("put-away", label="Put away")
    visitor = visit(route("sessions", key))

    visitor.page.click(".panel >> text=Archive")
    visitor.find(".tbody .tr", has_text=key).wait_for(state="detached")
    visitor.page.click(".toast >> text=Undo")
    visitor.see(".tbody .tr", has_text=key)
    assert place.ledger("SELECT archived_at FROM sessions WHERE key = ?", key) == [(None,)]

    visitor.go(route("sessions", key))
    visitor.page.click(".panel >> text=Archive")
    visitor.find(".tbody .tr", has_text=key).wait_for(state="detached")
    visitor.page.select_option("[aria-label=Kind]", "archived")
    visitor.see(".tbody .tr", has_text="Put away")

    (at,) = place.ledger("SELECT archived_at FROM sessions WHERE key = ?", key)[0]
    assert at is not None


def test_an_archived_session_is_read_and_not_written_to(visit: Visit, place: Place) -> None:
    key = place.make("read-only", label="Read only")
    place.say(key, "say: for later")
    place.client.call("sessions.archive", {"key": key})
    visitor = visit(route("sessions", key))

    visitor.see(".panel", has_text="It can be read, not written to.")
    visitor.page.click(".panel >> text=Read it")
    visitor.see(".message.assistant", has_text="for later")
    visitor.see(".shut", has_text="archived")
    visitor.find("cc-composer").wait_for(state="hidden")
    current = visitor.see("cc-recent a[aria-current]")
    assert ("Read only" in current.inner_text(), "archived" in current.inner_text()) == (True, True)


def test_an_archived_session_is_brought_back_and_goes_on(visit: Visit, place: Place) -> None:
    key = place.make("goes-on", label="Goes on")
    place.say(key, "say: before")
    place.client.call("sessions.archive", {"key": key})
    visitor = visit(route("sessions", key))

    visitor.page.click(".panel >> text=Bring back")
    visitor.see(".toast", has_text="is back")
    visitor.page.click(".panel >> text=Open chat")
    visitor.see("cc-composer")
    visitor.say("say: and after")
    visitor.see(".message.assistant[data-seq]", has_text="and after")

    assert visitor.words() == ["say: before", "before", "say: and after", "and after"]


def test_a_chat_that_is_shut_is_opened_again_where_it_is_read(visit: Visit, place: Place) -> None:
    key = place.make("opened-again")
    place.say(key, "say: hello")
    place.client.call("sessions.archive", {"key": key})
    visitor = visit(route("chat", key))

    visitor.page.click(".shut >> text=Bring back")
    visitor.see("cc-composer")
    visitor.find(".shut").wait_for(state="hidden")


def test_a_session_comes_back_though_another_has_its_label_now(visit: Visit, place: Place) -> None:
    key = place.make("had-the-name", label="Sought after")
    place.client.call("sessions.archive", {"key": key})
    place.make("has-the-name", label="Sought after")
    visitor = visit(route("sessions", key))

    visitor.page.click(".panel >> text=Bring back")
    visitor.find('.panel >> text="Archive"').wait_for()
    assert place.ledger("SELECT label FROM sessions WHERE key = ?", key) == [("Sought after",)]


def test_a_chat_is_shut_at_the_moment_it_is_archived(visit: Visit, place: Place) -> None:
    key = place.make("shut-now")
    visitor = visit(route("chat", key))
    visitor.see("cc-composer")

    place.client.call("sessions.archive", {"key": key})

    visitor.see(".shut")
    visitor.find("cc-composer").wait_for(state="hidden")


def test_the_sessions_of_an_agent_that_is_gone_are_listed_read_and_deleted(
    visit: Visit, tmp_path: Path
) -> None:
    with open_place(tmp_path) as first:
        first.say(HARBOUR, "say: The tide is out.")
    first.folder.config.write_text(json.dumps({"agents": {"list": AGENTS["list"][:2]}}))

    with serve_place(first.folder) as own:
        visitor = visit(
            route("sessions", HARBOUR), place=own, may_complain="WebSocket|ERR_CONNECTION"
        )
        visitor.see(".tbody .tr", has_text=HARBOUR).locator("text=agent gone").wait_for()
        visitor.see(".panel", has_text="crossclaw agents add harbour")
        visitor.page.click(".panel >> text=Open chat")
        visitor.see(".message.assistant", has_text="The tide is out.")
        visitor.see(".shut", has_text="no longer configured")
        visitor.find("cc-composer").wait_for(state="hidden")
        visitor.go(route("map"))
        visitor.see("cc-map")
        visitor.go(route("sessions", HARBOUR))
        visitor.page.click(".panel button >> text=Delete")
        visitor.find(".tbody .tr", has_text=HARBOUR).wait_for(state="detached")
        assert not own.ledger("SELECT 1 FROM sessions WHERE key = ?", HARBOUR)


MANY = 100_000


def test_a_hundred_thousand_sessions_are_a_few_rows_at_a_time(visit: Visit, tmp_path: Path) -> None:
    with open_place(tmp_path) as first:
        first.say(MAIN, "say: hello")
    _furnish(tmp_path / "state" / "crossclaw.sqlite")

    with serve_place(first.folder) as own:
        visitor = visit(route("sessions"), place=own, may_complain="WebSocket|ERR_CONNECTION")
        visitor.until("() => document.querySelector('.total').textContent === '100,001 sessions'")
        assert visitor.find(".tbody .tr").count() < 60
        visitor.page.evaluate("document.querySelector('.table').scrollTop = 46 * 70000")
        visitor.see(".tbody .tr[aria-rowindex='70002']", has_text="agent:main:many-")
        visitor.page.fill("cc-sessions input[type=search]", "many-99999")
        visitor.see(".tbody .tr", has_text="agent:main:many-99999")
        visitor.until("() => document.querySelector('.total').textContent === '1 session'")

    assert first.folder.config.read_text() == CONFIG


def _furnish(store: Path) -> None:
    db = apsw.Connection(str(store))
    keys = "'agent:main:many-' || value"
    numbers = (
        f"WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n LIMIT {MANY}) "
    )
    with db:
        db.execute(
            f"{numbers} INSERT INTO sessions (agent_id, key, session_id, kind, chat_type, created_at,"
            f" updated_at) SELECT 'main', {keys}, {keys}, 'other', 'direct', value, value FROM n"
        )
        db.execute(
            f"{numbers} INSERT INTO transcripts (session_id, agent_id, key, created_at) "
            f"SELECT {keys}, 'main', {keys}, value FROM n"
        )
    db.close()


def test_a_session_that_the_table_does_not_show_is_there_after_a_reload(
    visit: Visit, place: Place
) -> None:
    key = place.make("out-of-sight")
    place.say(key, "say: done")
    place.client.call("sessions.archive", {"key": key})
    visitor = visit(route("sessions", key))
    visitor.see(".panel", has_text="archived")

    visitor.page.reload()

    visitor.see(".panel", has_text="archived")
    visitor.see(".panel .facts", has_text="Session id")

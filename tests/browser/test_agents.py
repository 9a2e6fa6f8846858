"""Agents and model services made and changed on the page."""

import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from crossclaw.client import CallRefused
from crossclaw.testing import FakeModelServer
from tests.browser.conftest import Visit
from tests.browser.visiting import CONFIG, MAIN, HeldAnswers, Place, Visitor, open_place, route

pytestmark = pytest.mark.spec("B7")
KEY = "sk-right-key-1"


def ask(place: Place, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Once more where it is refused, or cut off, because the gateway opens anew with a changed config just then."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return dict(place.client.call(method, params, repeat=True))
        except CallRefused:
            assert time.monotonic() < deadline, f"{method} is refused for half a minute"
            time.sleep(0.1)


def written(place: Place) -> dict[str, Any]:
    """The config as the file has it."""
    value: dict[str, Any] = json.loads(ask(place, "config.get", {})["written"])
    return value


def agent(place: Place, agent_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {each["id"]: each for each in written(place)["agents"]["list"]}
    return dict(found[agent_id])


def in_force(place: Place) -> None:
    """Until the gateway has taken the config over."""
    deadline = time.monotonic() + 30
    while ask(place, "config.get", {}).get("restart"):
        assert time.monotonic() < deadline, "it is never taken over"
        time.sleep(0.1)


def edit(visitor: Visitor, name: str) -> Any:
    """The dialog of an agent."""
    visitor.see("cc-operations li", has_text=name).get_by_text("Edit").click()
    return visitor.see("dialog.agent[open]")


def put(dialog: Any, label: str, value: str) -> None:
    dialog.get_by_label(label).fill(value)


def test_an_agent_is_added_its_model_tried_and_its_words_written(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("operations", "agents"))

    visitor.see("button", has_text="New agent").click()
    visitor.page.fill("dialog.agent input >> nth=0", "Gardener")
    visitor.page.fill("dialog.agent input[list]", "rehearsal/rehearsal")
    visitor.page.click("dialog.agent >> text=Test")
    visitor.see("dialog.agent .hint", has_text="It answers after")
    visitor.page.click("dialog.agent button.main")
    visitor.see("#toasts", has_text="Gardener is there.")
    assert agent(place, "gardener")["model"] == "rehearsal/rehearsal"

    dialog = edit(visitor, "Gardener")
    dialog.get_by_label("File", exact=True).select_option("SOUL.md")
    put(dialog, "Text of the file", "Be kind to snails.")
    dialog.get_by_text("Save the file").click()
    visitor.see("#toasts", has_text="SOUL.md is saved")
    file = ask(place, "agents.files.get", {"agentId": "gardener", "name": "SOUL.md"})
    assert file["file"]["content"] == "Be kind to snails."


def test_nothing_can_be_typed_that_a_file_on_its_way_would_replace(
    visit: Visit, place: Place
) -> None:
    visitor = visit()
    held = HeldAnswers(visitor, "agents.files.get")
    visitor.page.reload()
    visitor.go(route("operations", "agents"))
    dialog = edit(visitor, "The librarian")
    words = dialog.get_by_label("Text of the file")
    save = dialog.get_by_text("Save the file")

    assert words.is_disabled()
    assert save.is_disabled()
    dialog.get_by_label("File", exact=True).select_option("SOUL.md")
    held.let_go()
    words.fill("Be kind to readers.")  # waits until it can be typed into
    save.click()
    visitor.see("#toasts", has_text="SOUL.md is saved")
    file = ask(place, "agents.files.get", {"agentId": "librarian", "name": "SOUL.md"})
    assert file["file"]["content"] == "Be kind to readers."


def test_an_agent_s_name_model_tools_reach_and_budget_are_changed_and_it_is_removed(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("operations", "agents"))

    dialog = edit(visitor, "Harbour master")
    put(dialog, "Name", "Pilot")
    put(dialog, "What it is for", "brings ships in")
    put(dialog, "Model", "rehearsal/rehearsal")
    put(dialog, "Tools that it does not have", "exec, group:web")
    put(dialog, "Agents that it may spawn", "librarian")
    put(dialog, "Budget of a task, in tokens", "5000")
    dialog.get_by_label("Other agents reach it").uncheck()
    dialog.get_by_text("Save", exact=True).click()
    visitor.see("#toasts", has_text="Pilot is saved.")

    saved = agent(place, "harbour")
    assert (saved["name"], saved["description"]) == ("Pilot", "brings ships in")
    assert (saved["model"], saved["budget"]) == ("rehearsal/rehearsal", {"tokens": 5000})
    assert saved["tools"]["deny"] == ["exec", "group:web"]
    assert saved["subagents"]["allowAgents"] == ["librarian"]
    rule = written(place)["tools"]["agentToAgent"]
    assert rule["enabled"] is True
    assert "harbour" not in rule["allow"]
    assert {"main", "librarian"} <= set(rule["allow"])
    why = {"from": MAIN, "verb": "send", "to": "agent:harbour:main"}
    assert ask(place, "sessions.explain", why)["allowed"] is False

    dialog = edit(visitor, "Pilot")
    dialog.get_by_text("Remove", exact=True).click()
    visitor.see("dialog.agent .hint", has_text="Its sessions and its workspace stay.")
    dialog.get_by_text("Remove", exact=True).click()
    visitor.see("#toasts", has_text="harbour is out of the config.")
    visitor.until("() => !document.querySelector('cc-operations').textContent.includes('Pilot')")


def test_a_service_is_tried_kept_and_used_and_its_key_never_comes_back(
    visit: Visit, tmp_path: Path
) -> None:
    heard: list[str] = []
    with (
        FakeModelServer(key=KEY, default="Aye.") as server,
        open_place(tmp_path, CONFIG) as place,
    ):
        gone = "ERR_CONNECTION_REFUSED"  # the place is closed before the page
        visitor = visit(route("operations", "agents"), place=place, may_complain=gone)
        visitor.page.on(
            "websocket",
            lambda line: line.on("framereceived", lambda frame: heard.append(str(frame))),
        )
        visitor.page.reload()

        visitor.see("button", has_text="New service").click()
        dialog = visitor.see("dialog.agent[open]")
        put(dialog, "Name", "shed")
        put(dialog, "Base URL", f"{server.url}/v1")
        put(dialog, "Key", "sk-wrong-key-9")
        put(dialog, "Model to try", "gpt-test")
        dialog.get_by_text("Test", exact=True).click()
        visitor.see("dialog.agent .problem", has_text="No answer:")
        put(dialog, "Key", KEY)
        dialog.get_by_text("Test", exact=True).click()
        visitor.see("dialog.agent .hint:not(.problem)", has_text="Aye.")
        dialog.get_by_text("Save", exact=True).click()
        visitor.see("#toasts", has_text="shed is saved")

        kept = place.folder.state / "credentials" / "auth-profiles.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert KEY in kept.read_text("utf-8")
        in_force(place)
        visitor.see("cc-operations li", has_text="shed").get_by_text("Key and test").click()
        dialog = visitor.see("dialog.agent[open]")
        assert dialog.locator("input[type=password]").input_value() == ""
        put(dialog, "Model to try", "gpt-test")
        answer = visitor.page.locator("dialog.agent .hint:not(.problem)", has_text="Aye.")
        for _ in range(40):  # the gateway has opened anew, and the page connects again
            dialog.get_by_text("Test", exact=True).click()
            visitor.page.wait_for_timeout(500)
            if answer.count():
                break
        visitor.see("dialog.agent .hint:not(.problem)", has_text="Aye.")
        assert heard
        assert not [each for each in heard if KEY in each]
        assert KEY not in (place.folder.state / "openclaw.json").read_text("utf-8")
        assert KEY not in visitor.page.content()

"""Operations on the page: what the gateway offers is shown, secrets are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, open_place, route

pytestmark = pytest.mark.spec("N1")

TABS = ["Health", "Figures", "Agents", "Channels", "Jobs", "Budgets", "Config", "Log"]


def test_the_gateway_its_agents_clients_and_channels_are_shown(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations", "agents"))
    visitor.see("section[aria-label=Agents]", has_text="Harbour master")
    visitor.go(route("operations", "channels"))
    visitor.see("section[aria-label=Channels]", has_text="No chat platform")
    visitor.go(route("operations"))
    visitor.see("section[aria-label=Gateway] .state", has_text="ok")
    visitor.see("section[aria-label=Connected]", has_text="webchat-ui")
    other = visit()
    visitor.until(
        "() => document.querySelector('section[aria-label=Connected]')"
        ".textContent.split('webchat-ui').length === 3"
    )
    other.page.close()


def test_what_the_gateway_does_not_offer_is_not_shown(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations"))
    visitor.see("section[aria-label=Gateway] .state")
    assert visitor.find("[role=tab]:visible").all_inner_texts() == TABS

    visitor.page.evaluate(
        "async () => { const { wire } = await import('./static/wire.js');"
        " wire.features.delete('cron.list'); wire.features.delete('system-presence');"
        " document.querySelector('cc-operations').read() }"
    )

    visitor.find("section[aria-label=Connected]").wait_for(state="hidden")
    left = [each for each in TABS if each != "Jobs"]
    assert visitor.find("[role=tab]:visible").all_inner_texts() == left


def test_each_tab_has_an_address_and_the_way_back_leads_through_them(visit: Visit) -> None:
    visitor = visit(route("operations"))
    chosen = visitor.find("[role=tab][aria-selected=true]")
    panel = visitor.find("[role=tabpanel]")

    visitor.page.click("[role=tab] >> text=Budgets")
    visitor.see("[role=tabpanel] th", has_text="Harbour master")
    visitor.page.click("[role=tab] >> text=Log")
    visitor.see("section[aria-label=Log] pre")
    assert visitor.page.url.endswith("#/operations/log")
    visitor.page.go_back()
    visitor.see("[role=tabpanel] th", has_text="Harbour master")
    assert (chosen.inner_text(), panel.get_attribute("aria-labelledby")) == (
        "Budgets",
        "tab-budgets",
    )

    visitor.go(route("operations", "nothing-of-this-name"))
    visitor.see("section[aria-label=Gateway] .state")
    assert chosen.inner_text() == "Health"


def test_the_arrows_go_from_tab_to_tab_and_leave_one_step_to_go_back(visit: Visit) -> None:
    visitor = visit(route("operations", "agents"))
    visitor.see("section[aria-label=Agents] a")
    visitor.page.focus("[role=tab][aria-selected=true]")

    seen = []
    for key in ("ArrowLeft", "ArrowLeft", "Home", "ArrowRight", "End"):
        visitor.page.keyboard.press(key)
        focused = visitor.page.evaluate("() => document.activeElement.textContent")
        visitor.see("[role=tab][aria-selected=true]", has_text=focused)
        seen.append(focused)
    visitor.page.go_back()

    assert seen == ["Figures", "Health", "Health", "Figures", "Log"]
    visitor.find("cc-operations").wait_for(state="detached")


def test_a_job_that_cannot_be_added_stays_in_its_form_with_the_reason(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("operations", "jobs"))
    form = visitor.see("form[aria-label='New job']")
    for name, text in {"name": "News", "expr": "every morning", "message": "say: news"}.items():
        form.locator(f"[name={name}]").fill(text)
    form.locator("button").click()

    visitor.see("form [role=alert]", has_text="every morning")
    form.locator("button").evaluate("button => button.blur()")
    redrawn = visitor.see("section[aria-label='Cron jobs'] .empty").element_handle()
    visitor.page.evaluate("() => document.querySelector('cc-operations').read()")
    redrawn.wait_for_element_state("hidden")
    assert form.locator("[name=message]").input_value() == "say: news"

    form.locator("[name=expr]").fill("0 7 * * *")
    form.locator("button").click()
    visitor.see("section[aria-label='Cron jobs'] .plainlist", has_text="News")
    assert form.locator("[name=message]").input_value() == ""
    assert form.locator("[role=alert]").inner_text() == ""


def test_a_job_runs_now_tells_its_log_is_turned_off_and_removed(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations", "jobs"))
    form = visitor.see("form[aria-label='New job']")
    given = {"name": "Tides", "expr": "0 5 1 1 *", "message": "say: High water at ten."}
    for name, text in given.items():
        form.locator(f"[name={name}]").fill(text)
    form.get_by_role("button", name="Add a job").click()
    job = visitor.see("section[aria-label='Cron jobs'] li", has_text="Tides")

    _press(job, "Log")
    job.locator(".ticks", has_text="not run yet").wait_for()
    _press(job, "Run now")
    job.locator(".ticks", has_text="High water at ten.").wait_for()
    job.locator(".ticks .state", has_text="ok").wait_for()
    _press(job, "Turn off")
    job.get_by_role("button", name="Turn on").wait_for()
    assert [each["enabled"] for each in _jobs(place, "Tides")] == [False]
    _press(job, "Turn on")
    job.get_by_role("button", name="Turn off").wait_for()

    _press(job, "Remove")
    visitor.page.click(".toast >> text=Undo")
    assert len(_jobs(place, "Tides")) == 1
    _press(job, "Remove")
    visitor.find("section[aria-label='Cron jobs'] li", has_text="Tides").wait_for(state="detached")
    assert _jobs(place, "Tides") == []


def _press(job: Any, name: str) -> None:
    job.get_by_role("button", name=name, exact=True).click()


def _jobs(place: Place, name: str) -> list[Any]:
    jobs = place.client.call("cron.list", {"includeDisabled": True})["jobs"]
    return [job for job in jobs if job["name"] == name]


def test_budgets_of_the_agents_are_told(visit: Visit, tmp_path: Path) -> None:
    defaults = {"budget": {"tokens": 400_000, "minutes": 30}}
    listed = [{"id": "main"}, {"id": "librarian", "budget": {"tokens": 50_000, "costUsd": 2}}]
    config = json.dumps({"agents": {"defaults": defaults, "list": listed}})
    with open_place(tmp_path, config) as own:
        visitor = visit(route("operations", "agents"), place=own)
        visitor.see("section[aria-label=Agents] .budget", has_text="400,000 tokens, 30 min")
        visitor.see("section[aria-label=Agents] .budget", has_text="50,000 tokens, $2.00, 30 min")
        visitor.go(route("operations", "budgets"))
        visitor.see(".empty", has_text="No task has a budget yet").get_by_text("in all").click()
        visitor.see("cc-figures .empty", has_text="No turn in this time")
        visitor.page.close()


def test_the_log_shows_what_the_gateway_wrote(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations", "log"))

    lines = visitor.see("section[aria-label=Log] pre").inner_text()
    kept = (place.folder.state / "logs" / "gateway.log").read_text().splitlines()
    assert lines.splitlines()[0] in kept

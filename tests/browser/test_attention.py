"""Needs attention: what failed is counted in the rail, says why, and offers what helps."""

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, route

pytestmark = pytest.mark.spec("B7")


def test_a_failure_is_counted_says_why_and_is_retried(visit: Visit, place: Place) -> None:
    key = place.make("wells", label="The wells")
    visitor = visit(route("chat", key))
    place.client.submit("fail: the bucket has a hole", key, key="well-1")
    place.settle()

    visitor.see("#attention-count", has_text="1")
    visitor.page.click(".rail a[data-view=attention]")
    row = visitor.see(".troubles li", has_text="The wells failed")
    row.locator(".why", has_text="the bucket has a hole").wait_for()
    row.get_by_text("Retry").click()
    visitor.see(".troubles li:not([data-id='run:well-1'])", has_text="The wells failed")
    runs = place.ledger("SELECT status FROM runs WHERE key = ? ORDER BY id", key)
    assert [status for (status,) in runs][:1] == ["error"]
    assert len(runs) == 2

    visitor.see(".troubles li").get_by_text("Dismiss").click()
    visitor.see(".empty", has_text="Nothing needs you")
    visitor.until("() => document.getElementById('attention-count').hidden")


def test_its_kinds_are_chosen_and_all_are_dismissed(visit: Visit, place: Place) -> None:
    place.client.submit("fail: one", place.make("one"))
    job = place.client.call(
        "cron.add",
        {
            "name": "tides", "schedule": {"kind": "cron", "expr": "0 7 * * *"}, "sessionTarget": "isolated",
            "wakeMode": "now", "payload": {"kind": "agentTurn", "message": "fail: no moon"},
        },
    )  # fmt: skip
    place.client.call("cron.run", {"id": job["id"], "mode": "force"})
    place.settle()
    visitor = visit(route("attention"))

    visitor.see(".kinds a", has_text="Jobs").click()
    only = visitor.see(".troubles li", has_text="The job tides failed")
    only.locator(".why", has_text="no moon").wait_for()
    visitor.until("() => document.querySelectorAll('.troubles li').length === 1")
    visitor.page.click(".kinds a >> nth=0")
    visitor.see(".troubles li", has_text="one failed")
    visitor.go(route("operations", "jobs"))
    visitor.see("small.problem", has_text="no moon")
    visitor.go(route("attention"))
    visitor.page.click("text=Dismiss all")
    visitor.see(".empty", has_text="Nothing needs you")

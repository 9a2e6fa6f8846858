"""Agents made and changed on the page."""

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, route

pytestmark = pytest.mark.spec("B7")


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
    listed = place.client.call("config.get", {})["config"]["agents"]["list"]
    assert {each["id"]: each.get("model") for each in listed}["gardener"] == "rehearsal/rehearsal"

"""Operations on the page: what the gateway offers is shown, secrets are not."""

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, route

pytestmark = pytest.mark.spec("N1")


def test_the_house_its_agents_clients_and_channels_are_shown(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations"))

    visitor.see("section[aria-label=House] .state", has_text="ok")
    visitor.see("section[aria-label=Agents]", has_text="Harbour master")
    visitor.see("section[aria-label=Channels]", has_text="Webchat")
    visitor.see("section[aria-label=Connected]", has_text="webchat-ui")
    other = visit()
    visitor.until(
        "() => document.querySelector('section[aria-label=Connected]')"
        ".textContent.split('webchat-ui').length === 3"
    )
    other.page.close()


def test_what_the_gateway_does_not_offer_is_not_shown(visit: Visit, place: Place) -> None:
    offered = {"cron.list": "Cron jobs", "logs.tail": "Log"}
    visitor = visit(route("operations"))
    visitor.see("section[aria-label=House] .state")

    features = visitor.page.evaluate(
        "async () => [...(await import('./static/wire.js')).wire.features]"
    )
    for method, title in offered.items():
        block = visitor.find(f"section[aria-label='{title}']")
        assert block.is_visible() == (method in features)


def test_a_job_that_cannot_be_added_stays_in_its_form_with_the_reason(
    visit: Visit, place: Place
) -> None:
    visitor = visit(route("operations"))
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


def test_the_log_shows_what_the_gateway_wrote(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations"))

    lines = visitor.see("section[aria-label=Log] pre").inner_text()
    kept = (place.folder.state / "logs" / "gateway.log").read_text().splitlines()
    assert lines.splitlines()[0] in kept

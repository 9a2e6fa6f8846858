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


def test_the_config_is_shown_without_secrets(visit: Visit, place: Place) -> None:
    visitor = visit(route("operations"))

    config = visitor.see("section[aria-label=Config] pre").inner_text()
    assert '"librarian"' in config
    assert place.token not in visitor.page.content()


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

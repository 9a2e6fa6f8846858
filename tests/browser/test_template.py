"""A view that was added from the template is there, and the console has nothing to complain about."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from dev import add

from crossclaw.display.languages import SPOKEN
from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, Place, open_place, route

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    """A gateway whose page has one view more."""
    folder = tmp_path_factory.mktemp("extended")
    copy = folder / "copy"
    shutil.copytree(ROOT / "src", copy / "src")
    shutil.copytree(ROOT / "dev" / "templates", copy / "dev" / "templates")
    assert add.main(["view", "notes"], copy, lambda line: None) == 0
    with open_place(folder, PYTHONPATH=str(copy / "src")) as place:
        yield place


def test_a_view_from_the_template_is_found_in_the_rail_and_shows_the_sessions(
    visit: Visit, extended: Place
) -> None:
    extended.say(MAIN, "say: Hello.")
    visitor = visit(place=extended)
    visitor.find(".rail a[data-view=notes]").click()
    visitor.see("cc-notes h2", has_text="Notes")
    visitor.see("cc-notes .cards a", has_text="Main")

    assert visitor.page.url.endswith(route("notes"))
    assert visitor.find(".rail a[aria-current=page]").inner_text().strip() == "Notes"


@pytest.mark.parametrize("locale", SPOKEN)
def test_the_rail_of_a_phone_has_room_for_one_view_more(
    visit: Visit, extended: Place, locale: str
) -> None:
    visitor = visit(route("notes"), place=extended, locale=locale, width=390, height=844)
    visitor.see("cc-notes .cards li")

    assert visitor.find(".rail a[data-view=notes]").is_visible()
    assert visitor.look() == []

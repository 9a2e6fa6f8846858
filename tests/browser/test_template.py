"""A view that was added from the template is there, and the console has nothing to complain about."""

import shutil
from pathlib import Path

from dev import add

from tests.browser.conftest import Visit
from tests.browser.visiting import MAIN, open_place, route

ROOT = Path(__file__).parents[2]


def test_a_view_from_the_template_is_found_in_the_rail_and_shows_the_sessions(
    visit: Visit, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src")
    shutil.copytree(ROOT / "dev" / "templates", copy / "dev" / "templates")
    assert add.main(["view", "notes"], copy, lambda line: None) == 0

    with open_place(tmp_path, PYTHONPATH=str(copy / "src")) as place:
        place.say(MAIN, "say: Hello.")
        visitor = visit(place=place)
        visitor.find(".rail a[data-view=notes]").click()
        visitor.see("cc-notes h2", has_text="Notes")
        visitor.see("cc-notes .cards a", has_text="Main")

        assert visitor.page.url.endswith(route("notes"))
        assert visitor.find(".rail a[aria-current=page]").inner_text().strip() == "Notes"
        visitor.page.close()

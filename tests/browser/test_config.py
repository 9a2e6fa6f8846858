"""The config on the page: edited as text, checked while one types, written as a whole or not at all."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Visit
from tests.browser.visiting import Place, Visitor, open_place, route

pytestmark = pytest.mark.spec("N1")

SECRET = "a-key-that-no-page-may-ever-show"
FILE = """{
  // who lives here
  agents: { list: [{ id: "main" }, { id: "ana", name: "Ana" }] },
  models: { providers: { far: { baseUrl: "http://127.0.0.1:9", apiKey: "SECRET", models: [] } } },
  gateway: { reload: { mode: "off" } },
}
""".replace("SECRET", SECRET)
TAKES_OVER = FILE.replace('"off"', '"hybrid"')


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    with open_place(tmp_path_factory.mktemp("own"), FILE) as place:
        yield place


class Editor:
    def __init__(self, visit: Visit, own: Place, **more: Any) -> None:
        self.place = own
        self.visitor: Visitor = visit(route("operations", "config"), place=own, **more)
        self.box = self.visitor.see("cc-config textarea")
        self.visitor.until(
            "() => document.querySelector('cc-config textarea').value.includes('Ana')"
        )

    @property
    def text(self) -> str:
        value: str = self.box.input_value()
        return value

    @property
    def file(self) -> str:
        return self.place.folder.config.read_text()

    def replace(self, old: str, new: str) -> None:
        assert old in self.text
        self.box.fill(self.text.replace(old, new))

    def says(self, words: str) -> Any:
        return self.visitor.see("cc-config .findings", has_text=words)

    def press(self, name: str) -> None:
        self.visitor.page.get_by_role("button", name=name, exact=True).click()


@pytest.fixture
def editor(visit: Visit, own: Place) -> Editor:
    own.folder.config.write_text(FILE)
    return Editor(visit, own)


def test_a_good_change_is_written_with_comments_and_secrets_kept(editor: Editor) -> None:
    editor.replace('"Ana"', '"Anna"')
    editor.says("Changes agents.list[1].name")
    editor.press("Save")

    editor.visitor.see(".toast", has_text="next start")
    editor.visitor.see("cc-config .pending", has_text="restart")
    assert editor.file == FILE.replace('"Ana"', '"Anna"')
    assert '"(hidden)"' in editor.text
    assert SECRET not in editor.visitor.page.content()
    assert editor.place.token not in editor.visitor.page.content()


def test_what_was_saved_is_in_force_after_a_moment(visit: Visit, tmp_path: Path) -> None:
    with open_place(tmp_path, TAKES_OVER) as own:
        editor = Editor(visit, own, may_complain="WebSocket|ERR_CONNECTION")
        editor.replace('"Ana"', '"Anna"')
        editor.says("Changes")
        editor.press("Save")

        editor.visitor.see(".toast", has_text="takes it over")
        editor.visitor.find("cc-config .pending").wait_for(state="detached")
        assert '"Anna"' in editor.text
        editor.visitor.go(route("operations", "agents"))
        editor.visitor.see("section[aria-label=Agents]", has_text="Anna")


def test_a_bad_change_is_told_at_its_line_and_cannot_be_saved(editor: Editor) -> None:
    text = json.loads(editor.text)
    text["session"] = {"scope": "everybody"}
    lines = json.dumps(text, indent=2)
    editor.box.fill(lines)
    line = 1 + next(n for n, each in enumerate(lines.splitlines()) if "everybody" in each)

    fault = editor.visitor.see("cc-config .faults li", has_text="session.scope")
    assert '"per-sender"' in fault.inner_text(), "it says what would work"
    assert editor.visitor.see(".gutter .bad").inner_text() == str(line)
    assert editor.visitor.find("cc-config [type=submit]").is_disabled()
    fault.get_by_role("button", name=f"Line {line}").click()
    chosen = editor.box.evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)")
    assert "everybody" in chosen

    editor.replace('"everybody"', '"global"')
    editor.says("Changes session")
    editor.press("Save")
    editor.visitor.see(".toast", has_text="Saved")
    assert '"global"' in editor.file


def test_a_text_that_is_no_json_says_where(editor: Editor) -> None:
    editor.box.fill('{\n  "agents": {\n')

    editor.visitor.see("cc-config .faults li", has_text="not JSON5")
    assert editor.file == FILE


def test_a_change_by_somebody_else_is_told_and_neither_text_is_lost(editor: Editor) -> None:
    editor.replace('"Ana"', '"Mine"')
    editor.says("Changes")
    theirs = FILE.replace('id: "main"', 'id: "main", name: "Theirs"')
    editor.place.folder.config.write_text(theirs)
    editor.press("Save")

    editor.visitor.see("cc-config .clash pre", has_text="Theirs")
    assert '"Mine"' in editor.text
    assert editor.file == theirs

    editor.press("Take theirs")
    editor.visitor.until(
        "() => document.querySelector('cc-config textarea').value.includes('Theirs')"
    )
    assert '"Mine"' not in editor.text
    editor.visitor.page.click(".toast >> text=Undo")
    editor.says("Changes agents.list[0].name, agents.list[1].name")
    assert '"Mine"' in editor.text


def test_who_goes_on_with_their_own_text_sees_what_it_undoes_before_it_is_saved(
    editor: Editor,
) -> None:
    editor.replace('"Ana"', '"Mine"')
    editor.says("Changes")
    editor.place.folder.config.write_text(FILE.replace("apiKey", "maxConcurrent: 3, apiKey"))
    editor.press("Save")
    editor.press("Go on with mine")

    editor.says("agents.list[1].name, models.providers.far.maxConcurrent")
    editor.press("Save")
    editor.visitor.see(".toast", has_text="Saved")
    assert editor.file == FILE.replace('"Ana"', '"Mine"')


def test_what_is_typed_and_not_saved_is_there_when_one_comes_back(editor: Editor) -> None:
    editor.replace('"Ana"', '"Anna"')
    editor.says("Changes")
    editor.visitor.go(route("sessions"))
    editor.visitor.go(route("operations", "config"))

    editor.visitor.until(
        "() => document.querySelector('cc-config textarea')?.value.includes('Anna')"
    )
    editor.says("Changes agents.list[1].name")
    editor.press("Put back")
    editor.visitor.until(
        "() => !document.querySelector('cc-config textarea').value.includes('Anna')"
    )
    assert editor.file == FILE


def test_every_key_with_its_default_is_a_click_away(editor: Editor) -> None:
    editor.visitor.page.click("cc-config summary")

    config = editor.visitor.see("cc-config details pre").inner_text()
    assert '"maxPingPongTurns": 5' in config
    assert SECRET not in config


def test_comments_typed_here_are_said_not_to_be_written_and_no_change_is_nothing_to_save(
    editor: Editor,
) -> None:
    editor.box.fill("// mine\n" + editor.text)

    words = editor.says("It says the same as the file.")
    assert "comments of this text are not written" in words.inner_text()
    assert editor.visitor.find("cc-config [type=submit]").is_disabled()
    editor.replace('"Ana"', '"Anna"')
    editor.says("Changes agents.list[1].name")
    editor.press("Save")
    editor.visitor.see(".toast", has_text="comments of this text are not written")
    assert editor.file == FILE.replace('"Ana"', '"Anna"')


def test_a_file_that_breaks_meanwhile_is_told_and_what_was_typed_stays(editor: Editor) -> None:
    editor.replace('"Ana"', '"Anna"')
    editor.says("Changes")
    editor.place.folder.config.write_text(FILE + "}")
    editor.press("Save")

    editor.visitor.see("cc-config .warn", has_text="not JSON5")
    assert '"Anna"' in editor.text
    assert editor.box.is_visible()
    assert editor.visitor.find("cc-config [type=submit]").is_disabled()
    assert editor.file == FILE + "}"

"""`crossclaw rehearse`: a file of one's own is a test of one's agents, with an exit code."""

import json
import os
from pathlib import Path

from tests.cli.person import Person

ROOT = Path(__file__).parents[2]

OWN = """{
  title: "Who may be asked", about: "The gardener is not let at programs.",
  config: "mine",
  acts: [
    { tell: "it speaks", to: "gardener", say: "say: Lavender.", expect: "Lavender", ends: "ok" },
    { tell: "it fails", to: "gardener", say: "fail: no water", ends: "ok" },
    { tell: "never played", to: "gardener", say: "say: too late" },
  ],
}"""


def test_a_file_of_one_s_own_is_played_on_one_s_own_agents_and_fails_where_it_must(
    person: Person,
) -> None:
    gardener = {"id": "gardener", "tools": {"deny": ["exec"]}}
    person.write_config(json.dumps({"agents": {"list": [{"id": "main"}, gardener]}}))
    (person.folder / "own.json5").write_text(OWN)
    page = (ROOT / "docs" / "rehearsing.md").read_text("utf-8")
    (person.folder / "asks.json5").write_text(page.split("```json5\n")[1].split("```")[0])
    before = sorted(os.listdir(person.state))

    done = person.types("rehearse", "asks.json5", "own.json5", TMPDIR=str(person.folder))

    assert done.returncode == 1, done.stderr
    assert done.stdout.count("\npassed\n") == 1, done.stdout
    assert "gardener: Lavender." in done.stdout
    assert "gardener should have ended ok, and is failed (" in done.stdout
    assert "no water" in done.stdout
    assert "never played" not in done.stdout
    assert not list(person.folder.glob("crossclaw-rehearsal-*")), "its folder is gone"
    assert sorted(os.listdir(person.state)) == before, "nothing of the person's own was touched"


def test_what_cannot_be_played_is_said(person: Person) -> None:
    listed = person.types("rehearse")
    missing = person.types("rehearse", "nothing.json5")

    assert "kill-me" in listed.stdout
    assert missing.returncode == 1
    assert "there is no rehearsal 'nothing.json5'" in missing.stderr
    assert "two-agents" in missing.stderr

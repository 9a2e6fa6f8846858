"""docs/cluster.md names every fault of the rig, and every build that it must catch."""

import re
from pathlib import Path

import pytest

faults = pytest.importorskip("tests.faults.__main__", reason="the extra postgres")

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_the_page_names_what_the_rig_does() -> None:
    _, _, rest = PAGE.read_text().partition("## What was tried")
    tried = rest.partition("\n## ")[0]
    named = set(re.findall(r"`([a-z]+)`", tried))
    builds = set(faults.CONTROLS)
    assert set(faults.FAULTS) | builds <= named
    others = {"careless", "pushing", "uncertain"}  # of the crash rig, and of the outbox
    assert named - set(faults.FAULTS) - builds <= others

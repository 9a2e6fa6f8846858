"""The page of settings tells what each of them does, in the words beside it in the code."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text("utf-8")


def test_every_key_says_what_it_does() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (.*) \|$", PAGE, re.M)

    assert len(rows) > 250
    assert [key for key, words in rows if not words.strip()] == []

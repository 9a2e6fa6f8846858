"""The story of the README's picture ends as it is drawn."""

import pytest

from tests.channels.story import ANNOUNCE, ANSWER, ASKED, KNOWN, LENT, UNTIL, WANTED, tell

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.spec("N2", "N7", "S7")]


async def test_two_agents_on_two_platforms_settle_a_matter_and_announce_it_in_the_others_chat() -> None:  # fmt: skip
    story = await tell()

    assert story == {
        "matrix": [("Ann", WANTED), ("main", ANSWER)],
        "between": [("main", ASKED), ("librarian", KNOWN)],
        "telegram": [("Ben", LENT), ("librarian", UNTIL), ("librarian", ANNOUNCE)],
    }

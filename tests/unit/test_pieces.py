"""A reply that is longer than a chat can bear ends with words that say so."""

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.manifest import Traits
from crossclaw.delivery.pieces import PIECES_MAX, pieces_of
from crossclaw.testing import MemoryChannel


def test_of_a_reply_without_end_the_first_pieces_are_sent_and_a_word_about_the_rest() -> None:
    live = LiveAccount("memory", "default", MemoryChannel(), Traits(text_limit=70))
    words = [f"paragraph {number:03} {'-' * 40}" for number in range(PIECES_MAX + 5)]
    made = pieces_of("\n\n".join(words), live)
    exact = pieces_of("\n\n".join(words[:PIECES_MAX]), live)

    assert [each.text for each in made[:-1]] == words[: PIECES_MAX - 1]
    assert "too long for a chat" in made[-1].text
    assert [each.text for each in exact] == words[:PIECES_MAX]


def test_without_a_dialect_a_message_is_counted_as_the_platforms_count() -> None:
    """In units of UTF-16: an emoji is two."""
    live = LiveAccount("memory", "default", MemoryChannel(), Traits(text_limit=100))

    assert [each.text for each in pieces_of("🙂" * 50, live)] == ["🙂" * 50]
    assert len(pieces_of("🙂" * 51, live)) == 2

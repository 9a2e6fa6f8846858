"""Pacing: a burst goes at once, then no more than so many in any such time."""

from crossclaw.channels.manifest import Rate
from crossclaw.delivery.pacing import Paces


def test_a_burst_goes_at_once_and_what_follows_waits_its_turn() -> None:
    paces, rate = Paces(), Rate(3, 3.0)
    assert [paces.reserve(("a",), rate, 10.0) for _ in range(5)] == [0.0, 0.0, 0.0, 3.0, 3.0]
    assert paces.reserve(("b",), rate, 10.0) == 0.0
    assert paces.reserve(("a",), rate, 100.0) == 0.0
    assert paces.reserve(("a",), None, 10.0) == 0.0


def test_one_message_in_three_seconds_is_three_seconds_apart() -> None:
    paces = Paces()
    assert [paces.reserve(("a",), Rate(1, 3.0), 0.0) for _ in range(3)] == [0.0, 3.0, 6.0]

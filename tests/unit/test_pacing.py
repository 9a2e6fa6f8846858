"""Pacing: a burst goes at once, then no more than so many in any such time."""

from crossclaw.channels.manifest import Rate
from crossclaw.delivery.pacing import Pace, Paces


def test_a_burst_goes_at_once_and_what_follows_waits_its_turn() -> None:
    paces, rate = Paces(), Rate(3, 3.0)
    assert [paces.reserve(("a",), rate, 10.0) for _ in range(5)] == [0.0, 0.0, 0.0, 3.0, 3.0]
    assert paces.reserve(("b",), rate, 10.0) == 0.0
    assert paces.reserve(("a",), rate, 100.0) == 0.0
    assert paces.reserve(("a",), None, 10.0) == 0.0


def test_one_message_in_three_seconds_is_three_seconds_apart() -> None:
    paces = Paces()
    assert [paces.reserve(("a",), Rate(1, 3.0), 0.0) for _ in range(3)] == [0.0, 3.0, 6.0]


def test_what_is_no_message_takes_only_places_of_which_half_are_free() -> None:
    pace = Pace(Rate(3, 10.0))
    assert [pace.spare(0.0) for _ in range(3)] == [True, True, False]
    assert [pace.reserve(1.0) for _ in range(2)] == [0.0, 9.0]
    assert pace.spare(2.0) is False
    assert pace.spare(30.0) is True


def test_where_one_message_can_go_what_is_none_takes_no_place() -> None:
    pace = Pace(Rate(1, 3.0))
    assert [pace.spare(0.0), pace.spare(0.0), pace.reserve(0.0), pace.spare(2.9)] == [
        True, True, 0.0, False,
    ]  # fmt: skip

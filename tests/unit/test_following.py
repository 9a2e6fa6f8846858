"""Following a run over HTTP."""

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.events import ReplyPiece, RunAccepted, RunEnded, ToolStarted
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.gateway.http.following import FOLLOWED_MAX, Followers
from crossclaw.runs.feed import Feed

KEY = SessionKey.main("main")


def ended_run(run_id: str) -> Run:
    return Run(
        run_id=run_id, key=KEY, session_id="s", kind="agent", status="ok", attempt=1, epoch=1,
        plan=RunPlan(), authority=Authority(), cause=Cause(), created_at=0,
    )  # fmt: skip


def piece(words: str, run_id: str = "r1") -> ReplyPiece:
    return ReplyPiece(run_id, KEY, words, words)


async def test_words_join_until_they_are_read_and_turns_are_told_apart() -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    for event in (
        piece("let me "),
        piece("look"),
        piece("somebody else's", "r2"),
        RunAccepted("r1", KEY),
        ToolStarted("r1", KEY, "c1", "read", {}),
        piece("here it is"),
    ):
        feed.publish(event)

    assert await following.next() == "let me look\n\nhere it is"


async def test_it_is_not_over_before_the_last_words_were_read() -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    feed.publish(piece("the first"))
    first = await following.next()
    feed.publish(piece(" and the last"))
    feed.publish(RunEnded(ended_run("r1")))
    too_early = following.over
    last = await following.next()

    assert (first, last) == ("the first", " and the last")
    assert (too_early, following.over) == (False, True)


async def test_a_run_that_says_nothing_is_looked_at_again() -> None:
    following = Followers(Feed()).follow("r1")

    assert await following.next() == ""


@pytest.mark.parametrize("left", [True, False])
async def test_who_has_left_hears_nothing_more(left: bool) -> None:
    feed = Feed()
    followers = Followers(feed)
    following = followers.follow("r1")
    if left:
        followers.leave("r1", following)
        followers.leave("r1", following)
    else:
        for number in range(FOLLOWED_MAX):
            followers.follow(f"other-{number}")
    feed.publish(piece("hi"))

    assert await following.next() == ""

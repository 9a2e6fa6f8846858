"""Following a run over HTTP."""

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.events import ReplyPiece, RunAccepted, RunEnded, ToolStarted
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Cause, Run, RunPlan
from crossclaw.gateway.http.following import FOLLOWED_MAX, Followers, SaidOtherwise
from crossclaw.runs.feed import Feed

KEY = SessionKey.main("main")


def ended_run(run_id: str) -> Run:
    return Run(
        run_id=run_id, key=KEY, session_id="s", kind="agent", status="ok", attempt=1, epoch=1,
        plan=RunPlan(), authority=Authority(), cause=Cause(), created_at=0,
    )  # fmt: skip


def piece(
    words: str, run_id: str = "r1", *, before: str = "", restarted: bool = False
) -> ReplyPiece:
    return ReplyPiece(run_id, KEY, words, before + words, restarted)


async def test_words_join_until_they_are_read_and_turns_are_told_apart() -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    for event in (
        piece("let me "),
        piece("look", before="let me "),
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
    feed.publish(piece(" and the last", before="the first"))
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


async def test_words_that_nobody_read_are_forgotten_when_their_turn_begins_anew() -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    feed.publish(piece("The answer is for"))
    feed.publish(piece("Forty", restarted=True))
    feed.publish(piece("-two.", before="Forty"))

    assert await following.next() == "Forty-two."


async def test_only_what_goes_beyond_the_words_that_were_sent_is_sent_again() -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    feed.publish(piece("let me look"))
    feed.publish(ToolStarted("r1", KEY, "c1", "read", {}))
    feed.publish(piece("It is for"))
    first = await following.next()
    feed.publish(piece("It is", restarted=True))
    shorter = await following.next()
    feed.publish(piece(" forty-two.", before="It is"))
    feed.publish(RunEnded(ended_run("r1")))

    assert (first, shorter) == ("let me look\n\nIt is for", "")
    assert (await following.next(), following.over) == ("ty-two.", True)


@pytest.mark.parametrize("then", ["forty-two", "It is", "It is a"])
async def test_words_that_were_sent_and_do_not_hold_any_more_are_an_error(then: str) -> None:
    feed = Feed()
    following = Followers(feed).follow("r1")
    feed.publish(piece("It is for"))
    await following.next()
    feed.publish(piece(then, restarted=True))
    feed.publish(RunEnded(ended_run("r1")))

    with pytest.raises(SaidOtherwise, match="asked again"):
        await following.next()

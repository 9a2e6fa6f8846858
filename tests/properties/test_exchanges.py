"""The rule of exchanges, over every word that could be said: it always ends, and within its bound."""

from itertools import product

import pytest

from crossclaw.domain.authority import Authority
from crossclaw.domain.exchanges import Announce, Exchange, ExchangeOver, Round, next_step
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Cause, Outcome, Run, RunKind, RunPlan

WORDS = {
    "text": Outcome("ok", reply="words"),
    "skip": Outcome("ok", reply="REPLY_SKIP"),
    "skip with space": Outcome("ok", reply=" REPLY_SKIP \n"),
    "announce skip": Outcome("ok", reply="ANNOUNCE_SKIP"),
    "almost": Outcome("ok", reply="REPLY_SKIP."),
    "empty": Outcome("ok", reply=""),
    "error": Outcome("error", error="no"),
    "timeout": Outcome("timeout", error="late"),
}
SILENT = {"skip", "skip with space", "announce skip", "empty", "error", "timeout"}


def run_of(kind: RunKind) -> Run:
    return Run(
        run_id="r", key=SessionKey.main("main"), session_id="s", kind=kind, status="running", attempt=1,
        epoch=1, plan=RunPlan(), authority=Authority(), cause=Cause(), created_at=0,
    )  # fmt: skip


def walk(turns_max: int, said: tuple[str, ...]) -> tuple[list[str], str | None]:
    """Who ran, in order, and what was posted."""
    exchange = Exchange(
        exchange_id="x", agent_id="main", requester_key="R", target_key="T", run_id="r", request="?",
        turns_max=turns_max, created_at=0,
    )  # fmt: skip
    kind: RunKind = "send"
    ran = ["T"]
    for word in said:
        exchange, step = next_step(exchange, run_of(kind), WORDS[word])
        match step:
            case Round(turn=turn):
                kind = "round"
                ran.append(exchange.speaker(turn))
            case Announce():
                kind = "announce"
                ran.append("T!")
            case ExchangeOver(words=words):
                return ran, words
    raise AssertionError("it does not end")


@pytest.mark.spec("S6", "S7", "B4")
@pytest.mark.parametrize("turns_max", range(6))
def test_every_story_ends_within_its_bound_and_posts_no_token(turns_max: int) -> None:
    most = turns_max + 2
    for said in product(WORDS, repeat=min(most, 5)):
        ran, posted = walk(turns_max, (*said, *["text"] * most))
        assert len(ran) <= 1 + turns_max + 1
        assert posted not in ("REPLY_SKIP", "ANNOUNCE_SKIP", "")
        assert ran.count("T!") == (0 if said[0] in ("error", "timeout") else 1)
        assert ran[-1] == "T!" or len(ran) == 1


@pytest.mark.spec("S6")
def test_the_requester_speaks_first_and_then_in_turn() -> None:
    assert walk(5, ("text",) * 7) == (["T", "R", "T", "R", "T", "R", "T!"], "words")


@pytest.mark.spec("S6")
@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_round_ends_the_rounds_exactly_when_nothing_is_said(word: str) -> None:
    ran, _ = walk(5, ("text", word, *["text"] * 6))

    ended = word in SILENT - {"announce skip"}
    assert ran == (["T", "R", "T!"] if ended else ["T", "R", "T", "R", "T", "R", "T!"])


@pytest.mark.spec("S6")
def test_a_first_reply_of_skip_has_no_rounds_but_an_announce() -> None:
    assert walk(5, ("skip", "text")) == (["T", "T!"], "words")


@pytest.mark.spec("S7")
@pytest.mark.parametrize("word", sorted(WORDS))
def test_an_announce_posts_words_and_only_words(word: str) -> None:
    _, posted = walk(0, ("text", word))

    expected = {"text": "words", "almost": "REPLY_SKIP."}.get(word)
    assert posted == expected


@pytest.mark.spec("S3")
@pytest.mark.parametrize("word", ["error", "timeout"])
def test_after_a_failed_primary_run_there_is_nothing(word: str) -> None:
    assert walk(5, (word,)) == (["T"], None)


def test_who_stops_a_run_of_the_exchange_gets_silence() -> None:
    exchange = Exchange(
        exchange_id="x", agent_id="main", requester_key="R", target_key="T", run_id="r", request="?",
        turns_max=5, created_at=0,
    )  # fmt: skip
    kinds: list[RunKind] = ["send", "round", "announce"]
    for kind in kinds:
        _, step = next_step(exchange, run_of(kind), Outcome("aborted", error="stop"))
        assert step == ExchangeOver()

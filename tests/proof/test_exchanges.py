"""Exchanges, all of them: every word in every turn for every cap, in the real gateway. No exchange has
more runs than its bound, and no control token reaches a chat or a page."""

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.domain.exchanges import Announce, ExchangeOver, Round, next_step
from crossclaw.testing import VirtualLoop
from tests.proof.size import share
from tests.proof.stories import SAID, stories, tell, wrong

STRIDE = {0: 3, 1: 7, 2: 23, 3: 47, 4: 83, 5: 167}
COUNTS = {0: 37, 1: 121, 2: 289, 3: 625, 4: 1_297, 5: 2_641}
AT_ONCE = 60  # stories in one gateway, each with a call under way: a provider takes 64 at once


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


@pytest.mark.parametrize("turns_max", COUNTS)
def test_the_stories_are_all_there(turns_max: int) -> None:
    told = list(stories(turns_max))

    assert len(told) == len(set(told)) == COUNTS[turns_max]
    assert max(map(len, told)) == 1 + turns_max + 1


@pytest.mark.spec("S6", "S7", "S3", "B4")
@pytest.mark.parametrize(("turns_max", "one_agent"), list(product(COUNTS, (False, True))))
async def test_every_story_ends_as_the_specification_says(
    tmp_path: Path, turns_max: int, one_agent: bool
) -> None:
    told = list(share(stories(turns_max), STRIDE[turns_max]))
    for first in range(0, len(told), AT_ONCE):
        some = told[first : first + AT_ONCE]
        seen = await tell(tmp_path / f"{first}", turns_max, some, one_agent=one_agent)
        assert wrong(turns_max, some, seen) == []
        assert seen.page.frames > len(some)


# ── the control ────────────────────────────────────────────────────────────────────────────────


def skip_is_a_word(exchange: Any, run: Any, outcome: Any) -> Any:
    said = "(skip)" if (outcome.reply or "").strip() == "REPLY_SKIP" else outcome.reply
    return next_step(exchange, run, msgspec.structs.replace(outcome, reply=said))


def only_the_bare_token(exchange: Any, run: Any, outcome: Any) -> Any:
    padded = outcome.reply != (outcome.reply or "").strip() and run.kind == "round"
    said = "(skip)" if padded else outcome.reply
    return next_step(exchange, run, msgspec.structs.replace(outcome, reply=said))


def one_turn_more(exchange: Any, run: Any, outcome: Any) -> Any:
    longer = msgspec.structs.replace(exchange, turns_max=exchange.turns_max + 1)
    moved, step = next_step(longer, run, outcome)
    return msgspec.structs.replace(moved, turns_max=exchange.turns_max), step


def posts_whatever_is_said(exchange: Any, run: Any, outcome: Any) -> Any:
    moved, step = next_step(exchange, run, outcome)
    said = outcome.reply if run.kind == "announce" and outcome.status == "ok" else None
    return moved, ExchangeOver(said or None) if isinstance(step, ExchangeOver) else step


def goes_on_after_a_failure(exchange: Any, run: Any, outcome: Any) -> Any:
    moved, step = next_step(exchange, run, outcome)
    if run.kind == "send" and outcome.status != "ok":
        return msgspec.structs.replace(exchange, state="announcing"), Announce()
    return moved, step


def no_announce(exchange: Any, run: Any, outcome: Any) -> Any:
    moved, step = next_step(exchange, run, outcome)
    if isinstance(step, Announce):
        return msgspec.structs.replace(moved, state="over"), ExchangeOver()
    return moved, step


def silence_ends_nothing(exchange: Any, run: Any, outcome: Any) -> Any:
    moved, step = next_step(exchange, run, outcome)
    if run.kind == "round" and isinstance(step, Announce) and moved.turn < moved.turns_max:
        turn = moved.turn + 1
        return msgspec.structs.replace(exchange, turn=turn), Round(turn, "go on")
    return moved, step


WRONG_RULES = [
    skip_is_a_word, only_the_bare_token, one_turn_more, posts_whatever_is_said,
    goes_on_after_a_failure, no_announce, silence_ends_nothing,
]  # fmt: skip


@pytest.mark.parametrize("rule", WRONG_RULES)
async def test_a_wrong_rule_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: Any
) -> None:
    """The control: the proof can fail."""
    monkeypatch.setattr("crossclaw.sessions.exchange.next_step", rule)
    told = [story for story in stories(2) if set(story) <= {"text", "skip", "spaced", "error"}]

    assert wrong(2, told, await tell(tmp_path, 2, told)) != []


@pytest.mark.parametrize(
    ("name", "value"), [("is_silent", lambda words: not words), ("CONTROL_TOKENS", frozenset())]
)
async def test_a_page_that_is_shown_a_token_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: Any
) -> None:
    monkeypatch.setattr(f"crossclaw.gateway.run_events.{name}", value)
    told = [(word, "text") for word in SAID if word in ("skip", "spaced")]

    seen = await tell(tmp_path, 0, told)

    assert seen.page.tokens != []

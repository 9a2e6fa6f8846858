"""Wherever a conversation is cut, what is left is legal and no result is parted from its call."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.agent.compaction import CompactionInput, CompactionSettings
from crossclaw.agent.view import INTERRUPTED, Prefix, build_view
from crossclaw.agent.weight import weigh
from crossclaw.domain.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolResultMessage,
    ToolUse,
    UserMessage,
)
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.providers.contract import UserTurn
from tests.proof.size import examples
from tests.properties.test_view import (
    ME,
    complaint,
    crashed,
    crashed_entries,
    entries_of,
    settled,
    thought_out_of_place,
)


def head(entries: list[Entry], cut: int) -> Prefix:
    before = entries[cut].seq - 1 if cut < len(entries) else 0
    return Prefix(before, (UserTurn([], [Text("the summary")]),), cleared_through=before)


@pytest.mark.spec("M5", "M3")
@settings(max_examples=examples(133), deadline=None)
@given(crashed, st.integers(0, 300), st.integers(0, 15))
def test_any_crashed_history_is_legal_after_a_compaction(
    history: list[tuple[Message | NewEntry, str | None]], tokens: int, messages: int
) -> None:
    entries = crashed_entries(history)
    scene = CompactionInput(entries, None)
    for cut in (scene.cut_keeping(tokens), scene.cut_keeping_messages(messages)):
        turns = build_view(entries[cut:], head(entries, cut), ME)
        assert complaint(turns) is None
        assert not thought_out_of_place(turns)


@pytest.mark.spec("M5")
@settings(max_examples=examples(100, 300), deadline=None)
@given(st.lists(settled, max_size=6), st.integers(0, 300))
def test_a_cut_never_parts_a_result_from_its_call(runs: list[list[Message]], tokens: int) -> None:
    entries = entries_of([message for run in runs for message in run])
    cut = CompactionInput(entries, None).cut_keeping(tokens)

    turns = build_view(entries[cut:])

    returns = [r for turn in turns if isinstance(turn, UserTurn) for r in turn.results]
    kept = [e for e in entries[cut:] if isinstance(e.message, ToolResultMessage)]
    assert len(returns) == len(kept)
    assert all(result.content != [Text(INTERRUPTED)] for result in returns)


@pytest.mark.spec("M5")
@settings(max_examples=examples(100, 300), deadline=None)
@given(st.lists(settled, min_size=1, max_size=6), st.integers(0, 300))
def test_what_stays_is_no_more_than_allowed_or_the_last_words(
    runs: list[list[Message]], tokens: int
) -> None:
    entries = entries_of([message for run in runs for message in run])
    cut = CompactionInput(entries, None).cut_keeping(tokens)

    rest = entries[cut:]
    assert sum(map(weigh, rest)) <= tokens or len([e for e in rest if e.message]) <= 2


@settings(max_examples=examples(66, 200))
@given(st.integers(1, 2_000_000), st.integers(0, 100_000), st.none() | st.floats(0.01, 1))
def test_the_limit_is_always_within_the_window(
    window: int, reserve: int, share: float | None
) -> None:
    limit = CompactionSettings(reserve_tokens=reserve, share=share).limit(window)

    assert 0 <= limit <= window


def test_a_call_that_waits_is_no_place_to_cut() -> None:
    entries = entries_of(
        [
            UserMessage("go"),
            AssistantMessage([ToolUse("c1", "t", {}), ToolUse("c2", "t", {})]),
            ToolResultMessage("c1", "t", "one"),
            UserMessage("by the way"),
            ToolResultMessage("c2", "t", "two"),
            AssistantMessage("done"),
        ]
    )
    scene = CompactionInput(entries, None)

    assert scene.cut_keeping_messages(3) == 1
    assert scene.cut_keeping_messages(1) == 5
    assert scene.cut_keeping_messages(6) == 0

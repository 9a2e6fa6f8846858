"""A request made to fit a smaller window is as legal as the whole, and fits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossclaw.agent.fitting import fitted
from crossclaw.agent.weight import weigh_request
from crossclaw.domain.messages import Text, ToolUse
from crossclaw.providers.contract import AssistantTurn, ModelRequest, ToolReturn, Turn, UserTurn
from tests.proof.size import examples
from tests.properties.test_view import complaint


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 8))):
        size = draw(st.sampled_from([5, 400, 20_000]))
        turns.append(UserTurn([], [Text(f"question {number} " + "x" * size)]))
        for call in range(draw(st.integers(0, 3))):
            name = f"c{number}_{call}"
            result = "r" * draw(st.sampled_from([3, 500, 30_000]))
            turns.append(AssistantTurn([Text("let me see"), ToolUse(name, "look", {"n": 1})]))
            turns.append(UserTurn([ToolReturn(name, [Text(result)])], []))
        turns.append(AssistantTurn([Text("answer " + "y" * draw(st.sampled_from([5, 5_000])))]))
    cut = draw(st.integers(1, len(turns)))
    while isinstance(turns[cut - 1], AssistantTurn):
        cut -= 1
    return turns[:cut]


@pytest.mark.spec("M5")
@settings(max_examples=examples(66, 200), deadline=None)
@given(conversations(), st.sampled_from([2_000, 8_000, 32_000]))
def test_what_is_fitted_is_legal_and_ends_as_the_whole_does(turns: list[Turn], window: int) -> None:
    request = ModelRequest("m", "be brief", turns, output_tokens_max=500)

    made = fitted(request, window)

    assert complaint(made.turns) is None
    assert weigh_request(made) <= window
    assert type(made.turns[-1]) is type(turns[-1])
    if weigh_request(request) <= window // 2:
        assert made == request

"""Lanes keep order: whatever is submitted when, a session runs one at a time and in sequence, and no
session waits for another."""

import tempfile
from itertools import pairwise
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import open_gateway, submit
from tests.proof.size import examples

KEYS = [SessionKey.named("main", name) for name in ("ana", "ben", "cho")]
plans = st.lists(
    st.tuples(st.sampled_from(KEYS), st.integers(0, 90), st.integers(0, 20)), max_size=14
)
"""(session, seconds that its answer takes, seconds until the next message comes)"""


class Slow:
    """Takes as many seconds as the message says, and notes when."""

    name = "slow"

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[int, float, float]]] = {}

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        words = [block.text for block in request.turns[-1].content if isinstance(block, Text)]
        session, number, seconds = words[-1].split()
        began = anyio.current_time()
        await anyio.sleep(int(seconds))
        self.spans.setdefault(session, []).append((int(number), began, anyio.current_time()))
        return AssistantMessage([Text("done")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


async def carry_out(plan: list[tuple[SessionKey, int, int]], model: Slow) -> dict[str, float]:
    """Answers when each session could have been done at the earliest."""
    earliest: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with open_gateway(Path(folder), model) as gateway:
            ids = []
            for number, (key, seconds, pause) in enumerate(plan):
                text = f"{key.name} {number} {seconds}"
                ids.append((await submit(gateway, key, text)).run_id)
                begins = max(earliest.get(key.name, 0.0), anyio.current_time())
                earliest[key.name] = begins + seconds
                await anyio.sleep(pause)
            for run_id in ids:
                await gateway.run_store.wait(run_id)
    return earliest


@pytest.mark.spec("M2")
@settings(max_examples=examples(10, 30), deadline=None)
@given(plans)
def test_every_session_runs_in_order_without_overlap_and_without_waiting_for_others(
    plan: list[tuple[SessionKey, int, int]],
) -> None:
    model = Slow()

    earliest = anyio.run(
        carry_out,
        plan,
        model,
        backend="trio",
        backend_options={"clock": MockClock(autojump_threshold=0)},
    )

    assert sum(len(spans) for spans in model.spans.values()) == len(plan)
    for name, spans in model.spans.items():
        assert [number for number, _, _ in spans] == sorted(number for number, _, _ in spans)
        assert all(end <= begin for (_, _, end), (_, begin, _) in pairwise(spans))
        assert spans[-1][2] == pytest.approx(earliest[name], abs=0.5)

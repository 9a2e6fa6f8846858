"""The law of budgets: whatever a tree of sends and spawns does, side by side and through a crash, an
account is overdrawn at most by what the calls under way at its last grant took beyond what was
reserved for them."""

import tempfile
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from crossclaw.agent.weight import weigh_request
from crossclaw.app import Gateway
from crossclaw.config import Config
from crossclaw.domain.budgets import Amount
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantBlock, AssistantMessage, Text, ToolUse, Usage
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import open_gateway, submit
from tests.proof.size import examples
from tests.stores import copy_state

ROOT = "root"
OTHERS = ("ben", "cho")


class Step(msgspec.Struct, frozen=True):
    """One model call: what it takes, and what it brings about."""

    read: float
    """Times what the prompt seems to weigh."""
    said: float
    """Of what it may say."""
    seconds: int
    sends: tuple[str, ...] = ()
    spawns: int = 0
    fails: bool = False


steps = st.builds(
    Step,
    read=st.floats(0.1, 3.0),
    said=st.floats(0.0, 1.0),
    seconds=st.integers(0, 40),
    sends=st.lists(st.sampled_from(OTHERS), max_size=2).map(tuple),
    spawns=st.integers(0, 2),
    fails=st.sampled_from([False] * 9 + [True]),
)


class Spender:
    """Takes the next step of the script with every call, from its beginning again at the end."""

    name = "spender"

    def __init__(self, script: list[Step]) -> None:
        self._script = script
        self._calls = 0
        self._under_way: dict[int, int] = {}
        """How much each call takes beyond what was reserved for it."""
        self.overdraft = 0
        """Of the calls under way when the last one began, and of that one."""

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        number, step = self._calls, self._script[self._calls % len(self._script)]
        self._calls += 1
        weight = weigh_request(request)
        usage = Usage(int(weight * step.read), int(request.output_tokens_max * step.said))
        self._under_way[number] = max(
            0, usage.prompt + usage.output - weight - request.output_tokens_max
        )
        self.overdraft = sum(self._under_way.values())
        try:
            await anyio.sleep(step.seconds)
        finally:
            del self._under_way[number]
        blocks = _blocks(step, number)
        calls = any(isinstance(block, ToolUse) for block in blocks)
        reason: Any = "error" if step.fails else "tool_use" if calls else "end_turn"
        return AssistantMessage(blocks, usage=usage, stop_reason=reason)

    async def close(self) -> None:
        pass


def _blocks(step: Step, number: int) -> list[AssistantBlock]:
    sends = [
        {"sessionKey": f"agent:{name}:main", "message": "go on", "timeoutSeconds": 50 * (at % 2)}
        for at, name in enumerate(step.sends)
    ]
    calls: list[AssistantBlock] = [
        *(ToolUse(f"s{number}-{at}", "sessions_send", each) for at, each in enumerate(sends)),
        *(
            ToolUse(f"c{number}-{at}", "sessions_spawn", {"task": f"{number}"})
            for at in range(step.spawns)
        ),
    ]
    return calls or [Text("done")]


def config_of(tokens: int, inner: int) -> Config:
    model = {"id": "test", "maxTokens": 400}
    agents = [{"id": "main"}, {"id": "ben"}, {"id": "cho", "budget": {"tokens": inner}}]
    raw = {
        "agents": {"defaults": {"budget": {"tokens": tokens}}, "list": agents},
        "models": {"providers": {"spender": {"models": [model]}}},
        "session": {"agentToAgent": {"maxPingPongTurns": 1, "maxHops": 3}},
    }
    return msgspec.convert(raw, Config)


async def _quiet(gateway: Gateway) -> None:
    """Until nothing is open any more."""
    for _ in range(2_000):
        if not await gateway.ledger.lanes_with_work():
            return
        await anyio.sleep(5)
    raise AssertionError("it never ends")


async def spend(script: list[Step], tokens: int, inner: int, crash_after_s: int | None) -> None:
    config, over = config_of(tokens, inner), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "gateway"
        model = Spender(script)
        async with open_gateway(folder, model, config=config) as gateway:
            await submit(gateway, SessionKey.main("main"), "begin", run_id=ROOT)
            if crash_after_s is None:
                await _quiet(gateway)
                await check(gateway, tokens, model.overdraft)
                return
            await anyio.sleep(crash_after_s)
            copy = copy_state(folder, Path(temporary) / "after the crash")
            over = await _overdrawn(gateway, tokens)
            await gateway.lanes.abort(ROOT, "this gateway has died")
        model = Spender(script)
        async with open_gateway(copy, model, config=config) as gateway:
            await _quiet(gateway)
            await check(gateway, tokens, max(over, model.overdraft))


async def _overdrawn(gateway: Gateway, tokens: int) -> int:
    account = await gateway.ledger.find_account(ROOT)
    return max(0, account.spent.tokens - tokens) if account else 0


async def check(gateway: Gateway, tokens: int, overdraft: int) -> None:
    account = await gateway.ledger.find_account(ROOT)
    assert account is not None
    assert account.reserved == Amount()
    assert account.spent.tokens <= tokens + overdraft


@pytest.mark.spec("B5")
@settings(max_examples=examples(13, 40), deadline=None)
@given(
    script=st.lists(steps, min_size=1, max_size=12),
    tokens=st.integers(1_000, 60_000),
    inner=st.integers(1_000, 60_000),
    crash_after_s=st.none() | st.integers(1, 120),
)
def test_no_tree_of_runs_spends_more_than_its_account(
    script: list[Step], tokens: int, inner: int, crash_after_s: int | None
) -> None:
    anyio.run(
        spend,
        script,
        tokens,
        inner,
        crash_after_s,
        backend="trio",
        backend_options={"clock": MockClock(autojump_threshold=0)},
    )

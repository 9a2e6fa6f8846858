"""A real small model on this machine: no key, no network, no double. Run by `make local-model`; not
part of `make test`, because its package has 200 MB. Here nothing is skipped: missing is failing."""

import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.errors import ContextOverflow, ProviderMissing
from crossclaw.domain.events import FeedEvent, ReplyPiece
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.providers.contract import ModelPiece, ModelRequest, TextPiece, ToolSpec, UserTurn
from crossclaw.providers.local import (
    OUTPUT_TOKENS_MAX,
    WINDOW_TOKENS,
    LocalProvider,
)
from tests.flows.talking import call, say
from tests.local_demo import WORDS

pytestmark = pytest.mark.timeout(900)  # a busy machine computes slowly


@pytest.fixture
def anyio_backend() -> str:
    """The model computes in threads and in real time."""
    return "asyncio"


def ask(text: str, **fields: object) -> ModelRequest:
    return ModelRequest(
        model="smollm2",
        system="You are brief.",
        turns=[UserTurn([], [Text(text)])],
        **{"output_tokens_max": 16, **fields},  # type: ignore[arg-type]
    )


async def test_it_streams_counts_and_stops_at_its_limit() -> None:
    provider = LocalProvider()
    told: list[ModelPiece] = []
    answer = await provider.complete(ask("Tell me a story about a crab."), told.append)
    again = await provider.complete(ask("Tell me a story about a crab."), told.append)
    await provider.close()
    words = [piece.text for piece in told if isinstance(piece, TextPiece)]
    assert len(words) > 4
    assert "".join(words) == answer.text + again.text
    assert answer.usage is not None
    assert answer.usage.prompt > 10
    assert 0 < answer.usage.output <= 16
    assert answer.usage.cost == 0.0
    assert again.usage is not None
    assert again.usage.cache_read > 0
    assert answer.stop_reason == "max_tokens"


async def test_at_its_own_limit_it_is_not_asked_to_go_on() -> None:
    provider = LocalProvider()
    long = ask("Count from one to one thousand.", output_tokens_max=OUTPUT_TOKENS_MAX + 1)
    answer = await provider.complete(long, lambda _piece: None)
    await provider.close()
    assert answer.usage is not None
    assert answer.usage.output <= OUTPUT_TOKENS_MAX
    assert answer.stop_reason == "end_turn"


async def test_it_calls_no_tools_and_is_told_so() -> None:
    provider = LocalProvider()
    tool = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})
    answer = await provider.complete(ask("Read a.md", tools=[tool]), lambda _piece: None)
    await provider.close()
    assert answer.tool_calls == []


async def test_what_does_not_fit_its_window_is_an_overflow() -> None:
    provider = LocalProvider()
    with pytest.raises(ContextOverflow):
        await provider.complete(ask("word " * (WINDOW_TOKENS + 1)), lambda _piece: None)
    await provider.close()


async def test_a_cancelled_call_ends_and_the_next_one_is_answered() -> None:
    provider = LocalProvider()
    with anyio.CancelScope() as scope:
        long = ask("Tell me a very long story.", output_tokens_max=OUTPUT_TOKENS_MAX)
        await provider.complete(long, lambda _piece: scope.cancel())
    assert scope.cancelled_caught
    assert (await provider.complete(ask("Say hi."), lambda _piece: None)).text
    await provider.close()


async def test_another_name_says_which_one_there_is() -> None:
    with pytest.raises(ProviderMissing, match="local/smollm2"):
        await LocalProvider().complete(
            msgspec.structs.replace(ask("hi"), model="gpt"), lambda _piece: None
        )


async def test_a_conversation_through_a_gateway_is_streamed_stored_and_remembered(
    tmp_path: Path,
) -> None:
    raw = {"agents": {"defaults": {"model": "local/smollm2"}}}
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    heard: list[FeedEvent] = []
    config = msgspec.convert(raw, Config)
    async with app.open_gateway(config, paths, app.GatewayInputs(environ={})) as gateway:
        gateway.feed.subscribe(heard.append)
        first = await say(gateway, "agent:main:main", "Hello, who are you?", "r1")
        second = await say(gateway, "agent:main:main", "Thank you.", "r2")
        history = await call(gateway, "chat.history", sessionKey="agent:main:main")
        entries = await gateway.ledger.list_entries(first.session_id, limit=9)
    assert (first.status, second.status) == ("ok", "ok")
    assert first.reply
    pieces = [event for event in heard if isinstance(event, ReplyPiece)]
    assert len([piece for piece in pieces if piece.run_id == "r1"]) > 1
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"] * 2
    answer = entries[1].message
    assert isinstance(answer, AssistantMessage)
    assert (answer.provider, answer.model) == ("local", "smollm2")
    assert answer.usage is not None
    assert answer.usage.output > 0


@pytest.mark.spec("M5", "M2")
def test_the_demo_talks_until_the_window_fills_and_the_history_stays_whole() -> None:
    """Compacted by the model itself, through the command line, as `make local-demo` shows it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.local_demo"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "older turns become a summary" in done.stderr
    assert f"{len(WORDS)} questions and {len(WORDS)} answers" in done.stdout

"""Outages: our clients on a real wire against a service that fails, with our retries around them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import anyio
import msgspec
import pytest

from crossclaw import app
from crossclaw.config import Config, Paths
from crossclaw.domain.errors import ContextOverflow, ProviderError, ProviderOverloaded
from crossclaw.domain.messages import AssistantBlock, Text, ToolUse
from crossclaw.providers.contract import CallRestarted, ModelPiece, Provider, TextPiece
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.providers.retry import Retrying, RetryLimits
from crossclaw.testing.fake_models import Broken, FakeModelServer, Refuse, ServerAnswer
from crossclaw.testing.fake_wires import Reply
from tests.contracts.test_providers import ask, ignore, make
from tests.flows.talking import call, say

SHORT = RetryLimits(wait_first_s=0.01)
BETTER = "Better now."


@pytest.fixture
def anyio_backend() -> str:
    """A real wire needs real time."""
    return "asyncio"


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with FakeModelServer(default=BETTER) as server:
        yield server


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def served_gateway(api: str, server: FakeModelServer, patience: RetryLimits = SHORT) -> Providers:
    """As a gateway makes them."""
    wire, url = {
        "anthropic": ("anthropic-messages", server.url),
        "openai": ("openai-completions", server.openai_url),
    }[api]
    settings = ProviderSettings(api, wire, url, "any-key")  # type: ignore[arg-type]
    return Providers({api: settings}, {}, patience=patience)


PASSING: list[ServerAnswer] = [
    Refuse("rate_limit"),
    Refuse("rate_limit", retry_after="0.02"),
    Refuse("overloaded"),
    Refuse("server_error"),
    Broken("cut", after=0),
    Broken("cut", after=4),
    Broken("malformed", after=1),  # valid so far, and not a word yet
    Broken("malformed", after=4),
    Broken("error_event", after=4),
]


@pytest.mark.parametrize("trouble", PASSING, ids=str)
async def test_a_trouble_that_passes_costs_one_more_call_and_is_told(
    api: str, server: FakeModelServer, trouble: ServerAnswer
) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(trouble)
    told: list[ModelPiece] = []
    answer = await provider.complete(ask(), told.append)
    await providers.close()
    assert answer.text == BETTER
    assert len(server.requests) == 2
    (again,) = [n for n, piece in enumerate(told) if isinstance(piece, CallRestarted)]
    words = "".join(piece.text for piece in told[again:] if isinstance(piece, TextPiece))
    assert words == BETTER


@pytest.mark.parametrize("trouble", PASSING, ids=str)
async def test_one_that_does_not_pass_ends_within_the_budget_of_calls(
    api: str, server: FakeModelServer, trouble: ServerAnswer
) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(*[trouble] * 20)
    with pytest.raises(ProviderError):
        await provider.complete(ask(), ignore)
    await providers.close()
    assert len(server.requests) == SHORT.attempts_max


async def test_a_service_that_asks_for_an_hour_is_not_asked_again(
    api: str, server: FakeModelServer
) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(Refuse("rate_limit", retry_after="3600"))
    with pytest.raises(ProviderOverloaded, match="3600 s"):
        await provider.complete(ask(), ignore)
    await providers.close()
    assert len(server.requests) == 1


async def test_a_line_that_falls_silent_is_left_and_opened_anew(
    api: str, server: FakeModelServer
) -> None:
    provider: Provider = Retrying(make(api, server, silence_timeout_s=0.2), SHORT)
    server.queue(Broken("silence", after=4, seconds=30))
    assert (await provider.complete(ask(), ignore)).text == BETTER
    await provider.close()


async def test_a_conversation_too_long_is_told_as_such_and_not_repeated(
    api: str, server: FakeModelServer
) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(Refuse("context_overflow"))
    with pytest.raises(ContextOverflow):
        await provider.complete(ask(), ignore)
    await providers.close()
    assert len(server.requests) == 1


async def test_an_empty_reply_is_an_answer(api: str, server: FakeModelServer) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(Reply([]))
    answer = await provider.complete(ask(), ignore)
    await providers.close()
    assert (answer.text, answer.tool_calls, answer.stop_reason) == ("", [], "end_turn")


async def test_tool_calls_side_by_side_survive_a_cut_and_come_once(
    api: str, server: FakeModelServer
) -> None:
    providers = served_gateway(api, server)
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    calls: list[AssistantBlock] = [
        Text("I look."), *(ToolUse(f"c{n}", "read", {"path": f"{n}.md"}) for n in range(3)),
    ]  # fmt: skip
    server.queue(Broken("cut", after=6, reply=Reply(calls)), calls)
    answer = await provider.complete(ask(), ignore)
    await providers.close()
    assert answer.blocks == calls


async def test_others_are_answered_while_one_waits(api: str, server: FakeModelServer) -> None:
    providers = served_gateway(api, server, RetryLimits(wait_first_s=60))
    provider, _ = providers.get(f"{api}/claude-opus-4-8")
    server.queue(Refuse("overloaded"))
    waits = anyio.Event()

    def hear(piece: ModelPiece) -> None:
        if isinstance(piece, CallRestarted):
            waits.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(provider.complete, ask(), hear)
        await waits.wait()
        for _call in range(5):
            assert (await provider.complete(ask(), ignore)).text == BETTER
        tasks.cancel_scope.cancel()
    await providers.close()


@pytest.mark.spec("M2")
@pytest.mark.parametrize("how", ["trickle", "silence"])
async def test_others_do_not_wait_for_a_run_on_a_dying_line_and_it_ends_when_it_is_stopped(
    api: str, server: FakeModelServer, tmp_path: Path, how: Literal["trickle", "silence"]
) -> None:
    """One byte a second, or none: through a whole gateway, in real time."""
    wire, url = {
        "anthropic": ("anthropic-messages", server.url),
        "openai": ("openai-completions", server.openai_url),
    }[api]
    entry = {"api": wire, "baseUrl": url}
    model = {"model": "own/claude-opus-4-8"}
    raw = {"agents": {"defaults": model}, "models": {"providers": {"own": entry}}}
    config = msgspec.convert(raw, Config)
    paths = Paths(tmp_path, tmp_path / "state", tmp_path / "openclaw.json")
    server.queue(Broken(how, seconds=1.0 if how == "trickle" else 60.0))
    async with app.open_gateway(config, paths, app.GatewayInputs(environ={})) as gateway:
        await call(
            gateway, "chat.send", sessionKey="agent:main:slow", message="hi", idempotencyKey="slow"
        )
        with anyio.fail_after(30):
            while not server.requests:  # noqa: ASYNC110  the server is a thread
                await anyio.sleep(0.01)
        others = [await say(gateway, f"agent:main:s{n}", "hi", f"r{n}") for n in range(5)]
        await call(gateway, "chat.abort", sessionKey="agent:main:slow")
        ended = await gateway.run_store.wait("slow", timeout_s=30)
    assert [run.reply for run in others] == [BETTER] * 5
    assert ended is not None
    assert ended.status == "aborted"
    assert len(server.requests) == 6

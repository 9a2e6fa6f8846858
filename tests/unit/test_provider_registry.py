"""Providers are found by name, made once, capped, and speak up when something is missing."""

import os
import subprocess
import sys

import anyio
import msgspec
import pytest

from crossclaw.config.providers import KNOWN_AT, Models, model_fault
from crossclaw.domain.errors import ProviderMissing, ProviderRefused
from crossclaw.domain.messages import AssistantMessage, Text, ToolUse
from crossclaw.providers.contract import ModelRequest, TellPiece, TextPiece, ToolPiece, UserTurn
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.testing.scripted import ScriptedProvider, ScriptExhausted

REQUEST = ModelRequest(model="m", system="", turns=[UserTurn([], [Text("hi")])])


def ignore(_piece: object) -> None:
    pass


def test_the_address_is_split_at_the_first_slash() -> None:
    local = ProviderSettings("local", "openai-completions", "http://127.0.0.1:1/v1")
    provider, model = Providers({"local": local}, {}).get("local/meta/llama-3")
    assert (provider.name, model) == ("local", "meta/llama-3")


def test_a_provider_is_made_once() -> None:
    providers = Providers({}, {"ANTHROPIC_API_KEY": "k"})
    assert providers.get("anthropic/a")[0] is providers.get("anthropic/b")[0]


def test_an_unknown_provider_names_the_known_ones_and_the_setting() -> None:
    with pytest.raises(ProviderMissing) as failure:
        Providers({}, {}).get("acme/model")
    for name in ("anthropic", "google", "local", "ollama", "openai", "openrouter", "rehearsal"):
        assert f" {name}," in str(failure.value)
    assert "models.providers.acme" in str(failure.value)


@pytest.mark.parametrize("address", ["claude", "/claude", "anthropic/"])
def test_an_address_without_both_halves_says_how_to_write_one(address: str) -> None:
    with pytest.raises(ProviderMissing, match="provider/model"):
        Providers({}, {}).get(address)


@pytest.mark.parametrize("name", sorted(KNOWN_AT))
async def test_a_service_of_openclaw_s_names_needs_only_its_key(name: str) -> None:
    assert model_fault(Models(), f"{name}/some/model") is None
    providers = Providers({}, {f"{name.upper()}_API_KEY": "k"})
    assert providers.key_fault(f"{name}/some/model") is None
    _provider, model = providers.get(f"{name}/some/model")
    assert (model, providers._base_url(name)) == ("some/model", KNOWN_AT[name])
    # Where onboard has written the same address, a key is needed all the same.
    written = ProviderSettings(name, base_url=KNOWN_AT[name])
    assert f"{name} needs a key" in str(Providers({name: written}, {}).key_fault(f"{name}/m"))
    await providers.close()


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_missing_key_says_where_it_goes(name: str) -> None:
    with pytest.raises(ProviderRefused) as failure:
        Providers({}, {}).get(f"{name}/model")
    assert f"{name.upper()}_API_KEY" in str(failure.value)
    assert f"models.providers.{name}.apiKey" in str(failure.value)


def test_a_server_of_ones_own_needs_no_key() -> None:
    Providers({}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}).get("openai/model")


async def test_at_most_so_many_calls_run_at_once() -> None:
    class Counting:
        name = "counting"
        now = peak = 0

        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            self.now += 1
            self.peak = max(self.peak, self.now)
            await anyio.sleep(0.001)
            self.now -= 1
            return AssistantMessage("done")

        async def close(self) -> None:
            pass

    counting = Counting()
    provider, _ = Providers({}, {}, extra={"x": counting}, calls_max=3).get("x/m")
    async with anyio.create_task_group() as tasks:
        for _call in range(10):
            tasks.start_soon(provider.complete, REQUEST, ignore)
    assert counting.peak == 3


async def test_calls_that_nobody_watches_leave_a_place_for_a_person() -> None:
    never, begun = anyio.Event(), list[str]()

    class Slow:
        name = "slow"

        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            begun.append("hook" if request.patient else "person")
            if request.patient:
                await never.wait()
            return AssistantMessage("done")

        async def close(self) -> None:
            pass

    provider, _ = Providers({}, {}, extra={"x": Slow()}, calls_max=3).get("x/m")
    unwatched = msgspec.structs.replace(REQUEST, patient=True)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _call in range(10):
                tasks.start_soon(provider.complete, unwatched, ignore)
            await anyio.wait_all_tasks_blocked()
            await provider.complete(REQUEST, ignore)
            tasks.cancel_scope.cancel()

    assert begun == ["hook", "hook", "person"]


async def test_calls_of_hooks_leave_places_for_jobs_and_agents() -> None:
    """However many there are, also of what hooks have brought about."""
    never, begun = anyio.Event(), list[str]()

    class Slow:
        name = "slow"

        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            begun.append("hook" if request.outside else "job")
            if request.outside:
                await never.wait()
            return AssistantMessage("done")

        async def close(self) -> None:
            pass

    provider, _ = Providers({}, {}, extra={"x": Slow()}, calls_max=8).get("x/m")
    job = msgspec.structs.replace(REQUEST, patient=True)
    of_hook = msgspec.structs.replace(job, outside=True)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _call in range(30):
                tasks.start_soon(provider.complete, of_hook, ignore)
            await anyio.wait_all_tasks_blocked()
            await provider.complete(job, ignore)
            tasks.cancel_scope.cancel()

    assert begun == ["hook"] * 3 + ["job"]


async def test_close_closes_all_and_a_provider_can_be_had_again() -> None:
    class Closing(ScriptedProvider):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    double = Closing(["one", "two"])
    providers = Providers({}, {}, extra={"x": double})
    assert (await providers.get("x/m")[0].complete(REQUEST, ignore)).text == "one"
    await providers.close()
    assert double.closed == 1
    assert (await providers.get("x/m")[0].complete(REQUEST, ignore)).text == "two"


async def test_a_scripted_provider_plays_its_lines_and_remembers_the_requests() -> None:
    call = ToolUse("c1", "read", {})
    script = ScriptedProvider(["a b", [call], lambda asked: asked.model, ProviderRefused("no")])
    pieces: list[object] = []
    assert (await script.complete(REQUEST, pieces.append)).text == "a b"
    assert (await script.complete(REQUEST, pieces.append)).stop_reason == "tool_use"
    assert pieces == [TextPiece("a "), TextPiece("b"), ToolPiece("c1", "read")]
    assert (await script.complete(REQUEST, ignore)).text == "m"
    with pytest.raises(ProviderRefused):
        await script.complete(REQUEST, ignore)
    with pytest.raises(ScriptExhausted, match="no answer left for request 5"):
        await script.complete(REQUEST, ignore)
    assert script.seen == [REQUEST] * 5


async def test_a_scripted_provider_may_answer_by_a_function() -> None:
    script = ScriptedProvider(lambda asked: f"{asked.model}!", delay_s=0.001)
    assert (await script.complete(REQUEST, ignore)).text == "m!"


LOADS = """
import sys, anyio
from crossclaw.providers.registry import ProviderSettings, Providers
providers = Providers({"own": ProviderSettings("own", base_url="http://127.0.0.1:1")}, {})
anyio.run(providers.load, sys.argv[1:])
print("httpx2" in sys.modules)
"""


@pytest.mark.parametrize(("models", "loaded"), [(["rehearsal/any", "nobody/any"], "False"), (["own/any"], "True")])  # fmt: skip
def test_what_a_first_call_needs_is_loaded_before_it_and_only_where_it_is_over_http(
    models: list[str], loaded: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS, *models], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == loaded


def test_certificates_that_are_not_there_keep_no_gateway_from_starting() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS, "own/any"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SSL_CERT_FILE": "/nonexistent.pem"},
    )
    assert done.stdout.strip() == "True"

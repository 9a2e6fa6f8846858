"""Retries, fallbacks and prices around any provider. Time is virtual."""

from collections.abc import Callable

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.providers import Models
from crossclaw.domain.errors import (
    ContextOverflow,
    ProviderError,
    ProviderMissing,
    ProviderOverloaded,
    ProviderRefused,
    RateLimited,
)
from crossclaw.domain.messages import AssistantMessage, Text, Thinking, Usage
from crossclaw.providers.contract import (
    AssistantTurn,
    CallRestarted,
    ModelPiece,
    ModelRequest,
    Provider,
    TellPiece,
    TextPiece,
    UserTurn,
)
from crossclaw.providers.fallback import REST_S, Choice, Fallbacks, ModelCooldowns
from crossclaw.providers.prices import Priced, Prices
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.providers.retry import RetryBudget, Retrying, RetryLimits
from crossclaw.testing.scripted import CutOff, ScriptedProvider

REQUEST = ModelRequest(model="m", system="", turns=[UserTurn([], [Text("hi")])])


def ignore(_piece: object) -> None:
    pass


def busy(retry_after_s: float | None = None) -> ProviderOverloaded:
    return ProviderOverloaded("too many requests", retry_after_s)


def retrying(provider: Provider, jitter: float = 0.0, **patience: float) -> Retrying:
    return Retrying(provider, msgspec.convert(patience, RetryLimits), lambda: jitter)


# Retries


async def test_the_log_says_in_words_why_a_call_is_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = ScriptedProvider([RateLimited("slow down", 1.0), busy(), "here"])
    await retrying(script).complete(REQUEST, ignore)
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition("(")[2].partition(")")[0] for text in told] == [
        *("rate limit", "overloaded or away")
    ]


def test_every_trouble_of_a_provider_has_words_of_its_own() -> None:
    kinds = [ProviderError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        assert kind is ProviderError or "in_short" in vars(kind), kind


async def test_a_trouble_that_passes_is_waited_out_longer_each_time() -> None:
    script = ScriptedProvider([busy(), busy(), busy(), "here I am"])
    told: list[ModelPiece] = []
    began_s = anyio.current_time()
    answer = await retrying(script, jitter=1.0).complete(REQUEST, told.append)
    assert answer.text == "here I am"
    assert anyio.current_time() - began_s == pytest.approx(1 + 2 + 4)
    waits = [piece.wait_s for piece in told if isinstance(piece, CallRestarted)]
    assert waits == [1.0, 2.0, 4.0]


async def test_jitter_spreads_the_waits() -> None:
    waits: set[float] = set()
    for jitter in (0.0, 0.3, 0.9):
        script = ScriptedProvider([busy(), "yes"])
        began_s = anyio.current_time()
        await retrying(script, jitter=jitter).complete(REQUEST, ignore)
        waits.add(round(anyio.current_time() - began_s, 3))
    assert waits == {0.5, 0.65, 0.95}


async def test_what_the_service_asks_for_is_honoured_and_never_undercut() -> None:
    script = ScriptedProvider([busy(7.0), "yes"])
    began_s = anyio.current_time()
    await retrying(script, jitter=0.0).complete(REQUEST, ignore)
    assert anyio.current_time() - began_s == pytest.approx(7.0)


async def test_a_wait_longer_than_our_patience_is_told_at_once() -> None:
    script = ScriptedProvider([busy(3_600.0)])
    began_s = anyio.current_time()
    with pytest.raises(ProviderOverloaded):
        await retrying(script).complete(REQUEST, ignore)
    assert anyio.current_time() == began_s


async def test_attempts_have_an_end() -> None:
    script = ScriptedProvider([busy()] * 9)
    with pytest.raises(ProviderOverloaded):
        await retrying(script).complete(REQUEST, ignore)
    assert script.left == 9 - RetryLimits().attempts_max


async def test_time_has_an_end_before_the_attempts() -> None:
    """A half-open line: each attempt takes a hundred seconds of silence."""
    script = ScriptedProvider([busy()] * 9, delay_s=100.0)
    with pytest.raises(ProviderOverloaded):
        await retrying(script).complete(REQUEST, ignore)
    assert len(script.seen) == 2


@pytest.mark.parametrize(
    "error",
    [
        ProviderRefused("no"),
        ProviderMissing("no"),
        ContextOverflow("too long"),
        ProviderError("no"),
        ValueError("a bug"),
    ],
)
async def test_what_does_not_pass_is_not_tried_again(error: Exception) -> None:
    script = ScriptedProvider([error, "never said"])
    with pytest.raises(type(error)):
        await retrying(script).complete(REQUEST, ignore)
    assert script.left == 1


@pytest.mark.parametrize("error", [busy(), ProviderError("malformed in the middle")])
async def test_an_answer_that_broke_off_is_asked_for_again(error: Exception) -> None:
    script = ScriptedProvider([CutOff("one two", error), "one two three"])
    told: list[ModelPiece] = []
    answer = await retrying(script).complete(REQUEST, told.append)
    assert answer.text == "one two three"
    broken = [n for n, piece in enumerate(told) if isinstance(piece, CallRestarted)]
    assert broken == [2]
    after = [piece.text for piece in told[3:] if isinstance(piece, TextPiece)]
    assert "".join(after) == "one two three"


async def test_a_long_rate_limit_is_waited_for_where_nobody_waits() -> None:
    limited = RateLimited("slow down", 200.0)
    script = ScriptedProvider([limited, "at last"])
    patient = msgspec.structs.replace(REQUEST, patient=True)
    began_s = anyio.current_time()
    assert (await retrying(script).complete(patient, ignore)).text == "at last"
    assert anyio.current_time() - began_s >= 200
    with pytest.raises(RateLimited):
        await retrying(ScriptedProvider([limited])).complete(REQUEST, ignore)
    endless = ScriptedProvider([RateLimited("slow down", 3_600.0)])
    with pytest.raises(RateLimited):
        await retrying(endless).complete(patient, ignore)


async def test_a_waiting_retry_can_be_cancelled() -> None:
    script = ScriptedProvider([busy(20.0), "never said"])
    with anyio.move_on_after(1.0) as scope:
        await retrying(script).complete(REQUEST, ignore)
    assert scope.cancelled_caught
    assert script.left == 1


async def test_an_outage_is_not_answered_with_a_storm() -> None:
    offered = 2_000
    script = ScriptedProvider(lambda _asked: busy())
    provider = retrying(script, jitter=1.0)

    async def one() -> None:
        with pytest.raises(ProviderOverloaded):
            await provider.complete(REQUEST, ignore)

    async with anyio.create_task_group() as tasks:
        for _call in range(offered):
            tasks.start_soon(one)
    assert len(script.seen) <= offered * (1 + RetryBudget.share) + RetryBudget.held_max + 10


async def test_after_an_outage_retries_come_back() -> None:
    budget = RetryBudget()
    now_s = anyio.current_time()
    while budget.take(now_s):
        pass
    assert not budget.take(now_s)
    assert budget.take(now_s + 1 / budget.a_second)


async def test_waiting_retries_take_no_place_under_the_cap() -> None:
    script = ScriptedProvider([busy(20.0), "quick", "late"], name="x")
    provider, _ = Providers({}, {}, extra={"x": script}, calls_max=1).get("x/m")
    said: list[str] = []

    async def one() -> None:
        said.append((await provider.complete(REQUEST, ignore)).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await anyio.sleep(1)
        tasks.start_soon(one)
    assert said == ["quick", "late"]


# Fallbacks


def several(*scripts: ScriptedProvider) -> Callable[[str], tuple[Provider, str]]:
    return Providers({}, {}, extra={script.name: script for script in scripts}).get


CHOICES = [Choice("first/a", 100), Choice("second/b", 200)]


async def test_the_next_model_answers_when_the_first_cannot() -> None:
    first = ScriptedProvider([ProviderRefused("no credit")], name="first")
    second = ScriptedProvider(["I can"], name="second")
    told: list[ModelPiece] = []
    answer = await Fallbacks(several(first, second), CHOICES, ModelCooldowns()).complete(
        REQUEST, told.append
    )
    assert (answer.text, answer.provider, answer.model) == ("I can", "second", "b")
    assert told[0] == CallRestarted("no credit", model="second/b")
    assert second.seen[0].output_tokens_max == 200


async def test_a_run_that_moved_on_stays_and_later_runs_do_not_wait_for_the_failed_one() -> None:
    first = ScriptedProvider([ProviderRefused("no"), "back again"], name="first")
    second = ScriptedProvider(["one", "two", "three"], name="second")
    find, rests = several(first, second), ModelCooldowns()
    run = Fallbacks(find, CHOICES, rests)
    assert (await run.complete(REQUEST, ignore)).text == "one"
    assert (await run.complete(REQUEST, ignore)).text == "two"
    assert (await Fallbacks(find, CHOICES, rests).complete(REQUEST, ignore)).text == "three"
    await anyio.sleep(REST_S)
    assert (await Fallbacks(find, CHOICES, rests).complete(REQUEST, ignore)).text == "back again"


async def test_when_all_fail_each_is_named_with_its_reason() -> None:
    first = ScriptedProvider([ProviderRefused("bad key")], name="first")
    second = ScriptedProvider([busy(90.0)], name="second")
    with pytest.raises(ProviderOverloaded) as failure:
        await Fallbacks(several(first, second), CHOICES, ModelCooldowns()).complete(REQUEST, ignore)
    assert "first/a: bad key; second/b: too many requests" in str(failure.value)
    assert failure.value.retry_after_s == 90.0


async def test_a_conversation_too_long_is_no_reason_for_another_model() -> None:
    first = ScriptedProvider([ContextOverflow("too long")], name="first")
    second = ScriptedProvider([], name="second")
    with pytest.raises(ContextOverflow):
        await Fallbacks(several(first, second), CHOICES, ModelCooldowns()).complete(REQUEST, ignore)


async def test_thoughts_of_one_model_are_not_shown_to_another() -> None:
    thought = AssistantTurn([Thinking("hm", signature="sealed"), Text("so")])
    turns = [*REQUEST.turns, thought, *REQUEST.turns]
    first = ScriptedProvider([ProviderRefused("no")], name="first")
    second = ScriptedProvider(["I can"], name="second")
    request = msgspec.structs.replace(REQUEST, turns=turns)
    await Fallbacks(several(first, second), CHOICES, ModelCooldowns()).complete(request, ignore)
    assert first.seen[0].turns[1] == thought
    assert second.seen[0].turns[1] == AssistantTurn([Text("so")])


async def test_a_first_choice_that_is_not_configured_falls_back_too() -> None:
    second = ScriptedProvider(["I can"], name="second")
    run = Fallbacks(several(second), CHOICES, ModelCooldowns())
    assert (await run.complete(REQUEST, ignore)).text == "I can"


# Prices and caps


def priced(usage: Usage | None, models: Models, name: str = "openai", model: str = "m") -> Priced:
    message = AssistantMessage("hi", model=model, usage=usage)
    return Priced(ScriptedProvider([message], name=name), None, Prices(models))


MODELS = msgspec.convert(
    {
        "models": {
            "providers": {
                "openai": {
                    "models": [
                        {"id": "m", "cost": {"input": 1, "output": 2, "cacheRead": 4}},
                        {"id": "free", "cost": {}},
                    ]
                }
            }
        }
    },
    Config,
).models


async def test_the_price_of_the_config_comes_first() -> None:
    usage = Usage(input=1_000_000, output=500_000, cache_read=250_000)
    answer = await priced(usage, MODELS).complete(REQUEST, ignore)
    assert answer.usage is not None
    assert answer.usage.cost == pytest.approx(1 + 1 + 1)


async def test_a_model_that_costs_nothing_has_a_cost_of_nothing() -> None:
    request = msgspec.structs.replace(REQUEST, model="free")
    answer = await priced(Usage(input=9), MODELS).complete(request, ignore)
    assert answer.usage == Usage(input=9, cost=0.0)


async def test_without_usage_there_is_no_cost() -> None:
    assert (await priced(None, MODELS).complete(REQUEST, ignore)).usage is None


class TestTables:
    @pytest.fixture
    def anyio_backend(self) -> str:
        """The tables are loaded in a thread."""
        return "asyncio"

    async def test_then_the_tables_of_the_package(self) -> None:
        usage = Usage(input=600, output=100, cache_read=300, cache_write=100)
        prices = Prices(Models())
        cost = await prices.cost("anthropic", None, "claude-opus-4-5", usage)
        assert cost == pytest.approx(0.006275)

    @pytest.mark.parametrize(
        ("provider", "base_url", "model"),
        [
            ("anthropic", None, "no-such-model"),
            ("acme", None, "claude-opus-4-5"),
            ("openai", "http://127.0.0.1:8080/v1", "gpt-4o"),
        ],
    )
    async def test_what_is_not_listed_has_no_cost(
        self, provider: str, base_url: str | None, model: str
    ) -> None:
        prices = Prices(Models())
        for _again in range(2):
            assert await prices.cost(provider, base_url, model, Usage(input=9)) is None


async def test_the_cap_of_a_provider_is_its_own_setting() -> None:
    class Counting:
        name = "x"
        now = peak = 0

        async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
            self.now += 1
            self.peak = max(self.peak, self.now)
            await anyio.sleep(1)
            self.now -= 1
            return AssistantMessage("done")

        async def close(self) -> None:
            pass

    settings = ProviderSettings("x", "openai-completions", "http://127.0.0.1:1", calls_max=2)
    counting = Counting()
    provider, _ = Providers({"x": settings}, {}, extra={"x": counting}).get("x/m")
    async with anyio.create_task_group() as tasks:
        for _call in range(5):
            tasks.start_soon(provider.complete, REQUEST, ignore)
    assert counting.peak == 2

"""models.test and models.key.set: whether a model answers, and its key, which goes to `credentials/` and never comes back.
Ours: OpenClaw has none."""

from collections.abc import Callable
from typing import Annotated

import anyio
import anyio.to_thread
import msgspec

from crossclaw.config.paths import Paths
from crossclaw.config.profiles import keep_key
from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.secret import Secret
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.providers.contract import ModelRequest, Piece, UserTurn
from crossclaw.providers.registry import Providers

TEST_S = 60.0  # a model that thinks takes half of it
TEST_TOKENS = 64
REPLY_CHARS = 300
QUESTION = "Are you there? Answer in one short sentence."

WithKey = Callable[[str, Secret], Providers]
"""A provider as the config has it, with another key."""
ProviderName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
KeyText = Annotated[str, msgspec.Meta(min_length=8, max_length=4_096, pattern=r"^[\x21-\x7e]+$")]


class TestModelParams(Params, frozen=True):
    model: Filled
    """`provider/model`."""
    key: KeyText | None = None
    """Tried in place of the one that is kept, and not kept."""


class TestModelResult(Result, frozen=True):
    ok: bool
    model: str
    text: str
    """What it said, or why it did not."""
    took_ms: int
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class SetKeyParams(Params, frozen=True):
    provider: ProviderName
    key: KeyText


class SetKeyResult(Result, frozen=True):
    ok: bool
    provider: str
    restart: str
    """When it counts."""


class ModelTrials:
    def __init__(self, providers: Providers, with_key: WithKey, paths: Paths, clock: Clock) -> None:
        self._providers = providers
        self._with_key = with_key
        self._paths = paths
        self._clock = clock

    @method(
        "models.test",
        "operator.admin",
        "run",
        "Ours: one real call to a model; says what came back, or why nothing did.",
    )
    async def test(self, caller: Caller, params: TestModelParams) -> TestModelResult:
        if "/" not in params.model:
            raise Invalid("a model is named as provider/model")
        began = self._clock.now_ms()
        try:
            if params.key is None:
                answer = await _ask(self._providers, params.model)
            else:
                providers = self._with_key(params.model.partition("/")[0], Secret(params.key))
                try:
                    answer = await _ask(providers, params.model)
                finally:
                    with anyio.CancelScope(shield=True):
                        await providers.close()
        except TimeoutError:
            return self._failed(params.model, f"no answer within {TEST_S:g} s", began)
        except CrossclawError as error:
            return self._failed(params.model, str(error), began)
        usage = answer.usage
        return TestModelResult(
            ok=True,
            model=params.model,
            text=" ".join(answer.text.split())[:REPLY_CHARS],
            took_ms=self._clock.now_ms() - began,
            input_tokens=usage.prompt if usage else 0,
            output_tokens=usage.output if usage else 0,
            cost_usd=usage.cost if usage else None,
        )

    def _failed(self, model: str, why: str, began: int) -> TestModelResult:
        took = self._clock.now_ms() - began
        return TestModelResult(ok=False, model=model, text=why[:REPLY_CHARS], took_ms=took)

    @method(
        "models.key.set",
        "operator.admin",
        "change",
        "Ours: keep the key of a model service in credentials/, for the gateway alone.",
    )
    async def set_key(self, caller: Caller, params: SetKeyParams) -> SetKeyResult:
        """Written, never shown: no method answers a key."""
        key = Secret(params.key)
        await anyio.to_thread.run_sync(keep_key, self._paths.state_dir, params.provider, key)
        return SetKeyResult(
            ok=True,
            provider=params.provider,
            restart="it counts when the gateway opens again: with the next change of the config, or its restart",
        )


async def _ask(providers: Providers, model: str) -> AssistantMessage:
    provider, name = providers.get(model)
    request = ModelRequest(
        model=name,
        system="",
        turns=[UserTurn([], [Text(QUESTION)])],
        output_tokens_max=TEST_TOKENS,
    )
    with anyio.fail_after(TEST_S):
        return await provider.complete(request, _quietly)


def _quietly(_piece: Piece) -> None:
    """The whole answer is shown at once."""

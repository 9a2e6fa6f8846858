"""models.test, models.key.set|remove and models.service.set: whether a model answers; its key, which goes to `credentials/` and
never comes back; where it is reached. Ours: OpenClaw has none."""

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import anyio
import msgspec

from crossclaw.config.changing import ConfigChanges
from crossclaw.config.file import ConfigFile
from crossclaw.config.providers import BUILT_IN, ProviderEntry
from crossclaw.domain.aliases import Filled, KeyPath
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.domain.messages import AssistantMessage, Text
from crossclaw.domain.secret import Secret
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.providers.contract import ModelPiece, ModelRequest, UserTurn
from crossclaw.providers.registry import Api, Providers

TEST_S = 60.0  # a model that thinks takes half of it
TEST_TOKENS = 64
REPLY_CHARS = 300
AT_ONCE = "from the next call on"
WHEN_IDLE = "when no run is under way"
QUESTION = "Are you there? Answer in one short sentence."

Trial = Callable[[str, Secret | None, str | None, str | None], Providers]
"""Makes a provider as the config has it, with another key, or at another address."""


class KeyKeeper(Protocol):
    """The store of keys that were given over the wire."""

    def renew(self, provider: str) -> None:
        """Makes the stored key count from the next call on."""
        ...

    async def keep(self, provider: str, key: Secret, base_url: str | None) -> None: ...

    async def forget(self, provider: str) -> bool:
        """Removes a provider's key; returns whether there was one."""
        ...


ServiceUrl = Annotated[
    str, msgspec.Meta(pattern=r"^https?://[^\s@/]+(/[^\s@?#]*)?$", max_length=1_000)
]
ProviderName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
KeyText = Annotated[str, msgspec.Meta(min_length=8, max_length=4_096, pattern=r"^[\x21-\x7e]+$")]


class TestModelParams(Params, frozen=True):
    model: Filled
    """`provider/model`."""
    key: KeyText | None = None
    """Tried in place of the one that is kept, and not kept."""
    base_url: ServiceUrl | None = None
    """Tried in place of the service's own address. No key goes there but the one that is given with it."""
    api: Api | None = None
    """The protocol that is spoken there."""


class TestModelResult(Result, frozen=True):
    ok: bool
    model: str
    text: str
    """The model's answer, or why there was none."""
    took_ms: int
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class SetKeyParams(Params, frozen=True):
    provider: ProviderName
    key: KeyText


class SetServiceParams(Params, frozen=True):
    provider: ProviderName
    base_url: ServiceUrl
    api: Api | None = None
    key: KeyText | None = None
    """A key to keep for this address alone. Keys that were given for another one are not used here."""


class SetKeyResult(Result, frozen=True):
    ok: bool
    provider: str
    counts: str
    """The time from which the change takes effect."""


class RemoveKeyParams(Params, frozen=True):
    provider: ProviderName


class RemoveKeyResult(Result, frozen=True):
    ok: bool
    provider: str
    removed: bool
    """Whether there was one."""


class ModelTrials:
    def __init__(
        self,
        providers: Providers,
        trial: Trial,
        keys: KeyKeeper,
        changes: ConfigChanges,
        clock: Clock,
    ) -> None:
        self._providers = providers
        self._trial = trial
        self._keys = keys
        self._config_changes = changes
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
            answer = await self._answer(params)
        except TimeoutError:
            return self._failed(params.model, f"no answer within {TEST_S:g} s", began)
        except CrossclawError as error:
            return self._failed(params.model, str(error), began)
        return self._answered(params.model, answer, began)

    async def _answer(self, params: TestModelParams) -> AssistantMessage:
        """Asks the model, through the services as they are set up or through one that is made for this call."""
        if params.key is None and params.base_url is None:
            return await _ask(self._providers, params.model)
        key = Secret(params.key) if params.key is not None else None
        name = params.model.partition("/")[0]
        providers = self._trial(name, key, params.base_url, params.api)
        try:
            return await _ask(providers, params.model)
        finally:
            with anyio.CancelScope(shield=True):
                await providers.close()

    def _answered(self, model: str, answer: AssistantMessage, began: int) -> TestModelResult:
        usage = answer.usage
        return TestModelResult(
            ok=True,
            model=model,
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
        """Stores a key. It is never shown: no method returns a key."""
        if params.provider not in self._providers.names:
            raise Invalid(
                f"there is no model service {params.provider!r}: give its address too, as a new service"
            )
        written = await self._written(params.provider)
        await self._keys.keep(params.provider, Secret(params.key), written.get("baseUrl"))
        self._keys.renew(params.provider)
        return SetKeyResult(ok=True, provider=params.provider, counts=AT_ONCE)

    @method(
        "models.key.remove",
        "operator.admin",
        "change",
        "Ours: forget the key of a model service that was given over the wire; keys in the config and the environment stay.",
    )
    async def remove_key(self, caller: Caller, params: RemoveKeyParams) -> RemoveKeyResult:
        removed = await self._keys.forget(params.provider)
        if params.provider in self._providers.names:
            self._keys.renew(params.provider)
        return RemoveKeyResult(ok=True, provider=params.provider, removed=removed)

    @method(
        "models.service.set",
        "operator.admin",
        "change",
        "Ours: where a model service is reached, and its key for that address.",
    )
    async def set_service(self, caller: Caller, params: SetServiceParams) -> SetKeyResult:
        """Writes the address to the config, by the rules of every change over the wire. Keys that were given
        for another address are not used there."""
        if params.provider in BUILT_IN - {"ollama"}:
            raise Invalid(
                f"{params.provider} has an address of its own: give your service another name"
            )
        if params.key is not None:
            await self._keys.keep(params.provider, Secret(params.key), params.base_url)
        if await self._set_address(params):
            return SetKeyResult(ok=True, provider=params.provider, counts=WHEN_IDLE)
        self._keys.renew(params.provider)
        return SetKeyResult(ok=True, provider=params.provider, counts=AT_ONCE)

    async def _set_address(self, params: SetServiceParams) -> bool:
        """Stores the address; True if it changed."""
        path: KeyPath = ("models", "providers", params.provider)
        before = await self._written(params.provider)
        entry = before | {"baseUrl": params.base_url} | ({"api": params.api} if params.api else {})
        if entry == before:
            return False
        await self._config_changes.change(lambda file: _put(file, path, entry))
        return True

    async def _written(self, provider: str) -> dict[str, Any]:
        """What the file says of the service, without its secrets."""
        found = (await self._config_changes.read()).models.providers.get(provider, ProviderEntry())
        known = {"baseUrl": found.base_url, "api": found.api}
        return {name: value for name, value in known.items() if value}


def _put(file: ConfigFile, path: KeyPath, entry: dict[str, Any]) -> None:
    if not file.has(path):
        file.put(path, entry)
    for name, value in entry.items():
        file.put((*path, name), value)


async def _ask(providers: Providers, model: str) -> AssistantMessage:
    provider, name = providers.get(model)
    request = ModelRequest(
        model=name,
        system="",
        turns=[UserTurn([], [Text(QUESTION)])],
        output_tokens_max=TEST_TOKENS,
    )
    with anyio.fail_after(TEST_S):
        return await provider.complete(request, _ignore)


def _ignore(_piece: ModelPiece) -> None:
    """Leaves out the pieces of an answer that streams in: the whole of it is returned at its end."""

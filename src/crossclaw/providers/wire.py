"""The base of providers that are reached over HTTP. How requests and answers are written is up to
each of them."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from crossclaw.domain.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    ToolUse,
    Usage,
)
from crossclaw.domain.models import ModelFacts
from crossclaw.providers.calls import OwnIds
from crossclaw.providers.contract import LostSpending, ModelRequest, TellPiece
from crossclaw.providers.failures import Failures
from crossclaw.providers.options import DEFAULTS, ModelOptions, WireOptions, with_params
from crossclaw.providers.service import (
    RETRIES,
    SILENCE_S,
    AnswerBuilder,
    CallLimits,
    ModelService,
    clean_key,
    host_of,
)


class WireAnswer(AnswerBuilder):
    """An answer under construction."""

    def __init__(self, request: ModelRequest) -> None:
        self._ids = OwnIds(request)

    @property
    @abstractmethod
    def blocks(self) -> list[AssistantBlock]: ...

    @property
    @abstractmethod
    def stop(self) -> StopReason:
        """Why the model stopped, apart from calls."""

    @property
    def declined(self) -> str | None:
        """Why the service or its model will not answer; empty if it does not say."""
        return None

    def end(self) -> None:
        """Does nothing: most APIs have an end of their own."""

    def message(self, provider: str, model: str) -> AssistantMessage:
        """The finished message. Several servers report the end of the turn even after tool calls;
        then the reason is corrected."""
        blocks, stop = self.blocks, self.stop
        if stop == "end_turn" and any(isinstance(block, ToolUse) for block in blocks):
            stop = "tool_use"
        return AssistantMessage(blocks, 0, provider, model, self.usage, stop)


class WireProvider(ABC):
    """One provider at one address with one key."""

    wire: ClassVar[str]
    """The name of the API, for people."""
    official: ClassVar[str]
    """The address unless the config says otherwise."""
    path: ClassVar[str] = ""
    answer: ClassVar[type[WireAnswer]]
    in_lines: ClassVar[bool] = False
    """Whether it streams one JSON a line instead of server-sent events."""

    def __init__(
        self,
        name: str,
        base_url: str | None,
        api_key: str,
        *,
        retries: int = RETRIES,
        silence_timeout_s: float = SILENCE_S,
        options: WireOptions = DEFAULTS,
    ) -> None:
        self.name = name
        self._options = options
        self._base_url = self._address((base_url or self.official).rstrip("/"))
        key = clean_key(name, api_key)
        self._failures = Failures(name, host_of(name, self._base_url), self.wire, key)
        self._service = ModelService(
            self._failures,
            f"{self._base_url}{self.path}",
            self._headers(key),
            CallLimits(retries, silence_s=silence_timeout_s, timeout_s=options.timeout_s),
        )

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        options, facts = self._options.of(request.model), self._options.facts(request.model)
        params, answer = self._params(request, facts, options), self.answer(request)
        params = self._with_own(params, options.params | request.params)
        await self._service.ask(
            params,
            answer,
            tell,
            headers=options.headers,
            url=self._url(request),
            in_lines=self.in_lines,
        )
        if (why := answer.declined) is not None:
            tell(LostSpending(answer.usage or Usage()))
            raise self._failures.declined(why)
        return answer.message(self.name, request.model)

    async def close(self) -> None:
        await self._service.close()

    @abstractmethod
    def _params(
        self, request: ModelRequest, facts: ModelFacts, options: ModelOptions
    ) -> dict[str, Any]:
        """The body of a request."""

    def _with_own(self, params: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """The body of a request with the config's own fields."""
        return with_params(params, own)

    def _address(self, base_url: str) -> str:
        """The base URL, corrected: people write addresses in several ways."""
        return base_url

    def _headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def _url(self, request: ModelRequest) -> str | None:
        """The URL of a request, if it depends on that."""
        return None

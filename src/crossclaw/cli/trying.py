"""Trying a model: its list, and one real call, with the answer, its time and its cost. Nothing is stored."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import msgspec

from crossclaw.cli.offers import ServiceOffer
from crossclaw.display.languages import tr
from crossclaw.domain.errors import ProviderError
from crossclaw.domain.messages import Text
from crossclaw.providers.contract import ModelPiece, ModelRequest, UserTurn
from crossclaw.providers.registry import Providers, ProviderSettings
from crossclaw.providers.retry import RetryLimits

TRY_S = 90.0  # a large local model is read from the disk first
LIST_S = 10.0
ANSWER_TOKENS = 64  # a sentence; some models think first, and get room for that beside it
REPLY_CHARS = 200
ONCE = RetryLimits(attempts_max=1)


class TrialResult(NamedTuple):
    ok: bool
    text: str
    """The model's answer, or why there was none."""
    took_s: float = 0.0
    input: int = 0
    output: int = 0
    cost: float | None = None


async def list_names(offer: ServiceOffer, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The models that the service lists; none if it does not say. Raises if it refuses the key."""
    async with _providers(offer, environ) as providers:
        with anyio.move_on_after(LIST_S):
            return tuple(each.id for each in await providers.list_models(offer.provider))
    return ()


async def try_model(offer: ServiceOffer, model: str, environ: Mapping[str, str]) -> TrialResult:
    async with _providers(offer, environ) as providers:
        began = anyio.current_time()
        try:
            with anyio.fail_after(TRY_S):
                provider, name = providers.get(f"{offer.provider}/{model}")
                answer = await provider.complete(_request(name), _ignore)
        except TimeoutError:
            return TrialResult(False, tr("no answer within {seconds} s").format(seconds=int(TRY_S)))
        except ProviderError as error:
            return TrialResult(False, str(error))
        said = " ".join(answer.text.split())[:REPLY_CHARS]
        usage = answer.usage
        return TrialResult(
            True,
            said,
            anyio.current_time() - began,
            usage.prompt if usage else 0,
            usage.output if usage else 0,
            0.0 if offer.is_local else usage.cost if usage else None,
        )


@asynccontextmanager
async def _providers(offer: ServiceOffer, environ: Mapping[str, str]) -> AsyncIterator[Providers]:
    """Providers with this one alone, with the key that was just given and no other."""
    settings = msgspec.convert(
        {
            "name": offer.provider,
            "api": offer.api,
            "base_url": offer.base_url,
            "api_key": offer.key.reveal() if offer.key else None,
        },
        ProviderSettings,
    )
    providers = Providers({offer.provider: settings}, environ, patience=ONCE)
    try:
        yield providers
    finally:
        await providers.close()


def _request(model: str) -> ModelRequest:
    question = tr("Are you there? Answer in one short sentence.")
    return ModelRequest(
        model=model,
        system="",
        turns=[UserTurn([], [Text(question)])],
        output_tokens_max=ANSWER_TOKENS,
    )


def _ignore(_piece: ModelPiece) -> None:
    """Leaves out the pieces of an answer that streams in: the whole of it is shown at its end."""

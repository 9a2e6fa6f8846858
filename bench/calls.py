"""One call of a model over HTTP: our client, beside the official SDK asking the same server the same.

The SDK builds a typed object of every chunk, which is what its users get from it.
"""

from collections.abc import Awaitable, Callable

import anyio
import openai

from bench.served import instant_model_url
from bench.stores import Stores
from bench.work import Base, Reference, Row, Spent, Stopwatch, Work
from crossclaw.domain.messages import Text
from crossclaw.providers.contract import ModelPiece, ModelRequest, UserTurn
from crossclaw.providers.openai import OpenAIProvider, completion_params

CALLS, CALLS_TO_WARM_UP = 300, 20
REQUEST = ModelRequest("instant", "You are a gateway.", [UserTurn([], [Text("How is the day?")])])

Call = Callable[[], Awaitable[object]]


async def _timed(call: Call) -> Spent:
    for _ in range(CALLS_TO_WARM_UP):
        await call()
    watch = Stopwatch()
    for _ in range(CALLS):
        with watch.piece():
            await call()
    return watch.stop()


async def _ours(url: str) -> Spent:
    provider = OpenAIProvider("bench", url, "none")
    spent = await _timed(lambda: provider.complete(REQUEST, _ignore))
    await provider.close()
    return spent


async def _official(url: str) -> Spent:
    params = completion_params(REQUEST)

    async def call() -> None:
        async for _chunk in await client.chat.completions.create(**params):
            pass

    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
        return await _timed(call)


def _ignore(_piece: ModelPiece) -> None:
    pass


def calls(_stores: Stores) -> Spent:
    with instant_model_url() as url:
        return anyio.run(_ours, url)


def _official_calls(_stores: Stores) -> Base:
    with instant_model_url() as url:
        spent = anyio.run(_official, url)
    return Base(spent.figures["median"], spent.cpu_ms)


WORKS = (
    Work(
        calls,
        Reference("official SDK", _official_calls),
        (Row("providers: one call over HTTP", "median", "ms"),),
    ),
)

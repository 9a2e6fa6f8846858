"""Clients of a gateway in this process: they open it, send messages, and wait for the answers.

Imports nothing of the benchmarks, so that a process that is to be weighed carries only the gateway.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import anyio
import msgspec

from crossclaw.app import Gateway, GatewayInputs, open_gateway
from crossclaw.config import Config, Paths
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.tools import ToolDeclaration
from crossclaw.testing import submit
from crossclaw.tools.contract import Tool, ToolContext

PLAIN = "say: It is a fine day for a walk."
WITH_TOOL = 'tool: echo {"text": "hello"}\nthen:\nsay: It answered.'

Timed = Callable[[], AbstractContextManager[None]]
"""A context around each turn, which times it."""


class EchoParams(msgspec.Struct):
    text: str


class Echo(Tool[EchoParams]):
    declared = ToolDeclaration(name="echo", group="other", effect="pure", children=True)
    description = "Says the text again."
    params = EchoParams

    async def call(self, context: ToolContext, params: EchoParams) -> str:
        return params.text


@asynccontextmanager
async def opened(paths: Paths) -> AsyncGenerator[Gateway]:
    """An open gateway. Without keys in the environment everybody's model is the scripted one."""
    async with open_gateway(Config(), paths, GatewayInputs(environ={}, tools=(Echo(),))) as gateway:
        yield gateway


async def turn(gateway: Gateway, key: SessionKey, text: str) -> None:
    submitted = await submit(gateway, key, text)
    run = await gateway.run_store.wait(submitted.run_id)
    if run is None or run.status != "ok":
        raise RuntimeError(f"a turn failed, and none may: {run}")


def keys(count: int) -> list[SessionKey]:
    return [SessionKey.named("main", f"bench{number}") for number in range(count)]


async def talk(
    gateway: Gateway,
    sessions: Sequence[SessionKey],
    turns_each: int,
    text: str,
    timed: Timed = nullcontext,
) -> None:
    """Talks in all sessions at once; each takes its next turn when it has its answer."""

    async def talk_in(key: SessionKey) -> None:
        for _ in range(turns_each):
            with timed():
                await turn(gateway, key, text)

    async with anyio.create_task_group() as tasks:
        for key in sessions:
            tasks.start_soon(talk_in, key)

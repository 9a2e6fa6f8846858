"""Requests under one Idempotency-Key: the same one again is the same run, whatever has begun since; another is refused."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest

from crossclaw.domain.events import ReplyPiece
from crossclaw.domain.keys import SessionKey
from crossclaw.gateway.http import following
from crossclaw.testing.fake_models import Broken, FakeModelServer, FakeRequest
from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway
from tests.wire.test_openai import behind, client, sessions

KEY = {"Idempotency-Key": "k1"}
ALONE = [{"role": "user", "content": "say: once"}]
HISTORY = [
    {"role": "user", "content": "my name is Ana"},
    {"role": "assistant", "content": "hello Ana"},
    *ALONE,
]
WAYS = ["chat", "responses"]


def ask(asking: openai.AsyncOpenAI, way: str, messages: list[Any], **more: Any) -> Any:
    """A request under the key, by either interface."""
    create: Any = {
        "chat": partial(asking.chat.completions.create, messages=messages),
        "responses": partial(asking.responses.create, input=messages),
    }[way]
    return create(model="openclaw", extra_headers=KEY, **more)


def text_of(answer: Any) -> str:
    return str(getattr(answer, "output_text", "") or answer.choices[0].message.content)


async def streamed_text(stream: Any, way: str) -> str:
    if way == "chat":
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    return "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])


async def user_words(served_gateway: ServedGateway) -> list[list[str]]:
    """What was said by users, a list for each session."""
    rows = await sessions(served_gateway)
    return [[m["content"] for m in row["messages"] if m["role"] == "user"] for row in rows]


@pytest.mark.spec("G3")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("messages", [ALONE, HISTORY], ids=["alone", "with a history"])
@pytest.mark.parametrize("user", [{}, {"user": "ana"}], ids=["nobody", "ana"])
async def test_a_repeated_request_is_one_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    messages: list[Any],
    user: dict[str, str],
) -> None:
    monkeypatch.setattr(following, "LOOK_AGAIN_S", 3600)  # nobody waits to see that it has ended
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        first, second = [await ask(asking, way, messages, **user) for _ in range(2)]
        again = await streamed_text(await ask(asking, way, messages, stream=True, **user), way)
        (said,) = await user_words(served_gateway)

    assert first.id == second.id
    assert text_of(first) == text_of(second) == again == "once"
    assert len(said) == 1
    assert ("my name is Ana" in said[0]) == (messages is HISTORY)


@pytest.mark.spec("G3")
@pytest.mark.parametrize("way", WAYS)
async def test_a_request_that_is_repeated_while_its_run_is_under_way_gets_that_runs_reply(
    tmp_path: Path, way: str
) -> None:
    asked, answer = threading.Event(), threading.Event()
    replies: list[str] = []

    def slow(_asked: FakeRequest) -> str:
        asked.set()
        answer.wait(60)
        return "once and for all"

    with FakeModelServer([slow]) as server:
        async with (
            serve_gateway(tmp_path, **behind(server)) as served_gateway,
            client(served_gateway) as asking,
        ):

            async def hear() -> None:
                replies.append(text_of(await ask(asking, way, HISTORY)))

            async with anyio.create_task_group() as leaving:
                leaving.start_soon(hear)
                await anyio.to_thread.run_sync(asked.wait, 60)
                leaving.cancel_scope.cancel()  # as a client does whose patience is over
            async with anyio.create_task_group() as coming_back:
                coming_back.start_soon(hear)
                stream = await ask(asking, way, HISTORY, stream=True)  # it has begun to answer
                answer.set()
                replies.append(await streamed_text(stream, way))
            (said,) = await user_words(served_gateway)

    assert replies == ["once and for all"] * 2
    assert len(server.requests) == len(said) == 1


@pytest.mark.spec("G3")
async def test_a_stream_that_was_cut_in_the_middle_of_the_words_is_repeated_from_their_beginning(
    tmp_path: Path,
) -> None:
    again = threading.Event()

    def rest(_asked: FakeRequest) -> str:
        again.wait(60)
        return "one two three four five"

    with FakeModelServer([Broken("cut", after=4), rest]) as server:
        async with (
            serve_gateway(tmp_path, **behind(server)) as served_gateway,
            client(served_gateway) as asking,
        ):
            first = await ask(asking, "chat", HISTORY, stream=True)
            async for chunk in first:
                if chunk.choices[0].delta.content:
                    break
            await first.close()
            second = await ask(asking, "chat", HISTORY, stream=True)
            again.set()
            words = await streamed_text(second, "chat")
            (said,) = await user_words(served_gateway)

    assert words == "one two three four five"
    assert len(said) == 1


async def test_who_begins_to_listen_in_the_middle_of_a_turn_gets_it_from_its_beginning() -> None:
    late = following.Following()
    late.on_event(ReplyPiece("k1", SessionKey.main("main"), " two", "one two"))

    assert await late.next() == "one two"


@pytest.mark.spec("G3")
@pytest.mark.parametrize("way", WAYS)
async def test_the_librarys_own_retry_with_a_history_is_one_run(tmp_path: Path, way: str) -> None:
    """It gives up, and sends the same body and the same headers again."""
    sent: list[bytes] = []
    answer = threading.Event()

    async def count(request: Any) -> None:
        sent.append(request.content)
        if len(sent) > 2:  # it has given up twice
            answer.set()

    def slow(_asked: FakeRequest) -> str:
        answer.wait(60)
        return "once and for all"

    with FakeModelServer([slow]) as server:
        async with (
            serve_gateway(tmp_path, **behind(server)) as served_gateway,
            openai.AsyncOpenAI(
                base_url=f"{served_gateway.url}/v1",
                api_key=TOKEN,
                max_retries=100,
                http_client=openai.DefaultAsyncHttpxClient(event_hooks={"request": [count]}),
            ) as asking,
        ):
            reply = text_of(await ask(asking, way, HISTORY, timeout=1.0))

    assert reply == "once and for all"
    assert len(sent) > 2
    assert set(sent) == {sent[0]}
    assert len(server.requests) == 1


@pytest.mark.spec("G3")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "other",
    [
        [*HISTORY[:-1], {"role": "user", "content": "say: twice"}],
        [{"role": "user", "content": "my name is Bob"}, *HISTORY[1:]],
        ALONE,
    ],
    ids=["other words", "another history", "no history"],
)
async def test_a_key_that_is_used_for_something_else_is_refused(
    tmp_path: Path, way: str, other: list[Any]
) -> None:
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        await ask(asking, way, HISTORY)
        for stream in (False, True):
            with pytest.raises(
                openai.BadRequestError, match="idempotency key was used for another"
            ):
                await ask(asking, way, other, stream=stream)
        assert [len(said) for said in await user_words(served_gateway)] == [1]

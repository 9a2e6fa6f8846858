"""Agents behind OpenAI's interface, asked by its own client library."""

import base64
import threading
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from crossclaw.domain.errors import Busy, StoreError
from crossclaw.domain.secret import Secret
from crossclaw.gateway.http.openai import HttpRunFailed, failed
from crossclaw.testing.fake_models import Broken, FakeModelServer, FakeRequest
from tests.stores import look_into
from tests.wire.served_gateway import TOKEN, ServedGateway, serve_gateway

TWO: dict[str, Any] = {"agents": {"list": [{"id": "main"}, {"id": "helper"}]}}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def client(served_gateway: ServedGateway, token: str = TOKEN) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{served_gateway.url}/v1", api_key=token, max_retries=0)


async def sessions(served_gateway: ServedGateway) -> list[dict[str, Any]]:
    body = {"tool": "sessions_list", "args": {"messageLimit": 9}}
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http:
        answer = await http.post(f"{served_gateway.url}/tools/invoke", json=body)
    listed: list[dict[str, Any]] = answer.json()["result"]["details"]["sessions"]
    return listed


@pytest.mark.spec("G3")
async def test_a_chat_is_answered_plain_and_streamed(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        plain = await asking.chat.completions.create(
            model="openclaw/main",
            messages=[
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "say: good day"},
            ],
        )
        stream = await asking.chat.completions.create(
            model="openclaw/main",
            messages=[{"role": "user", "content": "say: one two three"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]

    assert plain.choices[0].message.content == "good day"
    assert (plain.choices[0].finish_reason, plain.object) == ("stop", "chat.completion")
    assert plain.usage is not None
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens > 0
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two three"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None


@pytest.mark.spec("G3")
async def test_a_response_is_given_plain_and_streamed(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        plain = await asking.responses.create(model="openclaw/main", input="say: good day")
        stream = await asking.responses.create(
            model="openclaw/main",
            instructions="be brief",
            input=[{"role": "user", "content": [{"type": "input_text", "text": "say: one two"}]}],
            stream=True,
        )
        events = [event async for event in stream]

    assert (plain.status, plain.output_text) == ("completed", "good day")
    kinds = list(dict.fromkeys(event.type for event in events))
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "one two"
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    ("model", "headers", "user", "key"),
    [
        ("openclaw:helper", {}, "ana", "agent:helper:openai-user:ana"),
        ("openclaw/helper", {}, "ana", "agent:helper:openai-user:ana"),
        ("agent:helper", {}, "a:b c", "agent:helper:openai-user:a-b-c"),
        ("gpt-5", {}, "ana", "agent:main:openai-user:ana"),
        ("openclaw", {"x-openclaw-agent-id": "helper"}, "ana", "agent:helper:openai-user:ana"),
        ("openclaw", {"x-openclaw-session-key": "agent:helper:x"}, "ana", "agent:helper:x"),
    ],
)
async def test_model_user_and_headers_choose_agent_and_session(
    tmp_path: Path, model: str, headers: dict[str, str], user: str, key: str
) -> None:
    async with serve_gateway(tmp_path, **TWO) as served_gateway, client(served_gateway) as asking:
        for _ in range(2):
            await asking.chat.completions.create(
                model=model,
                user=user,
                messages=[{"role": "user", "content": "say: hi"}],
                extra_headers=headers,
            )
        found = [row for row in await sessions(served_gateway) if row["key"] == key]

    assert len(found[0]["messages"]) == 4


@pytest.mark.spec("G3")
async def test_a_session_that_is_new_is_told_what_was_said_before(tmp_path: Path) -> None:
    def history(words: str) -> Any:
        return [
            {"role": "user", "content": "my name is Ana"},
            {"role": "assistant", "content": "hello Ana"},
            {"role": "user", "content": words},
        ]

    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        for words in ("say: one", "say: two"):
            await asking.chat.completions.create(
                model="openclaw", user="ana", messages=history(words)
            )
        rows = await sessions(served_gateway)
    said = [m["content"] for row in rows for m in row["messages"] if m["role"] == "user"]

    assert "user: my name is Ana\nassistant: hello Ana\n\nsay: one" in said[0]
    assert said[1] == "say: two"


@pytest.mark.spec("G3")
async def test_a_response_goes_on_from_the_one_before(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        first = await asking.responses.create(model="openclaw", input="say: one")
        await asking.responses.create(
            model="openclaw", input="say: two", previous_response_id=first.id
        )
        rows = await sessions(served_gateway)
        with pytest.raises(openai.BadRequestError, match="none of ours"):
            await asking.responses.create(
                model="openclaw", input="say: x", previous_response_id="abc"
            )

    assert [len(row["messages"]) for row in rows] == [4]


@pytest.mark.spec("G3")
async def test_pictures_come_inside_the_request_only(tmp_path: Path) -> None:
    def look(url: str) -> Any:
        parts = [
            {"type": "text", "text": "say: a dot"},
            {"type": "image_url", "image_url": {"url": url}},
        ]
        return [{"role": "user", "content": parts}]

    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        seen = await asking.chat.completions.create(
            model="openclaw", messages=look(f"data:image/png;base64,{DOT}")
        )
        with pytest.raises(openai.BadRequestError, match="not fetched"):
            await asking.chat.completions.create(
                model="openclaw", messages=look("http://127.0.0.1/secret.png")
            )

    assert seen.choices[0].message.content == "a dot"


@pytest.mark.spec("G3")
async def test_files_come_inside_the_request_only(tmp_path: Path) -> None:
    text = base64.b64encode(b"Flour and water").decode()
    known = {"type": "file", "file": {"filename": "a.txt", "file_data": text}}
    unknown = {"type": "file", "file": {"file_id": "file-123"}}
    item = {
        "type": "input_file",
        "filename": "a.txt",
        "file_data": f"data:text/plain;base64,{text}",
    }
    ask = {"type": "text", "text": "say: read"}
    asked: Any = [{"role": "user", "content": [{"type": "input_text", "text": "say: so"}, item]}]
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        read: Any = [{"role": "user", "content": [ask, known]}]
        said = await asking.chat.completions.create(model="openclaw", messages=read)
        response = await asking.responses.create(model="openclaw", input=asked)
        lost: Any = [{"role": "user", "content": [ask, unknown]}]
        with pytest.raises(openai.BadRequestError, match="file_data"):
            await asking.chat.completions.create(model="openclaw", messages=lost)
        rows = await sessions(served_gateway)

    assert "Flour and water" in (said.choices[0].message.content or "")
    assert "Flour and water" in response.output_text
    shown = str([row["messages"][0]["content"] for row in rows])
    assert shown.count("'title': 'a.txt'") == 2, shown


@pytest.mark.spec("G3", "K3")
async def test_the_agent_of_a_new_session_is_the_one_its_key_names(tmp_path: Path) -> None:
    job, hello = {"x-openclaw-session-key": "agent:helper:cron:x"}, "say: hi"
    async with serve_gateway(tmp_path, **TWO) as served_gateway, client(served_gateway) as asking:
        words: Any = [{"role": "user", "content": hello}]
        with pytest.raises(
            openai.BadRequestError, match="belongs to agent helper, not to agent main"
        ):
            await asking.chat.completions.create(
                model="openclaw/main", messages=words, extra_headers=job
            )
        await asking.chat.completions.create(model="openclaw", messages=words, extra_headers=job)
        (row,) = await sessions(served_gateway)

    assert row["key"] == "cron:x"
    assert "/helper/" in row["transcriptPath"]


@pytest.mark.spec("G3", "P1")
async def test_a_request_may_choose_among_the_allowed_models_and_no_others(tmp_path: Path) -> None:
    allowed: dict[str, Any] = {"agents": {"defaults": {"models": {"rehearsal/other": {}}}}}
    async with (
        serve_gateway(tmp_path, **allowed) as served_gateway,
        client(served_gateway) as asking,
    ):
        hello: Any = [{"role": "user", "content": "say: hi"}]
        with pytest.raises(openai.PermissionDeniedError, match="model not allowed: rehearsal/dear"):
            await asking.chat.completions.create(
                model="openclaw",
                messages=hello,
                extra_headers={"x-openclaw-model": "rehearsal/dear"},
            )
        assert await sessions(served_gateway) == []
        await asking.chat.completions.create(
            model="openclaw", messages=hello, extra_headers={"x-openclaw-model": "rehearsal/other"}
        )
        (row,) = await sessions(served_gateway)

    assert row["messages"][-1]["model"] == "other"


@pytest.mark.spec("G3")
async def test_what_cannot_be_answered_says_why(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        hello: Any = [{"role": "user", "content": "say: hi"}]
        with pytest.raises(openai.NotFoundError, match="openclaw/main"):
            await asking.chat.completions.create(model="openclaw/nobody", messages=hello)
        with pytest.raises(openai.BadRequestError, match="last message"):
            await asking.chat.completions.create(
                model="openclaw", messages=[{"role": "assistant", "content": "hm"}]
            )
        with pytest.raises(openai.InternalServerError, match="no light"):
            await asking.chat.completions.create(
                model="openclaw", messages=[{"role": "user", "content": "fail: no light"}]
            )
        stream = await asking.chat.completions.create(
            model="openclaw",
            messages=[{"role": "user", "content": "fail: no light"}],
            stream=True,
        )
        with pytest.raises(openai.APIError, match="no light"):
            _ = [chunk async for chunk in stream]
        response = await asking.responses.create(
            model="openclaw", input="fail: no light", stream=True
        )
        kinds = [event.type async for event in response]
        async with client(served_gateway, "wrong") as stranger:
            with pytest.raises(openai.AuthenticationError):
                await stranger.chat.completions.create(model="openclaw", messages=hello)

    assert kinds[-1] == "response.failed"


@pytest.mark.spec("G3")
@pytest.mark.parametrize("way", ["chat", "responses"])
async def test_a_run_that_failed_is_not_run_again_by_the_library(tmp_path: Path, way: str) -> None:
    words = "fail: no service"
    messages: Any = [{"role": "user", "content": words}]
    async with serve_gateway(tmp_path) as served_gateway:
        base = f"{served_gateway.url}/v1"
        async with openai.AsyncOpenAI(base_url=base, api_key=TOKEN) as asking:
            assert asking.max_retries == 2  # as everybody has it
            ask: Any = {
                "chat": partial(asking.chat.completions.create, messages=messages),
                "responses": partial(asking.responses.create, input=words),
            }[way]
            with pytest.raises(openai.InternalServerError, match="no service") as told:
                await ask(model="openclaw")
        rows = await sessions(served_gateway)

    assert told.value.response.headers["x-should-retry"] == "false"
    assert len(rows) == 1


def test_only_what_was_refused_before_a_run_began_may_be_asked_again() -> None:
    begun = HttpRunFailed()
    begun.__cause__ = Busy("the gateway is full")

    assert "x-should-retry" not in failed(Busy("the gateway is full")).headers
    assert failed(begun).status_code == failed(Busy("")).status_code == 503
    for error in (begun, StoreError("the disk is full"), KeyError("nobody foresaw this")):
        assert failed(error).headers["x-should-retry"] == "false"


@pytest.mark.spec("G3")
async def test_the_agents_are_the_models(tmp_path: Path) -> None:
    async with serve_gateway(tmp_path, **TWO) as served_gateway, client(served_gateway) as asking:
        names = [model.id async for model in asking.models.list()]

    assert names == ["openclaw", "openclaw/main", "openclaw/helper"]


@pytest.mark.spec("G3")
async def test_metrics_count_what_happened(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        for words in ("say: hi", "say: ho"):
            await asking.responses.create(model="openclaw", input=words)
        async with httpx2.AsyncClient() as http:
            stranger = await http.get(f"{served_gateway.url}/metrics")
            answer = await http.get(f"{served_gateway.url}/metrics", headers=headers)

    assert stranger.status_code == 401
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert "crossclaw_runs_accepted_total 2.0" in lines
    assert 'crossclaw_runs_ended_total{kind="agent",standing="ok",status="ok"} 2.0' in lines
    assert any(line.startswith("crossclaw_sessions ") for line in lines)


async def test_metrics_count_rows_that_cannot_be_read(tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with serve_gateway(tmp_path) as served_gateway, client(served_gateway) as asking:
        await asking.responses.create(model="openclaw", input="say: hi")
        async with httpx2.AsyncClient() as http:
            before = await http.get(f"{served_gateway.url}/metrics", headers=headers)
            (store,) = tmp_path.rglob("crossclaw.sqlite")  # noqa: ASYNC240  a few files
            db = look_into(store)
            db.execute("UPDATE sessions SET display_name = CAST(X'ff' AS TEXT)")
            db.close()
            shown = await sessions(served_gateway)
            after = await http.get(f"{served_gateway.url}/metrics", headers=headers)

    assert 'crossclaw_unreadable_rows_total{table="sessions"}' not in before.text
    assert all(row["unreadable"] for row in shown)
    assert 'crossclaw_unreadable_rows_total{table="sessions"}' in after.text


@pytest.mark.spec("G3")
async def test_both_ways_can_be_turned_off(tmp_path: Path) -> None:
    off = {"chatCompletions": {"enabled": False}, "responses": {"enabled": False}}
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        serve_gateway(tmp_path, gateway={"http": {"endpoints": off}}) as served_gateway,
        httpx2.AsyncClient(headers=headers) as http,
    ):
        statuses = [
            (await http.post(f"{served_gateway.url}/v1/{path}", json={})).status_code
            for path in ("chat/completions", "responses")
        ]

    assert statuses == [404, 404]


def behind(server: FakeModelServer) -> dict[str, Any]:
    provider = {
        "api": "openai-completions",
        "baseUrl": server.openai_url,
        "apiKey": Secret("any"),
        "models": [{"id": "m", "name": "M"}],
    }
    return {
        "agents": {"defaults": {"model": "fake/m"}},
        "models": {"providers": {"fake": provider}},
    }


@pytest.mark.spec("G3")
async def test_a_stream_that_the_model_began_anew_says_nothing_twice(tmp_path: Path) -> None:
    heard = threading.Event()

    def again(_asked: FakeRequest) -> str:
        heard.wait(60)
        return "one two three four five"

    with FakeModelServer([Broken("cut", after=4), again]) as server:
        async with (
            serve_gateway(tmp_path, **behind(server)) as served_gateway,
            client(served_gateway) as asking,
        ):
            stream = await asking.chat.completions.create(
                model="openclaw", messages=[{"role": "user", "content": "count"}], stream=True
            )
            words = []
            async for chunk in stream:
                words.append(chunk.choices[0].delta.content or "")
                if any(words):
                    heard.set()

    assert len(server.requests) == 2
    assert "".join(words) == "one two three four five"


@pytest.mark.spec("G3")
async def test_a_stream_whose_words_do_not_hold_any_more_ends_with_an_error(tmp_path: Path) -> None:
    heard = threading.Event()

    def otherwise(_asked: FakeRequest) -> str:
        heard.wait(60)
        return "eins zwei drei"

    async def listen(stream: openai.AsyncStream[Any], sign: str) -> list[Any]:
        events = []
        async for event in stream:
            events.append(event)
            if sign in event.to_json():
                heard.set()
        return events

    cut = Broken("cut", after=4)
    with FakeModelServer([cut, otherwise, cut, otherwise]) as server:
        async with (
            serve_gateway(tmp_path, **behind(server)) as served_gateway,
            client(served_gateway) as asking,
        ):
            chat = await asking.chat.completions.create(
                model="openclaw", messages=[{"role": "user", "content": "count"}], stream=True
            )
            with pytest.raises(openai.APIError, match="says something else"):
                await listen(chat, "one")
            heard.clear()
            told = await asking.responses.create(model="openclaw", input="count", stream=True)
            last = (await listen(told, "one"))[-1]

    assert last.type == "response.failed"
    assert "says something else" in last.response.error.message

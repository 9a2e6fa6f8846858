"""Every route over HTTP: bodies and headers that it may take, nearly may take, and may not take."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.gateway.http.openai_chat import ChatCompletionRequest
from crossclaw.gateway.http.openai_responses import ResponsesRequest
from crossclaw.tools.contract import Tool
from tests.hostile.making import Maker, anything, spoilt, words
from tests.hostile.test_methods import KEYS, ONLY, POOL
from tests.hostile.watched import (
    HIDDEN,
    HIDDEN_WORDS,
    HOOK_TOKEN,
    NEVER,
    PATIENCE_S,
    STATE,
    Visitor,
    Watched,
    beside_a_gateway,
    hostile,
    watched_gateway,
)
from tests.wire.served_gateway import TOKEN, open_with_server

CHAT = "agent:main:chat"  # in a sandbox: only there may anybody write or run what a machine made up
_MAKER = Maker(
    {
        **POOL,
        "url": ["http://127.0.0.1:1/", "http://[", "file:///etc/passwd", "http://localhost", "gopher://x", "x"],
        "path": ["AGENTS.md", "a.txt", ".", "..", "/etc/passwd", "a/b", "\x00", "é" * 300, ""],
        "command": ["true", "exit 3", "echo hi", "\x00", "", "cat /etc/shadow", "printf '\\377'", "ulimit -a"],
        "role": ["user", "system", "assistant", "tool", "developer", "nobody"],
        "type": ["text", "image_url", "input_text", "message", "nothing"],
        "content": ["hello", "say: Hi.", "fail: no luck", "", [{"type": "text", "text": "hi"}]],
        "input": ["hello", "say: Hi.", "", [{"role": "user", "content": "hi"}], [{"type": "message"}]],
        "previous_response_id": ["resp_x", "resp_x_y", "", "resp__", "resp_main_x"],
    },
    {**ONLY, "timeout": [1, 0, None], "url": ["http://127.0.0.1:1/", "http://[", "file:///x", "x", ""]},
)  # fmt: skip
_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "idempotency-key": words,
        "x-openclaw-session-key": st.sampled_from([*KEYS, "", "x" * 600, "agent:nobody:x"]),
        "x-openclaw-agent-id": st.sampled_from(["main", "helper", "nobody", " ", "é"]),
        "content-type": st.sampled_from(["application/json", "text/plain", "application/json; charset=x"]),
        "accept": st.sampled_from(["*/*", "application/json, text/event-stream", "", "x"]),
    },
)  # fmt: skip


pytestmark = beside_a_gateway


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool[Any]]:
    async def known(folder: Path) -> dict[str, Tool[Any]]:
        async with open_with_server(folder) as (gateway, _server):
            return dict(gateway.toolsets.known)

    return anyio.run(known, tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched_gateway(tmp_path_factory.mktemp("gateway")) as watched:
        person = Visitor(watched.served_gateway)
        for key in ("main", CHAT, HIDDEN):
            send = {"sessionKey": key, "message": "hello", "idempotencyKey": key}
            assert person.ask("chat.send", send)[0]["ok"]
        person.close()
        yield watched


@pytest.fixture
def http(gateway: Watched) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=gateway.served_gateway.url, timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.spec("G3", "G5", "B3")
def test_whatever_is_posted_is_answered_in_words_and_a_refusal_changes_nothing(
    gateway: Watched, http: httpx2.Client, tools: dict[str, Tool[Any]]
) -> None:
    makers = [invocations(tools), mcp_calls(tools), hooks(), questions()]
    posted(gateway, http, "/health", b"", {}, "GET")
    gateway.wait_for_rest()
    before = gateway.held()

    @hostile(70)
    @given(st.data())
    def posting(data: st.DataObject) -> None:
        path, body = data.draw(data.draw(st.sampled_from(makers)))
        raw = data.draw(st.just(encoded(body)) | st.sampled_from(_NO_BODIES), label="raw")
        posted(gateway, http, path, raw, data.draw(_HEADERS))

    posting()
    gateway.wait_for_rest()
    gateway.check_held(before)


_NO_BODIES = [
    b"", b"{", b"null", b"[]", b'{"tool":"x"}x', b"\xff\xfe", b'"\xff"', b"[" * 100_000, b'{"a":' * 5_000,
    b'{"tool":1e999}', b'{"tool":"a","tool":"read"}', b"\xef\xbb\xbf{}", b"{}" + b" " * 1000, b"NaN",
]  # fmt: skip


def encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def invocations(tools: dict[str, Tool[Any]]) -> Any:
    def call(name: str) -> Any:
        arguments = _MAKER.nearly(tools[name].params) if name in tools else anything
        risky = name in ("exec", "write", "edit", "read")
        keys = [CHAT] if risky else [*KEYS, CHAT, "", "nope", "agent:nobody:main"]
        body = st.fixed_dictionaries(
            {"tool": st.just(name), "args": arguments, "sessionKey": st.sampled_from(keys)}
        )
        # Where the arguments may be dangerous, nothing of the envelope is spoilt: it says the sandbox.
        return body if risky else st.builds(spoilt, body, st.lists(_changes, max_size=1))

    names = st.sampled_from([*sorted(tools), "nope", "", "chat.send", "tool.sessions_list"])
    return names.flatmap(call).map(lambda body: ("/tools/invoke", body))


_changes = st.tuples(st.integers(0, 8), st.sampled_from(["replace", "drop", "add"]), anything)


def mcp_calls(tools: dict[str, Tool[Any]]) -> Any:
    names = [*sorted(tools), "sessions_wait", "sessions_reply", "nope"]

    def call(name: str) -> Any:
        arguments = _MAKER.nearly(tools[name].params) if name in tools else anything
        if name == "sessions_wait":  # it waits, where nobody says how long
            arguments = st.fixed_dictionaries(
                {"timeoutSeconds": st.sampled_from([0, -1, "x", 0.01])}
            )
        params = st.fixed_dictionaries({"name": st.just(name), "arguments": arguments})
        return st.fixed_dictionaries(
            {
                "jsonrpc": st.sampled_from(["2.0", "2.0", "1.0"]),
                "id": st.sampled_from([1, "x", None, 1.5, 2**70]),
                "method": st.sampled_from(["tools/call", "tools/call", "tools/list", "initialize", "nope"]),
                "params": params | anything,
            }
        )  # fmt: skip

    paths = st.sampled_from(["/mcp?name=guest", "/mcp", "/mcp?name=", "/mcp?name=a%20b", "/mcp?name=%F0%9F%A7%A8"])  # fmt: skip
    return st.tuples(paths, st.sampled_from(names).flatmap(call))


def hooks() -> Any:
    fields = st.fixed_dictionaries(
        {},
        optional={
            "text": words,
            "message": words,
            "mode": words,
            "name": words,
            "sessionKey": st.sampled_from([*KEYS, "hook:y", "x"]) | words,
            "agentId": st.sampled_from(["main", "helper", "nobody"]) | words,
            "wakeMode": words,
            "deliver": st.booleans(),
            "channel": st.sampled_from(["last", "telegram", "webchat"]) | words,
            "to": words,
            "model": words,
            "thinking": words,
            "timeoutSeconds": anything,
            "idempotencyKey": words,
        },
    )
    paths = ["/hooks/wake", "/hooks/agent", "/hooks/nope", "/hooks/", "/hooks/agent/"]
    return st.tuples(
        st.sampled_from(paths), st.builds(spoilt, fields, st.lists(_changes, max_size=1))
    )


def questions() -> Any:
    chat = st.tuples(st.just("/v1/chat/completions"), _MAKER.nearly(ChatCompletionRequest))
    answers = st.tuples(st.just("/v1/responses"), _MAKER.nearly(ResponsesRequest))
    return chat | answers


def posted(
    gateway: Watched,
    http: httpx2.Client,
    path: str,
    raw: bytes,
    headers: dict[str, str],
    method: str = "POST",
) -> None:
    gateway.wait_for_rest()
    before = gateway.rows()
    token = HOOK_TOKEN if path.startswith("/hooks") else TOKEN
    sent = {"authorization": f"Bearer {token}", "content-type": "application/json", **headers}
    try:
        fields = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        request = http.build_request(method, path, content=raw, headers=fields)
        answer = http.send(request)
    except (UnicodeEncodeError, httpx2.LocalProtocolError):
        return  # what no client can send
    text = answer.content.decode()
    what = (path, raw[:300], headers, answer.status_code, text[:600])
    assert not any(each in text for each in NEVER), what
    assert answer.status_code < 400 or STATE not in text, what
    assert answer.status_code < 500 or "no luck" in text, what  # the model's, not ours
    assert text.strip() or answer.status_code in (202, 204, 431), what
    if HIDDEN_WORDS.encode() not in raw and CHAT.encode() in raw and "/tools/" in path:
        assert HIDDEN_WORDS not in text, what  # a session in a sandbox hears of no other
    assert gateway.complaints() == [], what
    if 400 <= answer.status_code < 500 and gateway.rows() != before:
        gateway.check_unchanged(lambda: http.send(request))
    assert gateway.serves()


_paths = st.lists(
    st.sampled_from(["/", "static", "app.js", "..", ".", "%2e", "%00", "é", "a", "?", "#", "//", "index.html", "x" * 3000]),
    max_size=5,
).map("".join)  # fmt: skip


@pytest.mark.spec("G3")
def test_whatever_page_is_asked_for_is_there_or_is_not(
    gateway: Watched, http: httpx2.Client
) -> None:
    @hostile(30, 2_000)
    @given(_paths, st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE", "PATCH"]))
    def asking(path: str, method: str) -> None:
        try:
            answer = http.request(method, "/" + path)
        except httpx2.InvalidURL:
            return  # what no client can ask for
        assert answer.status_code in (200, 304, 400, 401, 404, 405, 415, 431), (
            method,
            path,
            answer,
        )
        assert "root:" not in answer.text
        assert gateway.complaints() == [], (method, path)

    asking()
    assert gateway.serves()

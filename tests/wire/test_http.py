"""HTTP on the same port, spoken by hand."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.config.gateway import ControlUi, GatewayConfig
from crossclaw.domain.errors import Invalid
from crossclaw.door.principal import Principal
from crossclaw.gateway.http.page import page_endpoints
from crossclaw.gateway.http.tools import tools_invoke
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.tools.invoke import ToolNotAvailable
from tests.wire.serving import TOKEN, Served, open_server

BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Answer:
    def __init__(self, raw: bytes) -> None:
        head, _, self.body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1]) if lines[0] else 0
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:])
        }

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def talk(served: Served, raw: bytes, timeout_s: float = 5) -> Answer:
    """What comes back for these very bytes, until the other side closes."""
    received = b""
    async with await anyio.connect_tcp("127.0.0.1", served.port) as stream:
        await stream.send(raw)
        with anyio.move_on_after(timeout_s):
            try:
                while True:
                    received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
    return Answer(received)


async def http(
    served: Served,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    all_headers = {
        "Host": f"127.0.0.1:{served.port}",
        "Connection": "close",
        **({"Content-Type": "application/json"} if body is not None else {}),
        **({"Content-Length": str(len(data))} if body is not None else {}),
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return await talk(served, f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data)


Invoke = Callable[[Principal, str, dict[str, Any], str], Awaitable[Any]]


async def invoke(principal: Principal, tool: str, args: dict[str, Any], session: str) -> Any:
    match tool:
        case "sessions_list":
            return {"count": 0, "args": args, "session": session, "who": principal.name}
        case "words":
            return "just words"
        case "refusing":
            raise Invalid("limit must be a number")
        case "broken":
            raise KeyError("a secret word")
        case _:
            raise ToolNotAvailable(tool)


@pytest.mark.spec("G3")
async def test_health_says_only_that_it_lives() -> None:
    async with open_server() as served:
        answer = await http(served, "GET", "/health")

    assert (answer.status, answer.json) == (200, {"ok": True})
    assert "server" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.spec("G3")
async def test_a_tool_is_invoked() -> None:
    async with open_server(endpoints=[tools_invoke(invoke)]) as served:
        plain = await http(
            served,
            "POST",
            "/tools/invoke",
            {"tool": "sessions_list", "args": {"limit": 1}, "action": "x", "dryRun": True},
            BEARER,
        )
        named = await http(
            served, "POST", "/tools/invoke", {"tool": "words", "sessionKey": "agent:main:x"}, BEARER
        )

    result = plain.json["result"]
    assert (plain.status, plain.json["ok"]) == (200, True)
    assert result["details"] == {
        "count": 0,
        "args": {"limit": 1, "action": "x"},
        "session": "main",
        "who": "http:gateway",
    }
    assert json.loads(result["content"][0]["text"]) == result["details"]
    assert named.json["result"]["content"] == [{"type": "text", "text": "just words"}]


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [
        (
            {"tool": "nope"},
            404,
            {"ok": False, "error": {"type": "not_found", "message": "Tool not available: nope"}},
        ),
        (
            {"tool": "refusing"},
            400,
            {"ok": False, "error": {"type": "tool_error", "message": "limit must be a number"}},
        ),
        ({"tool": "broken"}, 500, None),
        ({"tool": " "}, 400, None),
        ({"args": {}}, 400, None),
        (b"{", 400, None),
        (b"[" * 100_000, 413, None),
        (b"\xff", 400, None),
    ],
)
async def test_a_tool_that_does_not_work_says_so(
    body: Any, status: int, answer: dict[str, Any] | None
) -> None:
    async with open_server(endpoints=[tools_invoke(invoke)]) as served:
        got = await http(served, "POST", "/tools/invoke", body, BEARER)

    assert got.status == status
    assert answer is None or got.json == answer
    assert "error" in got.json
    assert b"secret" not in got.body


@pytest.mark.spec("G3")
async def test_without_the_secret_no_tool_is_invoked() -> None:
    called = []

    async def remembering(*asked: Any) -> Any:
        called.append(asked)

    async with open_server(endpoints=[tools_invoke(remembering)]) as served:
        missing = await http(served, "POST", "/tools/invoke", {"tool": "x"})
        wrong = await http(
            served, "POST", "/tools/invoke", {"tool": "x"}, {"Authorization": "Bearer no"}
        )
        in_query = await http(served, "POST", f"/tools/invoke?token={TOKEN}", {"tool": "x"})

    for answer in (missing, wrong, in_query):
        assert answer.status == 401
        assert answer.json == {"error": {"message": "Unauthorized", "type": "unauthorized"}}
    assert called == []


async def test_a_body_is_refused_before_it_is_sent() -> None:
    async with open_server(endpoints=[tools_invoke(invoke)]) as served:
        head = (
            f"POST /tools/invoke HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 2000000000\r\n"
        )
        stranger = await talk(served, head.encode() + b"\r\n")
        friend = await talk(served, f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())

    assert stranger.status == 401
    assert friend.status == 413


async def test_a_body_without_end_is_cut_off() -> None:
    limits = GatewayLimits(body_bytes_max=1000, body_time_s=0.1)
    async with open_server(limits=limits, endpoints=[tools_invoke(invoke)]) as served:
        head = (
            f"POST /tools/invoke HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            f"Content-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        ).encode()
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        endless = await talk(served, head + chunk * 10)
        slow = await talk(served, head + b"1\r\nx\r\n")

    assert endless.status == 413
    assert slow.status == 408


async def test_headers_without_end_are_cut_off() -> None:
    limits = GatewayLimits(header_bytes_max=5000, header_time_s=0.2)
    async with open_server(limits=limits) as served:
        large = await talk(served, b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 2000)
        slow = await talk(served, b"GET /health HTTP/1.1\r\nHost: 127")
        silent = await talk(served, b"\r\n")
        fine = await http(served, "GET", "/health", headers={"Cookie": "c" * 3000})

    assert large.status == 431
    assert slow.status == silent.status == 0
    assert fine.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nowhere", 404, b"Not Found"),
        ("GET", "/tools/invoke", 405, b"Method Not Allowed"),
        ("GET", "/static/../server.py", 400, b"odd path"),
        ("GET", "/static/%2e%2e/server.py", 400, b"odd path"),
        ("GET", "/static/server.py", 404, b"Not Found"),
    ],
)
async def test_other_paths(method: str, path: str, status: int, text: bytes) -> None:
    async with open_server(endpoints=[tools_invoke(invoke)]) as served:
        answer = await http(served, method, path)

    assert (answer.status, answer.body) == (status, text)
    if status == 405:
        assert answer.headers["allow"] == "POST"


async def test_the_page_is_served_with_a_strict_policy() -> None:
    async with open_server() as served:
        page = await http(served, "GET", "/")
        script = await http(served, "GET", "/static/app.js")

    for answer, kind in ((page, "text/html"), (script, "text/javascript")):
        if answer.status == 404:
            continue  # no page in this build
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"


async def test_the_page_can_be_turned_off() -> None:
    async with open_server(settings=GatewayConfig(control_ui=ControlUi(enabled=False))) as served:
        assert (await http(served, "GET", "/")).status == 404


def test_only_files_of_the_folder_have_routes(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for name in ("index.html", "app.js", "parts/list.js", "notes.txt", "secret.py"):
        (tmp_path / name).write_text("x", "utf-8")

    paths = {endpoint.path for endpoint in page_endpoints("/", tmp_path)}
    based = {endpoint.path for endpoint in page_endpoints("/claw/", tmp_path)}

    assert paths == {"/", "/static/index.html", "/static/app.js", "/static/parts/list.js"}
    assert {"/claw", "/claw/", "/claw/static/app.js"} <= based


async def test_a_kept_connection_serves_several_requests() -> None:
    async with open_server() as served:
        head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        answer = await talk(
            served, f"{head}\r\n{head}Connection: close\r\n\r\n".encode(), timeout_s=3
        )

    assert answer.body.count(b'{"ok":true}') == 2

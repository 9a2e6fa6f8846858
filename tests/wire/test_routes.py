"""Every route of the gateway against the rules of the edge. A route without a row here fails."""

import json
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from crossclaw.gateway.limits import GatewayLimits
from tests.wire.served_gateway import TOKEN, ServedGateway, open_with_server, serve_gateway

MIB = 1024 * 1024
BEARER = f"Authorization: Bearer {TOKEN}"


class Row(NamedTuple):
    needs_secret: bool
    body_bytes_max: int | None = None
    """None: a route that takes no body."""
    empty_body: int = 200
    """The status for an empty JSON object from somebody who may."""


ROUTES = {
    ("GET", "/health"): Row(False),
    ("GET", "/health/live"): Row(False),
    ("GET", "/health/ready"): Row(False),
    ("GET", "/"): Row(False),
    ("GET", "/metrics"): Row(True),
    ("GET", "/v1/models"): Row(True),
    ("POST", "/tools/invoke"): Row(True, 2 * MIB, 400),
    ("POST", "/mcp"): Row(True, 2 * MIB, 406),
    ("DELETE", "/mcp"): Row(True, 2 * MIB, 204),
    ("POST", "/v1/chat/completions"): Row(True, 20 * MIB, 400),
    ("POST", "/v1/responses"): Row(True, 20 * MIB, 400),
}


async def test_every_route_has_its_row(tmp_path: Path) -> None:
    async with open_with_server(tmp_path) as (_gateway, server):
        found = {
            (each.method, each.path): each
            for each in server.endpoints
            if not each.path.startswith("/static/")
        }
        assert all(each.door is None for each in server.endpoints if "/static/" in each.path)

    assert set(found) == set(ROUTES)
    for route, endpoint in found.items():
        row = ROUTES[route]
        assert (endpoint.door is not None) == row.needs_secret, route
        most = endpoint.body_bytes_max or GatewayLimits().body_bytes_max
        assert row.body_bytes_max in (None, most), route


class Try(NamedTuple):
    """A request that differs from a good one in one thing, and what it gets."""

    name: str
    lines: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    suffix: str = ""
    method: str = ""
    status: int = 400
    open_status: int | None = None
    """For a route without secret, where that is another one."""
    only_posts: bool = False


TRIES = [
    Try("no secret", without=("Authorization",), status=401, open_status=200),
    Try("a wrong secret", ("Authorization: Bearer no",), ("Authorization",), status=401, open_status=200),
    Try("the secret in the address", without=("Authorization",), suffix=f"?token={TOKEN}", status=401, open_status=200),
    Try("two secrets", ("Authorization: Bearer no",)),
    Try("no host", without=("Host",), status=421),
    Try("another host", ("Host: evil.example",), ("Host",), status=421),
    Try("two hosts", ("Host: evil.example",)),
    Try("a foreign page", ("Origin: https://evil.example",), status=403),
    Try("no page", ("Origin: null",), status=403),
    Try("another site", ("Sec-Fetch-Site: cross-site",), status=403, only_posts=True),
    Try("up and down", suffix="/..", status=400),
    Try("up and down in disguise", suffix="/%2e%2e", status=400),
    Try("a slash in disguise", suffix="%2f", status=400),
    Try("a parameter of the path", suffix=";a=b", status=400),
    Try("one slash more", suffix="/", status=404),
    Try("another method", method="PUT", status=405),
    Try("no JSON", ("Content-Type: text/plain",), ("Content-Type",), status=415, only_posts=True),
]  # fmt: skip


async def talk(served_gateway: ServedGateway, request: str, body: bytes = b"") -> int:
    """The status for these very bytes."""
    async with await anyio.connect_tcp("127.0.0.1", served_gateway.port) as stream:
        await stream.send(request.encode() + b"\r\n\r\n" + body)
        with anyio.fail_after(10):
            answer = await stream.receive()
    return int(answer.split()[1])


def good(
    served_gateway: ServedGateway, method: str, path: str, body: bytes, without: tuple[str, ...]
) -> str:
    lines = [
        f"Host: 127.0.0.1:{served_gateway.port}",
        BEARER,
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    kept = [line for line in lines if line.partition(":")[0] not in without]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *kept])


@pytest.mark.spec("G3")
async def test_the_rules_hold_on_every_route(tmp_path: Path) -> None:
    wrong: list[object] = []
    async with serve_gateway(tmp_path) as served_gateway:
        for (method, path), row in ROUTES.items():
            for each in TRIES:
                if each.only_posts and method != "POST":
                    continue
                if path == "/" and each.suffix.startswith("/"):
                    continue  # another path altogether; `//` and `/..` are tried below
                body = json.dumps({}).encode() if method == "POST" else b""
                line = good(
                    served_gateway, each.method or method, path + each.suffix, body, each.without
                )
                status = await talk(served_gateway, "\r\n".join([line, *each.lines]), body)
                open_status = each.open_status or each.status
                wanted = each.status if row.needs_secret else open_status
                if status != wanted:
                    wrong.append((method, path, each.name, status, wanted))

    assert wrong == []


@pytest.mark.spec("G3")
async def test_every_route_works_for_whoever_may_and_bodies_have_their_size(tmp_path: Path) -> None:
    wrong: list[object] = []
    async with serve_gateway(tmp_path) as served_gateway:
        for (method, path), row in ROUTES.items():
            body = b"{}" if method == "POST" else b""
            status = await talk(served_gateway, good(served_gateway, method, path, body, ()), body)
            if status != row.empty_body:
                wrong.append((method, path, status))
            if row.body_bytes_max is None:
                continue
            line = good(served_gateway, method, path, b"", ("Content-Length",))
            status = await talk(
                served_gateway, f"{line}\r\nContent-Length: {row.body_bytes_max + 1}"
            )
            if status != 413:
                wrong.append((method, path, status, "too large"))
        for path in ("//", "/../", "/%2e%2e/", "/static/..", "/\\x"):
            status = await talk(served_gateway, good(served_gateway, "GET", path, b"", ()))
            if status != 400:
                wrong.append((path, status))

    assert wrong == []

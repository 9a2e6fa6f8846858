"""MCP servers over HTTP: their answers are limited before anything parses them."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from crossclaw.tools.mcp_filter import MESSAGE_BYTES_MAX, PARTS_MAX, count_parts


class TooLarge(httpx2.ReadError):
    pass


class _Counted(httpx2.AsyncByteStream):
    """Limits the size of a message, which is a line of an event stream, or the whole body."""

    def __init__(self, inner: Any, by_line: bool) -> None:
        self._inner = inner
        self._by_line = by_line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = parts = 0
        chunks = aiter(self._inner)
        try:
            async for chunk in chunks:
                if self._by_line and b"\n" in chunk:
                    size = parts = 0
                size += len(chunk)
                parts += count_parts(chunk)
                _refuse_too_large(size, parts)
                yield chunk
        finally:
            if hasattr(chunks, "aclose"):
                await chunks.aclose()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _refuse_too_large(size: int, parts: int) -> None:
    if size > MESSAGE_BYTES_MAX or parts > PARTS_MAX:
        raise TooLarge(
            f"the server's answer is too large: at most {MESSAGE_BYTES_MAX} bytes and "
            f"{PARTS_MAX} parts are read"
        )


class Bounded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TooLarge("the server sent a compressed answer")
        by_line = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Counted(response.stream, by_line)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def over_http(
    url: str, headers: dict[str, str], timeout: httpx2.Timeout
) -> AsyncGenerator[Any]:
    plain = {**headers, "accept-encoding": "identity"}
    transport = Bounded(httpx2.AsyncHTTPTransport())
    async with (
        httpx2.AsyncClient(headers=plain, timeout=timeout, transport=transport) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams

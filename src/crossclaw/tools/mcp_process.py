"""MCP servers that are programs: started below a keeper, and their other output is read line by line.

Their stderr is not the gateway's own: a server could write to the owner's terminal, or fill the log.
"""

import logging
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from crossclaw.config.doors import McpServer
from crossclaw.display.cleaning import cleaned
from crossclaw.sandbox.programs import kept
from crossclaw.tools import mcp_filter

log = logging.getLogger(__name__)

LINE_CHARS_MAX = 500  # of one line in the log
LINES_MAX, PERIOD_S = (
    50,
    10.0,
)  # a server that says more has lost its way, or wants to hide something
READ_BYTES = 65_536


@asynccontextmanager
async def over_stdio(name: str, settings: McpServer, command: Sequence[str]) -> AsyncGenerator[Any]:
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415  loaded by now

    program, *arguments = kept((sys.executable, "-I", "-S", mcp_filter.__file__, *command))
    parameters = StdioServerParameters(
        command=program,
        args=arguments,
        env={key: value.reveal() for key, value in settings.env.items()},
        cwd=settings.cwd,
    )
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, ServerLog(name), reading, name=f"stderr of {name}")
            with os.fdopen(writing, "w", encoding="utf-8") as errlog:
                async with stdio_client(parameters, errlog=errlog) as streams:
                    yield streams
            tasks.cancel_scope.cancel()
    finally:
        os.close(reading)


async def _listen(lines: "ServerLog", descriptor: int) -> None:
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            continue
        if not data:
            return
        lines.take(data, anyio.current_time())


class ServerLog:
    """A server's stderr as lines of the log: with its name, cleaned, and not too many."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rest = b""
        self._period_until = 0.0
        self._said = self._left_out = 0

    def take(self, data: bytes, now: float) -> None:
        *whole, rest = (self._rest + data).split(b"\n")
        self._rest = rest[
            : LINE_CHARS_MAX * 4
        ]  # a line without an end is kept no longer than it is shown
        for line in whole:
            self._say(line.decode("utf-8", "replace"), now)

    def _say(self, line: str, now: float) -> None:
        if now >= self._period_until:
            if self._left_out:
                log.warning("MCP server %s: %s more lines left out", self._name, self._left_out)
            self._period_until, self._said, self._left_out = now + PERIOD_S, 0, 0
        text = cleaned(line.rstrip("\r"))[:LINE_CHARS_MAX]
        if not text.strip():
            return
        self._said += 1
        if self._said > LINES_MAX:
            self._left_out += 1
        else:
            log.info("MCP server %s: %s", self._name, text)

"""MCP servers of the config: started when a run could use their tools, and kept.

A server that cannot be started or dies costs its tools, never a run: calls under way are answered
with an error, and the next use starts it anew. Runs wait for its first start only: one that has failed
is tried again beside them. Programs run below a keeper, so they end with the gateway, however it ends.
"""

import logging
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from crossclaw.config.doors import McpServer
from crossclaw.disk.extras import how_to_install_there
from crossclaw.domain.aliases import Tell
from crossclaw.domain.errors import ToolFailed
from crossclaw.tools.mcp_agreed import AgreedTools
from crossclaw.tools.mcp_process import over_stdio
from crossclaw.tools.mcp_tool import McpTool, prefixes_of

if TYPE_CHECKING:
    from mcp import types
    from mcp.client import Client

log = logging.getLogger(__name__)

START_S = 30.0  # until its tools are known; runs wait for the first start, so not for ever
CALL_S = 600.0  # one call; OpenClaw's default for a whole run
PAUSE_S = 60.0  # between two attempts to start a server that fails
TOOLS_MAX = 256  # of one server; more would fill the model's window
SPEC_BYTES_MAX = 32 * 1024  # description and schema of one tool: a long manual page
SPECS_BYTES_MAX = 256 * 1024  # of one server; every request carries them


_SILENCE = (-32000, -32001)  # the SDK's codes for a closed connection and for time that ran out


Shield = Callable[[Sequence[str]], Awaitable[Sequence[str]]]
"""Wraps a program's command line with what keeps it from the gateway's own files and process."""


async def _bare(command: Sequence[str]) -> Sequence[str]:
    return command


class McpServers:
    def __init__(
        self,
        servers: Mapping[str, McpServer],
        shield: Shield = _bare,
        agreed: AgreedTools | None = None,
    ) -> None:
        self._agreed = agreed
        self._servers = {
            name: _Server(name, settings, shield, agreed)
            for name, settings in servers.items()
            if settings.enabled and not settings.disabled
        }
        self._shadowed: set[str] = set()  # told of already

    @property
    def are_there(self) -> bool:
        return bool(self._servers)

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            for server in self._servers.values():
                server.tasks = tasks
            task_status.started()
            await anyio.sleep_forever()

    async def tools(self, is_wanted: Callable[[Sequence[str]], bool]) -> list[McpTool]:
        """The tools of all servers that are there. `is_wanted` is asked with the beginnings of their
        names; what is not wanted is not started."""
        found: dict[str, list[McpTool]] = {}

        async def ask(server: _Server) -> None:
            found[server.name] = await server.tools()

        async with anyio.create_task_group() as tasks:
            for server in self._servers.values():
                if is_wanted(prefixes_of(server.name)):
                    tasks.start_soon(ask, server, name=f"tools of {server.name}")
        held = await self._agreed.held() if self._agreed and found else frozenset()
        tools = (tool for name in self._servers for tool in found.get(name, ()))
        return self._distinct(tool for tool in tools if tool.name not in held)

    def _distinct(self, tools: Iterable[McpTool]) -> list[McpTool]:
        """The tools with distinct names. Two servers, or two tools of one, can come to the same name: the
        first one has it, so that no later one is called in its place."""
        by_name: dict[str, McpTool] = {}
        for tool in tools:
            first = by_name.setdefault(tool.name, tool)
            if first is not tool and tool.name not in self._shadowed:
                self._shadowed.add(tool.name)
                log.warning("two MCP tools would be named %s; the second is left out", tool.name)
        return list(by_name.values())


class _Server:
    """One server and the task that holds the connection to it."""

    tasks: anyio.abc.TaskGroup | None = None

    def __init__(
        self, name: str, settings: McpServer, shield: Shield, agreed: AgreedTools | None
    ) -> None:
        self.name = name
        self._agreed = agreed
        self._settings = settings
        self._shield = shield
        self._command: Sequence[str] = ()
        self._starting = anyio.Lock()
        self._client: Client | None = None
        self._over = anyio.Event()
        self._tools: list[McpTool] | None = None
        self._trouble = ""
        """Why it could not be started the last time."""
        self._not_before = 0.0
        self._attempt: anyio.Event | None = None
        """Set when the start that is under way beside the runs has come to an end."""

    async def tools(self) -> list[McpTool]:
        if self._client is None:
            await self._started()
        if self._client is None:
            return []  # the log has said why
        try:
            return self._tools or await self._list_again(self._client)
        except ToolFailed as error:
            log.warning("%s; its tools are missing", error)
            return []

    async def _started(self) -> None:
        """Waits until the start is over, unless one has failed before: then nobody waits again."""
        if self._attempt is None:
            if anyio.current_time() < self._not_before:
                return
            assert self.tasks is not None
            self._attempt = anyio.Event()
            self.tasks.start_soon(self._try, self._attempt, name=f"start of {self.name}")
        if not self._trouble:
            await self._attempt.wait()

    async def _try(self, attempt: anyio.Event) -> None:
        try:
            await self._connected()
        except ToolFailed as error:
            log.warning("%s; its tools are missing, and are tried again in %g s", error, PAUSE_S)
        finally:
            self._attempt = None
            attempt.set()

    async def _list_again(self, client: "Client") -> list[McpTool]:
        try:
            with anyio.fail_after(START_S):
                self._tools = await self._list(client)
                return self._tools
        except Exception as error:  # noqa: BLE001  whatever a server does, runs go on without it
            self._drop(client)
            raise ToolFailed(
                f"the MCP server {self.name} stopped answering: {_text(error)}; the next call starts it anew"
            ) from None

    async def call(
        self, tool: str, arguments: dict[str, Any], tell: Tell
    ) -> "types.CallToolResult":
        async def report(progress: float, total: float | None, message: str | None) -> None:
            tell(message or (f"{progress:g} of {total:g}" if total else f"{progress:g}"))

        client = await self._connected()
        try:
            return await client.call_tool(
                tool, arguments, read_timeout_seconds=CALL_S, progress_callback=report
            )
        except Exception as error:  # noqa: BLE001  of the SDK, the transport or the server
            if _is_answer(error):
                raise ToolFailed(f"the MCP server {self.name} refused: {error}") from None
            self._drop(client)
            raise ToolFailed(
                f"the MCP server {self.name} did not answer ({_text(error)}); nobody knows how far "
                "the call came. The next call starts the server anew"
            ) from None

    # ── the connection ─────────────────────────────────────────────────────────────────────────

    async def _connected(self) -> "Client":
        async with self._starting:
            if self._client is None:
                await self._start()
            assert self._client is not None
            return self._client

    async def _start(self) -> None:
        if find_spec("mcp") is None:
            raise ToolFailed(f"MCP servers need a package: {how_to_install_there('mcp')}")
        if anyio.current_time() < self._not_before:
            raise ToolFailed(f"the MCP server {self.name} is not there: {self._trouble}")
        assert self.tasks is not None
        await anyio.to_thread.run_sync(import_module, "mcp")  # a second, while others go on
        try:
            await anyio.to_thread.run_sync(_refuse_missing, self._settings)
            if self._settings.command:
                self._command = await self._shield(_command_line(self._settings))
            await self.tasks.start(self._hold, name=f"MCP server {self.name}")
            self._trouble = ""
        except Exception as error:  # noqa: BLE001  a program that is not there, a server that is none
            self._trouble = _text(error)
            self._not_before = anyio.current_time() + PAUSE_S
            raise ToolFailed(
                f"the MCP server {self.name} cannot be started: {self._trouble}"
            ) from None

    async def _hold(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Holds the connection. It is opened and closed by one task, as the SDK requires."""
        from mcp.client import Client  # noqa: PLC0415  loaded by now

        over = self._over = anyio.Event()
        is_started = False
        try:
            with anyio.fail_after(START_S) as patience:
                async with Client(self._transport(), message_handler=self._heard) as client:
                    self._tools = await self._list(client)
                    patience.deadline = float("inf")
                    self._client = client
                    task_status.started()
                    is_started = True
                    await over.wait()
        except Exception as error:
            if not is_started:
                raise
            log.info("the connection to the MCP server %s was lost: %s; the next call starts it anew", self.name, _text(error))  # fmt: skip
        finally:
            if self._over is over:  # else a new one has begun while this one was closed
                self._client, self._tools = None, None

    def _drop(self, client: "Client") -> None:
        if self._client is client:
            self._client, self._tools = None, None
            self._over.set()

    def _transport(self) -> AbstractAsyncContextManager[Any]:
        settings = self._settings
        if settings.url:
            if settings.transport not in (None, "http", "streamable-http", "streamable_http"):
                raise ToolFailed(
                    f"its transport {settings.transport} is unknown; use streamable-http"
                )
            headers = {name: value.reveal() for name, value in settings.headers.items()}
            return _over_http(settings.url, headers)
        if not settings.command:
            raise ToolFailed(f"mcp.servers.{self.name} has neither command nor url")
        return over_stdio(self.name, settings, self._command)

    async def _list(self, client: "Client") -> list[McpTool]:
        found: list[McpTool] = []
        cursor: str | None = None
        while len(found) < TOOLS_MAX:
            page = await client.list_tools(cursor=cursor)
            found += [McpTool(self.name, listed, self.call) for listed in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        kept = self._within(found[:TOOLS_MAX])
        if self._agreed is not None:
            await self._agreed.see(self.name, kept)
        return kept

    def _within(self, found: list[McpTool]) -> list[McpTool]:
        """The tools within the limits for each tool and for all of one server: every request would carry them."""
        kept, room = list[McpTool](), SPECS_BYTES_MAX
        for tool in found:
            if tool.spec_bytes <= min(SPEC_BYTES_MAX, room):
                kept.append(tool)
                room -= tool.spec_bytes
        if len(kept) < len(found):
            left_out = ", ".join(tool.name for tool in found if tool not in kept)[:500]
            log.warning(
                "tools of MCP server %s with too large a schema are left out: %s",
                self.name,
                left_out,
            )
        return kept

    async def _heard(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._tools = None


def _command_line(settings: McpServer) -> list[str]:
    return [settings.command or "", *(each.reveal() for each in settings.args)]


def _refuse_missing(settings: McpServer) -> None:
    command = settings.command
    if settings.url or not command or settings.cwd:
        return
    if shutil.which(command, path=_path(settings)) is None:
        raise ToolFailed(f"there is no program {command}")


def _path(settings: McpServer) -> str | None:
    own = settings.env.get("PATH")
    return own.reveal() if own else None


def _over_http(url: str, headers: dict[str, str]) -> AbstractAsyncContextManager[Any]:
    import httpx2  # noqa: PLC0415  comes with mcp

    from crossclaw.tools.mcp_http import over_http  # noqa: PLC0415  it needs mcp

    return over_http(url, headers, httpx2.Timeout(START_S, read=CALL_S))


def _is_answer(error: Exception) -> bool:
    """Whether the server answered with an error; all other errors mean that it did not answer."""
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415  loaded by now

    return isinstance(error, MCPError) and error.code not in _SILENCE


def _text(error: BaseException) -> str:
    """The text of the first cause: task groups wrap theirs."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError) and not str(error):
        return f"it did not say within {START_S:g} s which tools it has"
    return str(error) or type(error).__name__

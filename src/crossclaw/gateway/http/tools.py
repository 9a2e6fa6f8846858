"""POST /tools/invoke: one tool, called from outside as a session would call it."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crossclaw.domain.errors import CrossclawError
from crossclaw.door.principal import Principal
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.frames import log_unforeseen
from crossclaw.gateway.http.answers import invalid, json_answer
from crossclaw.tools.invoke import ToolNotAvailable

InvokeTool = Callable[[Principal, str, dict[str, Any], str], Awaitable[Any]]
"""(who, tool, arguments, session key) → the tool's result."""


class Invocation(msgspec.Struct, frozen=True, rename="camel"):
    tool: str
    action: str | None = None
    args: dict[str, Any] = {}
    session_key: str = "main"
    dry_run: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        return self.args if self.action is None else {"action": self.action, **self.args}


def tools_invoke(invoke: InvokeTool) -> Endpoint:
    async def handle(request: Request, principal: Principal) -> Response:
        try:
            invocation = msgspec.json.decode(await request.body(), type=Invocation)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return invalid(f"invalid body: {error}")
        if not invocation.tool.strip():
            return _failed("invalid_request", "tool is required", 400)
        return await _invoke(invoke, principal, invocation)

    return Endpoint(method="POST", path="/tools/invoke", handle=handle)


async def _invoke(invoke: InvokeTool, principal: Principal, invocation: Invocation) -> Response:
    name = invocation.tool.strip()
    try:
        result = await invoke(
            principal, name, invocation.arguments, invocation.session_key.strip() or "main"
        )
        return json_answer({"ok": True, "result": enveloped(result)})
    except ToolNotAvailable as error:
        return _failed("not_found", str(error), 404)
    except CrossclawError as error:
        return _failed("tool_error", str(error), 400)
    except Exception as error:  # noqa: BLE001  a tool's bug is an answer to its caller
        log_unforeseen(f"tool {name} over HTTP", error)
        return _failed("tool_error", "the tool failed; the gateway's log says why", 500)


def enveloped(result: Any) -> dict[str, Any]:
    """A tool's result as OpenClaw gives it: as text, and as data."""
    plain = msgspec.to_builtins(result)
    if isinstance(plain, dict) and isinstance(plain.get("content"), list) and "details" in plain:
        return plain
    text = (
        plain
        if isinstance(plain, str)
        else msgspec.json.format(msgspec.json.encode(plain)).decode()
    )
    return {"content": [{"type": "text", "text": text}], "details": plain}


def _failed(kind: str, message: str, status: int) -> Response:
    return json_answer({"ok": False, "error": {"type": kind, "message": message}}, status)

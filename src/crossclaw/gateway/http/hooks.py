"""POST /hooks/…: turns a program's request into a call at the door, with a principal of its own."""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from crossclaw.config.hooks import HookMapping, HooksConfig
from crossclaw.domain.authority import HOOKS
from crossclaw.domain.errors import Busy, ConfigInvalid, CrossclawError, Forbidden
from crossclaw.domain.secret import Secret
from crossclaw.domain.texts import text_or_json
from crossclaw.door.principal import Principal
from crossclaw.gateway.auth import SecretDigests, is_loopback, secret_digests
from crossclaw.gateway.edge import Endpoint
from crossclaw.gateway.http.answers import json_answer
from crossclaw.gateway.limits import GatewayLimits
from crossclaw.schedule.hooks import KeyFrom

# Where senders put the id of a delivery; the same one again is the same delivery.
_ONCE_HEADERS = ("idempotency-key", "x-openclaw-idempotency-key", "x-github-delivery")
_AGENT_FIELDS = frozenset(
    [
        "message",
        "name",
        "agentId",
        "sessionKey",
        "wakeMode",
        "deliver",
        "channel",
        "to",
        "accountId",
        "threadId",
        "model",
        "thinking",
        "timeoutSeconds",
    ]
)
_TEMPLATE = re.compile(r"\{\{\s*([^{}]+?)\s*\}\}")
_STEP = re.compile(r"[^.\[\]]+")

HookDispatch = Callable[[Principal, str, dict[str, Any]], Awaitable[Any]]


class HookRefused(Exception):
    """The request is wrong; the text is for its sender."""


def hook_digests(hooks: HooksConfig, gateway_token: Secret, host: str) -> SecretDigests | None:
    """The hooks' own secret. It opens nothing else, and nothing else opens the hooks."""
    if not hooks.enabled:
        return None
    assert hooks.token is not None, "a config without it is refused"
    if hooks.token.reveal() == gateway_token.reveal():
        raise ConfigInvalid(
            "hooks.token must not be the gateway's own token, which opens everything"
        )
    short = len(hooks.token.reveal()) < GatewayLimits().secret_chars_min
    if short and not is_loopback(host):
        raise ConfigInvalid(
            f"hooks.token could be guessed from the network, and the gateway listens on {host}; use a "
            "random one of at least 32 characters"
        )
    return secret_digests(hooks.token)


def hook_endpoints(hooks: HooksConfig, dispatch: HookDispatch) -> list[Endpoint]:
    if not hooks.enabled:
        return []

    async def handle(request: Request, principal: Principal) -> Response:
        if "token" in request.query_params:
            return PlainTextResponse("the hook token belongs into a header, not the address", 400)
        try:
            method, params = _call(hooks, request, _body(await request.body()))
            answer = await dispatch(principal, method, params)
        except HookRefused as refused:
            return _failed(str(refused), 400)
        except _NotMapped:
            return PlainTextResponse("Not Found", 404)
        except _NotRun as refused:
            return _failed(str(refused), 501)
        except CrossclawError as error:
            status = (
                403 if isinstance(error, Forbidden) else 503 if isinstance(error, Busy) else 400
            )
            return _failed(str(error), status)
        return json_answer(answer, 202 if method == "hooks.agent" else 200)

    path = f"{hooks.base_path}/*"
    return [
        Endpoint(
            method="POST", path=path, handle=handle, door=HOOKS, body_bytes_max=hooks.max_body_bytes
        )
    ]


class _NotMapped(Exception):
    pass


class _NotRun(Exception):
    """The mapping needs a module of Node.js. Its request must not come in another way, so no other mapping is
    looked for."""


def _failed(text: str, status: int) -> Response:
    return json_answer({"ok": False, "error": text}, status)


def _body(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HookRefused(f"invalid JSON: {error}") from None
    return value if isinstance(value, dict) else {}


def _call(hooks: HooksConfig, request: Request, body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method and the parameters of a hook's request."""
    where = request.url.path.removeprefix(hooks.base_path).strip("/")
    once = _once(request.headers, body)
    if where == "wake":
        mode = "next-heartbeat" if body.get("mode") == "next-heartbeat" else "now"
        name = {"name": body["name"]} if isinstance(body.get("name"), str) else {}
        return "hooks.wake", {"text": _text(body, "text"), "mode": mode, **name, **once}
    if where == "agent":
        given = {name: v for name, v in body.items() if name in _AGENT_FIELDS and v is not None}
        if given.get("channel") == "last":
            del given["channel"]
        return "hooks.agent", {**given, "message": _text(body, "message"), **once}
    context = _Context(where, body, dict(request.headers), dict(request.query_params))
    for mapping in hooks.all_mappings():
        if _matches(mapping, context):
            if mapping.transform:
                raise _NotRun(
                    "this mapping has a transform, a module of Node.js, which cannot run here"
                )
            method, params = _mapped(mapping, context)
            return method, {**params, **once}
    raise _NotMapped


def _once(headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, str]:
    for value in (*(headers.get(name) for name in _ONCE_HEADERS), body.get("idempotencyKey")):
        if isinstance(value, str) and value.strip():
            return {"idempotencyKey": value.strip()}
    return {}


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise HookRefused(f"{name} required")
    return value.strip()


# ── mappings ───────────────────────────────────────────────────────────────────────────────────


class _Context(msgspec.Struct, frozen=True):
    path: str
    payload: dict[str, Any]
    headers: dict[str, str]
    query: dict[str, str]


def _matches(mapping: HookMapping, context: _Context) -> bool:
    path, source = (mapping.match.path or "").strip("/ "), mapping.match.source
    return (not path or path == context.path) and (
        not source or source == context.payload.get("source")
    )


def _mapped(mapping: HookMapping, context: _Context) -> tuple[str, dict[str, Any]]:
    name = _render(mapping.name, context) or mapping.id or "Hook"
    if mapping.action == "wake":
        text = _render(mapping.text_template, context)
        if not text:
            raise HookRefused("the mapping made no text of this body")
        return "hooks.wake", {"text": text, "mode": mapping.wake_mode, "name": name}
    message = _render(mapping.message_template, context)
    if not message:
        raise HookRefused("the mapping made no message of this body")
    params = {
        "message": message,
        "name": name,
        "agentId": mapping.agent_id,
        "sessionKey": _render(mapping.session_key, context),
        "wakeMode": mapping.wake_mode,
        "deliver": mapping.deliver,
        "channel": None if mapping.channel == "last" else mapping.channel,
        "to": _render(mapping.to, context),
        "accountId": mapping.account_id,
        "threadId": _render(mapping.thread_id, context),
        "model": _render(mapping.model, context),
        "thinking": mapping.thinking,
        "timeoutSeconds": mapping.timeout_seconds,
    }
    given = {name: value for name, value in params.items() if value is not None}
    return "hooks.agent", given | {"keyFrom": _key_from(mapping.session_key or "")}


def _key_from(template: str) -> KeyFrom:
    """Who chooses the session: a template that takes it out of the request leaves it to the sender."""
    if not _TEMPLATE.search(template):
        return "config"
    return "template" if template.strip().startswith("hook:") else "request"


def _render(template: str | None, context: _Context) -> str | None:
    if template is None:
        return None
    return _TEMPLATE.sub(lambda found: _value(found[1], context), template).strip() or None


def _value(expression: str, context: _Context) -> str:
    if expression == "path":
        return context.path
    if expression == "now":
        return datetime.now(UTC).isoformat()
    root, _, rest = expression.partition(".")
    parts: dict[str, Any] = {
        "headers": context.headers,
        "query": context.query,
        "payload": context.payload,
    }
    found = (
        _find(parts[root], rest) if rest and root in parts else _find(context.payload, expression)
    )
    if found is None:
        return ""
    return text_or_json(found)


def _find(value: Any, path: str) -> Any:
    for step in _STEP.findall(path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value

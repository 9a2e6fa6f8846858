"""Answers over HTTP, in OpenClaw's shapes."""

from typing import Any

import msgspec
from starlette.responses import Response

_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


def json_answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(body),
        status,
        headers={**_HEADERS, **(headers or {})},
        media_type="application/json",
    )


def problem(
    message: str, kind: str, status: int, headers: dict[str, str] | None = None
) -> Response:
    return json_answer({"error": {"message": message, "type": kind}}, status, headers)


def unauthorized() -> Response:
    return problem("Unauthorized", "unauthorized", 401, {"www-authenticate": "Bearer"})


def invalid(message: str, status: int = 400) -> Response:
    return problem(message, "invalid_request_error", status)


def too_large(bytes_max: int) -> Response:
    return invalid(f"Payload too large: at most {bytes_max} bytes", 413)

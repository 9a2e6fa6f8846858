"""Frames: requests in, responses and events out. Their wire names and error codes stand here and nowhere else.

Responses and events are put together around a payload that is already JSON, so that an event for many clients
is encoded once; only `seq` differs.
"""

import logging
import traceback
from typing import Any

import msgspec

from crossclaw.domain.aliases import NameText
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid
from crossclaw.domain.untrusted import TooHeavy, check_depth, check_weight, find_id
from crossclaw.door.dispatch import MissingScope

log = logging.getLogger(__name__)


class InvalidFrame(Invalid):
    """A frame that is not a request. `request_id` is the id it named, if one can be read."""

    def __init__(self, message: str, request_id: str | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id


class Request(msgspec.Struct, frozen=True, tag_field="type", tag="req", forbid_unknown_fields=True):
    id: NameText
    method: NameText
    params: Any = None
    traceparent: str | None = None
    expected_profile_id: str | None = msgspec.field(default=None, name="expectedProfileId")


_requests = msgspec.json.Decoder(Request)
_encoder = msgspec.json.Encoder()

encode = _encoder.encode


def decode_request(data: str | bytes) -> Request:
    """Decodes a request. What is no JSON (other languages write half an emoji or NaN and call it so) is
    refused under its id too: a client that gets no answer with its own id waits for ever."""
    try:
        check_weight(data)
        request = _requests.decode(data)
        check_depth(request.params)
    except (msgspec.DecodeError, UnicodeDecodeError, TooHeavy) as error:
        raise InvalidFrame(f"invalid request frame: {error}", find_id(data)) from None
    except RecursionError:
        raise InvalidFrame("invalid request frame: nested too deeply", find_id(data)) from None
    return request


# ── responses ──────────────────────────────────────────────────────────────────────────────────


def response(request_id: str, payload: Any) -> bytes:
    return b'{"type":"res","id":%b,"ok":true,"payload":%b}' % (encode(request_id), encode(payload))


def refusal(request_id: str, error: dict[str, Any], payload: Any = None) -> bytes:
    frame: dict[str, Any] = {"type": "res", "id": request_id, "ok": False}
    if payload is not None:
        frame["payload"] = payload
    frame["error"] = error
    return encode(frame)


def error_body(error: BaseException, protocol: int) -> dict[str, Any]:
    """The error that a client gets. For an unforeseen failure it says only that it happened."""
    if not isinstance(error, CrossclawError):
        return {
            "code": "UNAVAILABLE",
            "message": "something failed inside; the gateway's log says what",
        }
    body: dict[str, Any] = {"code": error.code, "message": str(error) or type(error).__name__}
    if isinstance(error, Forbidden) and protocol == 3:
        body["code"] = "INVALID_REQUEST"  # protocol 3 has no word for it
    if details := _details(error, protocol):
        body["details"] = details
    if error.retryable:
        body["retryable"] = True
    if (wait_s := getattr(error, "retry_after_s", None)) is not None:
        body["retryAfterMs"] = round(wait_s * 1000)
    return body


def _details(error: CrossclawError, protocol: int) -> dict[str, Any] | None:
    if isinstance(error, MissingScope):
        if protocol == 3:
            return None
        return {
            "code": "MISSING_SCOPE",
            "missingScope": error.scope,
            "requiredScopes": [error.scope],
        }
    details: dict[str, Any] | None = getattr(error, "details", None)
    return details


def log_unforeseen(what: str, error: BaseException) -> None:
    """Logs the kind and the places of an unforeseen failure. Its own text may hold a person's words: not that."""
    places = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s failed: %s\n%s", what, type(error).__name__, places)


# ── events ─────────────────────────────────────────────────────────────────────────────────────


class EventFrame(msgspec.Struct, frozen=True):
    """An event that is encoded but for the `seq` of each connection."""

    head: bytes
    droppable: bool = False
    """Whether a slow client can go without it, since the next one of its kind repeats it all."""

    def numbered(self, seq: int) -> bytes:
        return b'%b,"seq":%d}' % (self.head, seq)

    @property
    def unnumbered(self) -> bytes:
        return self.head + b"}"


def event(
    name: str, payload: Any, *, droppable: bool = False, state_version: Any = None
) -> EventFrame:
    return spliced_event(name, encode(payload), droppable=droppable, state_version=state_version)


def spliced_event(
    name: str, payload: bytes, *, droppable: bool = False, state_version: Any = None
) -> EventFrame:
    head = b'{"type":"event","event":"%b","payload":%b' % (name.encode(), payload)
    if state_version is not None:
        head += b',"stateVersion":' + encode(state_version)
    return EventFrame(head, droppable)

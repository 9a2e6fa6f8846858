"""The common part of OpenAI's two HTTP interfaces: from a request to a run.

An agent is a model: `openclaw/<agent>` (also `openclaw:<agent>`, `agent:<agent>`), or the header
x-openclaw-agent-id; any other name means the default agent, because many programs cannot be configured
otherwise. The agent's own model for this request: the header x-openclaw-model. Which session: the header
x-openclaw-session-key, else one for `user`, else a new one.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID, uuid5

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from crossclaw.config import Config
from crossclaw.domain.errors import CrossclawError, Forbidden, Invalid, NotFound
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.door.dispatch import Door
from crossclaw.door.principal import Principal
from crossclaw.door.registry import Caller, TwoAnswers
from crossclaw.gateway.frames import log_unforeseen
from crossclaw.gateway.http.answers import invalid, json_answer, problem
from crossclaw.gateway.http.following import Followers, Following

MODEL = "openclaw"
_PREFIXES = ("openclaw:", "openclaw/", "agent:", "agent/")
_NAMESPACE = UUID(
    "9b6f5f0e-6f0c-4b55-9d0a-3d8e6a1f2c77"
)  # of session names made from a request's key
_SSE = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
STILL_HERE = b": the agent is at work\n\n"


class Streamable(Protocol):
    """A request body that says whether the answer is wanted piece by piece."""

    @property
    def stream(self) -> bool | None: ...


A = TypeVar("A", bound=Streamable)


class UnknownModel(NotFound):
    pass


class OpenAiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of either interface, in one form."""

    model: str
    words: str
    system: str = ""
    earlier: str = ""
    """Earlier messages as the client gives them, for a session that is new."""
    pictures: tuple[dict[str, str], ...] = ()
    user: str | None = None
    session: str | None = None
    """The name of a session that an earlier answer began."""


class RunUnderWay(msgspec.Struct, frozen=True):
    run_id: str
    key: str
    answers: TwoAnswers[Any]
    following: Following


class RunOutcome(msgspec.Struct, frozen=True):
    """How a run ended: its reply and what it cost."""

    reply: str
    input_tokens: int = 0
    output_tokens: int = 0


class OpenAiEndpoint(NamedTuple, Generic[A]):
    """One of the two interfaces: how its body is read, and how it answers."""

    body_type: type[A]
    request_of: Callable[[A], OpenAiRequest]
    prefix: str
    """The prefix of the names of sessions that it begins."""
    stream: Callable[[Principal, RunUnderWay, A], AsyncGenerator[bytes]]
    whole: Callable[[RunUnderWay, A, "RunOutcome"], dict[str, Any]]


class OpenAiRuns:
    def __init__(self, door: Door, followers: Followers, config: Config, ids: Ids) -> None:
        self._door = door
        self._followers = followers
        self._config = config
        self._ids = ids

    async def models(self, principal: Principal) -> list[str]:
        listed = await self._door.dispatch(Caller(principal=principal), "agents.list", {})
        return [MODEL, *(f"{MODEL}/{agent['id']}" for agent in listed.agents)]

    async def answer(
        self, request: Request, principal: Principal, way: OpenAiEndpoint[A]
    ) -> Response:
        try:
            body = msgspec.json.decode(await request.body(), type=way.body_type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return invalid(f"invalid body: {error}")
        # A program that repeats a request under one key gets one run.
        run_id = request.headers.get("idempotency-key") or self._ids.new()
        try:
            wish = way.request_of(body)
            begun = await self.begin(request, principal, wish, run_id, way.prefix)
            if body.stream:
                return event_stream(way.stream(principal, begun, body))
            return json_answer(way.whole(begun, body, await self.said(begun)))
        except Exception as error:  # noqa: BLE001  `failed` tells it, and logs what nobody foresaw
            return failed(error)

    async def begin(
        self, request: Request, principal: Principal, wish: OpenAiRequest, run_id: str, prefix: str
    ) -> RunUnderWay:
        if not wish.words.strip() and not wish.pictures:
            raise Invalid("there is no user message to answer")
        key = self._key(request.headers, wish, run_id, prefix)
        caller = Caller(principal=principal)
        params: dict[str, Any] = {
            "agentId": self._named_agent(request.headers, wish.model),
            "message": wish.words or " ",
            "sessionKey": key,
            "idempotencyKey": run_id,
        }
        if wish.earlier:
            params["earlier"] = wish.earlier
        if wish.system.strip():
            params["extraSystemPrompt"] = wish.system
        if model := request.headers.get("x-openclaw-model", "").strip():
            params["model"] = model
        if wish.pictures:
            params["attachments"] = list(wish.pictures)
        following = self._followers.follow(run_id)
        try:
            answers = await self._door.dispatch(caller, "agent", params)
        except BaseException:
            self._followers.leave(run_id, following)
            raise
        return RunUnderWay(run_id, key, answers, following)

    def _key(
        self, headers: Mapping[str, str], wish: OpenAiRequest, run_id: str, prefix: str
    ) -> str:
        if named := headers.get("x-openclaw-session-key", "").strip():
            return named
        agent_id = self._agent_id(headers, wish.model)
        if wish.user and wish.user.strip():
            return SessionKey.named(agent_id, f"{prefix}-user:{_part(wish.user)}").text
        name = wish.session or uuid5(_NAMESPACE, run_id)
        return SessionKey.named(agent_id, f"{prefix}:{name}").text

    def _agent_id(self, headers: Mapping[str, str], model: str) -> str:
        return self._named_agent(headers, model) or self._config.agents.default_id

    def _named_agent(self, headers: Mapping[str, str], model: str) -> str | None:
        agents = self._config.agents
        wanted = headers.get("x-openclaw-agent-id", "").strip()
        for prefix in _PREFIXES:
            if not wanted and model.startswith(prefix):
                wanted = model.removeprefix(prefix)
        if not wanted:
            return None
        found = agents.find(wanted)
        if found is None:
            known = ", ".join(f"{MODEL}/{each}" for each in agents.ids())
            raise UnknownModel(f"there is no agent {wanted!r}; the models are {known}")
        return found.id

    async def said(self, begun: RunUnderWay) -> RunOutcome:
        try:
            done = await begun.answers.later()
        except Exception as error:
            raise HttpRunFailed from error
        finally:
            self._followers.leave(begun.run_id, begun.following)
        payloads = done.result["payloads"]
        usage = done.result["meta"]["agentMeta"]["usage"]
        return RunOutcome(
            "\n\n".join(payload.text for payload in payloads),
            usage["input"] + usage["cacheRead"] + usage["cacheWrite"],
            usage["output"],
        )

    async def words(
        self, principal: Principal, begun: RunUnderWay
    ) -> AsyncGenerator[str | RunOutcome]:
        """The pieces of a reply as they come (an empty one: still running), then the outcome."""
        spoken = False
        try:
            # A repeated request may mean a run that is over, of which nothing more is to be heard.
            over = await self._has_ended(principal, begun.run_id)
            while not over:
                piece = await begun.following.next()
                spoken = spoken or bool(piece)
                yield piece
                over = begun.following.over or (
                    not piece and await self._has_ended(principal, begun.run_id)
                )
        finally:
            self._followers.leave(begun.run_id, begun.following)
        said = await self.said(begun)
        begun.following.check()
        if not spoken and said.reply:
            yield said.reply
        yield said

    async def _has_ended(self, principal: Principal, run_id: str) -> bool:
        params = {"runId": run_id, "timeoutMs": 0}
        waited = await self._door.dispatch(Caller(principal=principal), "agent.wait", params)
        return bool(waited.status != "timeout")


def _part(text: str) -> str:
    """A user's name as part of a key."""
    return "-".join(text.replace(":", " ").split())[:128] or "unknown"


def data_file(file: Any) -> dict[str, Any]:
    """A file inside the request, as a data URL or plain base64. Files that were uploaded before are not here."""
    data = file.get("file_data") if isinstance(file, dict) else None
    if not isinstance(data, str):
        raise Invalid(
            "a file must come as file_data with its base64; ids and addresses are not known"
        )
    name = file.get("filename")
    head, found, rest = data.partition(";base64,")
    kind = head.removeprefix("data:") if found else None
    known = {"fileName": name} if isinstance(name, str) and name else {}
    return {"mimeType": kind, "content": rest if found else data, **known}


def data_picture(url: str) -> dict[str, Any]:
    """A picture inside the request. One at an address is not fetched: that would let whoever asks
    reach what only this machine can."""
    head, found, data = url.partition(";base64,")
    if not found or not head.startswith("data:image/"):
        raise Invalid("a picture must be a data:image/…;base64, URL; addresses are not fetched")
    return {"mimeType": head.removeprefix("data:"), "content": data}


class HttpRunFailed(Exception):
    """A run that had begun has failed; `__cause__` says how."""


_ONCE = {"x-should-retry": "false"}
"""OpenAI's libraries repeat what is answered with 500 or 503, and here each repetition is a run."""


def failed(error: Exception) -> Response:
    """A failure in OpenAI's shape. An unforeseen one is not described. Clients may repeat only what was
    refused before a run began and may be accepted later."""
    match error:
        case HttpRunFailed(__cause__=Exception() as cause):
            answer = failed(cause)
            answer.headers.update(_ONCE)
            return answer
        case UnknownModel():
            return problem(str(error), "invalid_request_error", 404)
        case Forbidden():
            return problem(str(error), "permission_error", 403)
        case Invalid() | NotFound():
            return problem(str(error), "invalid_request_error", 400)
        case CrossclawError(retryable=True):
            return problem(str(error), "api_error", 503)
        case CrossclawError():
            return problem(str(error), "api_error", 500, _ONCE)
    log_unforeseen("a request over HTTP", error)
    return problem("something failed inside; the gateway's log says what", "api_error", 500, _ONCE)


def failure_text(error: Exception) -> str:
    body: dict[str, Any] = msgspec.json.decode(bytes(failed(error).body))
    return str(body["error"]["message"])


def event_stream(lines: AsyncGenerator[bytes]) -> Response:
    return StreamingResponse(lines, headers=_SSE, media_type="text/event-stream")


def sse(payload: Any, event: str | None = None) -> bytes:
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + msgspec.json.encode(payload) + b"\n\n"


DONE = b"data: [DONE]\n\n"

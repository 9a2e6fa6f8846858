"""FakeModelServer: a model service on loopback that speaks Anthropic's and OpenAI's wire, and breaks on demand.

    with FakeModelServer(["hello", Refuse("overloaded"), Broken("cut", after=3)]) as server:
        provider = AnthropicProvider("anthropic", server.url, "any-key")

It refuses what the real services refuse, so that a test notices an illegal request, and it keeps
every request in `requests`.
"""

import contextlib
import socket
import socketserver
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal, Self, cast

import msgspec

from crossclaw.domain.messages import AssistantBlock, Text
from crossclaw.testing.fake_cache import PromptCache
from crossclaw.testing.fake_listing import listing, shown
from crossclaw.testing.fake_rules import ALL, ServiceRules
from crossclaw.testing.fake_wires import WIRES, FakeTrouble, Json, Reply, Wire, wire_at

CONNECTIONS_WAITING = 1024
"""A load test opens many connections at once; the standard backlog of 5 would reset some."""

SHOW = "/api/show"

POLL_S = 0.02
"""How long closing may wait for the accepting thread."""


class FakeRequest(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    """The headers by lower-case name."""
    body: Json

    @property
    def last_text(self) -> str:
        """The words of the newest message: what a scripted answer usually depends on."""
        bodies = (self.body.get(name) for name in ("messages", "input", "contents"))
        said: list[Json] = next((body for body in bodies if body), [{}])
        content = said[-1].get("content") or said[-1].get("parts") or ""
        if isinstance(content, str):
            return content
        return "\n".join(part["text"] for part in content if "text" in part)


class Refuse(msgspec.Struct, frozen=True):
    """An HTTP error in the wire's real shape."""

    trouble: FakeTrouble
    retry_after: str | None = None
    message: str | None = None


class Broken(msgspec.Struct, frozen=True):
    """A stream that goes wrong after some events of an ordinary answer; `trickle` from its first byte."""

    how: Literal["cut", "silence", "trickle", "malformed", "error_event"]
    after: int = 3
    seconds: float = 0.0
    """How long the silence lasts, or the time between two bytes that trickle."""
    trouble: FakeTrouble = "overloaded"
    reply: Reply = Reply([Text("one two three four five")])


class Raw(msgspec.Struct, frozen=True):
    """A stream given literally: JSON becomes an event (named by its `type`), bytes go out as they are."""

    events: list[Json | bytes]
    content_type: str = "text/event-stream"


class Status(msgspec.Struct, frozen=True):
    """An answer in one piece, given literally."""

    status: int
    body: Any


ServerAnswer = str | Sequence[AssistantBlock] | Reply | Refuse | Broken | Raw | Status
ServerAnswerer = Callable[[FakeRequest], ServerAnswer]


class FakeModelServer:
    """Answers from the script, or from a function of the request; then with `default`, always.

    `delay_s` passes before each answer begins, as a model's first thought does. `rules` are what it
    refuses beyond a wrong shape (`fake_rules.py`); `cache` counts and prices what Claude's would.
    """

    def __init__(
        self,
        script: Iterable[ServerAnswer | ServerAnswerer] | ServerAnswerer = (),
        *,
        default: ServerAnswer = "Hello from the fake model.",
        delay_s: float = 0.0,
        rules: ServiceRules = ALL,
        key: str | None = None,
    ) -> None:
        self.rules = rules
        self.key = key
        """The one key that it takes; None: any."""
        self.plain: dict[str, Any] = {}
        """Answers to plain questions by their path, in place of the usual ones; None: there is no such path."""
        self.paths: list[str] = []
        """Plain questions so far, such as for the list of models."""
        self.cache = PromptCache()
        self.requests: list[FakeRequest] = []
        self.closing = threading.Event()
        self._answer: ServerAnswerer | None = script if callable(script) else None
        self._lines = deque(() if callable(script) else script)
        self._default = default
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._server = _Server(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="fake-models", daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL for Anthropic; OpenAI's is `openai_url`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def gemini_url(self) -> str:
        return f"{self.url}/v1beta"

    def queue(self, *answers: ServerAnswer | ServerAnswerer) -> None:
        with self._lock:
            self._lines.extend(answers)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.hang_up()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def answer(self, request: FakeRequest) -> ServerAnswer:
        """Called by the serving threads: remembers the request and finds what to say."""
        with self._lock:
            self.requests.append(request)
        if not self.takes_key(request.headers):
            return Refuse("unauthorized")
        complaint = WIRES[request.path].complaint(request.headers, request.body, self.rules)
        if complaint:
            return Refuse(complaint[0], message=complaint[1])
        line = self._answer or self._next_line()
        self.closing.wait(self._delay_s)
        return line(request) if callable(line) else line

    def _next_line(self) -> ServerAnswer | ServerAnswerer:
        with self._lock:
            return self._lines.popleft() if self._lines else self._default

    def answer_plainly(self, path: str, headers: dict[str, str], body: Json) -> tuple[int, Json]:
        with self._lock:
            self.paths.append(path)
        if not self.takes_key(headers):
            return 401, {"error": {"message": "invalid key", "type": "authentication_error"}}
        name = path.partition("?")[0]
        if name in self.plain:
            found = self.plain[name]
        else:
            found = shown(str(body.get("model"))) if name == SHOW else listing(path, headers)
        missing = {"error": {"message": f"no such path or model: {path}"}}
        return (200, found) if found else (404, missing)

    def takes_key(self, headers: dict[str, str]) -> bool:
        given = [headers.get(name, "") for name in ("authorization", "x-api-key", "x-goog-api-key")]
        return self.key is None or any(each.endswith(self.key) for each in given)


class _Server(socketserver.ThreadingTCPServer):
    # `HTTPServer` would ask the resolver for this host's name first, which can take seconds.
    allow_reuse_address = True
    daemon_threads = False
    request_queue_size = CONNECTIONS_WAITING

    def __init__(self, gateway: FakeModelServer) -> None:
        self.gateway = gateway
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Closes kept-alive connections, which would hold their threads until the client leaves."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def gateway(self) -> FakeModelServer:
        return cast(_Server, self.server).gateway

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.DecodeError as error:
            self._send_json(400, {"error": {"message": f"the body is no JSON object: {error}"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if self.path == SHOW:
            self._send_json(*self.gateway.answer_plainly(self.path, headers, body))
            return
        wire = wire_at(self.path, body)
        if wire is None:
            self._send_json(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        self._play(wire, body, self.gateway.answer(FakeRequest(wire.path, headers, body)))

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send_json(*self.gateway.answer_plainly(self.path, headers, {}))

    def _play(self, wire: Wire, body: Json, answer: ServerAnswer) -> None:
        if isinstance(answer, Refuse):
            self._refuse(wire, answer)
            return
        if isinstance(answer, Status):
            self._send_json(answer.status, answer.body)
            return
        if isinstance(answer, str):
            answer = Reply([Text(answer)])
        elif not isinstance(answer, Reply | Broken | Raw):
            answer = Reply(list(answer))
        if isinstance(answer, Reply) and not body.get("stream") and "contents" not in body:
            self._send_json(200, wire.whole(answer, body))
            return
        content_type = answer.content_type if isinstance(answer, Raw) else wire_type(wire)
        self._stream(self._events(wire, body, answer), content_type)

    def _refuse(self, wire: Wire, refusal: Refuse) -> None:
        status, body = wire.error(refusal.trouble, refusal.message)
        self._send_json(status, body, refusal.retry_after)

    def _send_json(self, status: int, body: Json, retry_after: str | None = None) -> None:
        data = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[bytes], content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")

    def _events(self, wire: Wire, body: Json, answer: Reply | Broken | Raw) -> Iterator[bytes]:
        match answer:
            case Reply():
                yield from wire.events(answer, body)
            case Raw(events=events):
                for event in events:
                    yield event if isinstance(event, bytes) else _data(event)
            case Broken():
                yield from self._broken_events(wire, wire.events(answer.reply, body), answer)

    def _broken_events(self, wire: Wire, events: list[bytes], broken: Broken) -> Iterator[bytes]:
        if broken.how == "trickle":
            yield from self._trickle(b"".join(events), broken.seconds)
            return
        yield from events[: broken.after]
        match broken.how:
            case "cut":
                self.close_connection = True
                return
            case "silence":
                self.gateway.closing.wait(broken.seconds)
            case "malformed":
                yield wire.malformed_event()
            case "error_event":
                yield wire.error_event(broken.trouble)
                return
        yield from events[broken.after :]

    def _trickle(self, stream: bytes, gap_s: float) -> Iterator[bytes]:
        for place in range(len(stream)):
            if self.gateway.closing.wait(gap_s):
                self.close_connection = True
                return
            yield stream[place : place + 1]


def wire_type(wire: Wire) -> str:
    return "application/x-ndjson" if wire.path == "/api/chat" else "text/event-stream"


def _data(event: Json) -> bytes:
    name = f"event: {event['type']}\n".encode() if "type" in event else b""
    return name + b"data: " + msgspec.json.encode(event) + b"\n\n"

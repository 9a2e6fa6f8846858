"""FakeSignalCli: a signal-cli daemon with one account, and the people who write to it.

By the man pages and the classes of signal-cli 0.13.19 (read on 2026-11-16), whose real daemon `test_signal.py` asks for the same
refusals. Strict: unknown methods (-32601), accounts (-32602), groups and recipients, styles beyond the end of the text. What it
has written to a connection is gone; what nobody listens for waits at Signal. JsonLines of JSON over memory, so that tests run in
virtual time.
"""

import itertools
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.websocket import Dial
from crossclaw.testing.time import NOON_MS
from tests.channels.fake_socket import READ_BYTES, memory_pair

ACCOUNT, OWN_UUID = "+4915100000001", "11111111-1111-4111-8111-111111111111"
GROUP = "Pmpi+EfPWmsxiomLe9Nx2XF9HOE483p6iKiFj65iMwI="
_STYLE = re.compile(r"(\d+):(\d+):(BOLD|ITALIC|SPOILER|STRIKETHROUGH|MONOSPACE)")
_PERSON = re.compile(r"\+[1-9]\d{4,14}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
CutAt = Literal["before", "read", "after"]


class Refused(Exception):
    def __init__(self, number: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.number, self.text, self.data = number, text, data


def failed(kind: str, **more: Any) -> dict[str, Any]:
    return {"response": {"timestamp": 1, "results": [{"type": kind, **more}]}}


class FakeSignalCli:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        """What people got to see: (to, text)."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, str] = {}
        """In base64, as the daemon gives them."""
        self.cuts: deque[CutAt] = deque()
        self._places: dict[int, int] = {}
        self.refusals: deque[Refused] = deque()
        self.effects: deque[Callable[[], None]] = deque()
        self.effects_on_listening: list[Callable[[], None]] = []
        self.listening = anyio.Event()
        self._waiting: deque[dict[str, Any]] = deque()
        self._times = itertools.count(NOON_MS)
        self._news = anyio.Event()

    # ── people ─────────────────────────────────────────────────────────────────────────────────

    def say(self, text: str, *, number: str | None, uuid: str, **data: Any) -> dict[str, Any]:
        """Answers the envelope, as the daemon writes it."""
        at = next(self._times)
        message = {"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": False}
        said: dict[str, Any] = self.bring(
            {
                "source": number or uuid,
                "sourceNumber": number,
                "sourceUuid": uuid,
                "sourceName": "Ann",
                "sourceDevice": 1,
                "timestamp": at,
                "serverReceivedTimestamp": at,
                "serverDeliveredTimestamp": at,
                "dataMessage": {**message, **data},
            }
        )
        return said

    def bring(self, envelope: Any) -> Any:
        self._waiting.append(envelope)
        self._news.set()
        return envelope

    async def wait_seen(self, count: int) -> None:
        while len(self.seen) < count:
            await self._wait()

    async def _wait(self) -> None:
        if self._news.is_set():
            self._news = anyio.Event()
        await self._news.wait()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # ── the daemon ─────────────────────────────────────────────────────────────────────────────

    def dial(self, tasks: anyio.abc.TaskGroup) -> Dial:
        async def dial(host: str, port: int, tls: bool) -> anyio.abc.ByteStream:
            if self.cuts and self.cuts[0] == "before":
                self.cuts.popleft()
                raise ConnectionRefusedError(111, "connection refused")
            here, there = memory_pair()
            tasks.start_soon(self._converse, there)
            return here

        return dial

    async def _converse(self, stream: anyio.abc.ByteStream) -> None:
        rest = b""
        try:
            async with stream:
                while True:
                    rest += await stream.receive(READ_BYTES)
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        if not await self._answer(stream, msgspec.json.decode(line)):
                            return
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    async def _answer(self, stream: anyio.abc.ByteStream, asked: dict[str, Any]) -> bool:
        """False: the connection ends here."""
        sends = asked["method"] == "send"
        cut = self.cuts.popleft() if sends and self.cuts else None
        if cut == "read":
            return False
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            answer["result"] = self._do(asked["method"], asked.get("params", {}))
        except Refused as refused:
            answer["error"] = {
                "code": refused.number,
                "message": refused.text,
                "data": refused.data,
            }
        if sends and "result" in answer and self.effects:
            self.effects.popleft()()
        if cut == "after":
            return False
        await stream.send(msgspec.json.encode(answer) + b"\n")
        if asked["method"] == "subscribeReceive" and "result" in answer:
            await self._hand_over(stream)
        return True

    async def _hand_over(self, stream: anyio.abc.ByteStream) -> None:
        self.listening.set()
        while self.effects_on_listening:
            self.effects_on_listening.pop()()
        while True:
            while self._waiting:
                envelope = self._waiting.popleft()
                result = {"envelope": envelope, "account": ACCOUNT}
                params = {"subscription": 0, "result": result}
                message = {"jsonrpc": "2.0", "method": "receive", "params": params}
                await stream.send(msgspec.json.encode(message) + b"\n")
            await self._wait()

    def _do(self, method: str, params: dict[str, Any]) -> Any:
        self.calls.append((method, params))
        match method:
            case "version":
                return {"version": "0.13.19"}
            case "listAccounts":
                return [{"number": ACCOUNT}]
        if method not in HANDLED:
            raise Refused(-32601, "Method not implemented")
        if params.get("account") != ACCOUNT:
            raise Refused(-32602, "Specified account does not exist")
        match method:
            case "getUserStatus":
                return [
                    {
                        "recipient": ACCOUNT,
                        "number": ACCOUNT,
                        "uuid": OWN_UUID,
                        "isRegistered": True,
                    }
                ]
            case "send":
                return self._send(params)
            case "getAttachment":
                return {"data": self.files[params["id"]]}
        return 0 if method == "subscribeReceive" else {}

    def _send(self, params: dict[str, Any]) -> Any:
        if self.refusals:
            raise self.refusals.popleft()
        to = _check(params)
        at = next(self._times)
        if (edited := params.get("editTimestamp")) is not None:
            if edited not in self._places:
                raise Refused(-1, "Message to edit not found")
            self.seen[self._places[edited]] = (to, params["message"])
        else:
            self._places[at] = len(self.seen)
            self.seen.append((to, params["message"]))
        self._news.set()
        return {"timestamp": at, "results": [{"type": "SUCCESS"}]}


HANDLED = (
    "getUserStatus",
    "subscribeReceive",
    "send",
    "sendTyping",
    "sendReaction",
    "getAttachment",
)


def _check(params: dict[str, Any]) -> str:
    places = [name for name in ("recipient", "groupId", "username") if params.get(name)]
    if len(places) != 1:
        raise Refused(-1, "No recipients given")
    if "groupId" in params and params["groupId"] != GROUP:
        raise Refused(-1, "Invalid group id")
    for person in params.get("recipient", ()):
        if not _PERSON.fullmatch(person):
            raise Refused(-1, f"Invalid phone number {person}")
    text = params.get("message")
    if not isinstance(text, str) or (not text and not params.get("attachment")):
        raise Refused(-1, "Message and attachment are empty")
    units = len(text.encode("utf-16-le")) // 2
    for style in params.get("text-style", ()):
        found = _STYLE.fullmatch(style)
        if not found or int(found[1]) + int(found[2]) > units:
            raise Refused(-1, f"Invalid style syntax ({style})")
    for file in params.get("attachment", ()):
        if not re.match(r"data:[\w/.+-]+;filename=[^;,]+;base64,", file):
            raise Refused(-1, "Failed to read attachment")
    return str(params.get("groupId") or params.get("username") or params["recipient"][0])

"""A served gateway, and the laws that hold in it whatever anybody sends."""

import gc
import json
import logging
import os
import re
import time
from asyncio import all_tasks  # noqa: TID251  what is counted are the loop's own tasks
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import SocketType
from typing import Any, TypeVar

import apsw
import httpx2
import msgspec
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from crossclaw.config import Paths
from crossclaw.domain.secret import Secret
from crossclaw.door.registry import Method
from crossclaw.gateway import watchdog
from crossclaw.gateway.client import Client
from crossclaw.gateway.event_types import EVENT_TYPES
from crossclaw.gateway.http.following import Following
from crossclaw.gateway.subscribers import Subscription
from tests.proof.size import EXAMPLES_FULL, FULL
from tests.wire.served_gateway import TOKEN, ServedGateway, open_with_server, serve_gateway
from tests.wire.serving import connect_params

Test = TypeVar("Test", bound=Callable[..., None])

PATIENCE_S = 45  # for an answer; on a machine that does much else at the same time
STATE = "gateway-whose-place-is-nobodys-business"
FEW = 4
STANDS_STILL_S = 0.2  # twice what a gateway counts: four at once on two cores, each has half of one
HOOK_TOKEN = "a-token-for-hooks-that-nobody-should-ever-read"
HIDDEN = "agent:helper:xyzzy-hidden"
HIDDEN_WORDS = "xyzzy-hidden"
INSIDE = "something failed inside"
NEVER = ("Traceback (most recent", 'File "/', INSIDE, "log says", TOKEN, HOOK_TOKEN)
"""What no answer contains."""
SECTIONS: dict[str, Any] = {
    "agents": {
        "defaults": {"sandbox": {"mode": "non-main"}, "heartbeat": {"every": "0m"}},
        "list": [{"id": "main", "default": True}, {"id": "helper"}],
    },
    "hooks": {"enabled": True, "token": Secret(HOOK_TOKEN), "allowRequestSessionKey": True},
    "gateway": {"tools": {"allow": ["exec", "write", "edit"]}},
    "tools": {"sessions": {"historyBytes": 80_000}},
}


class Complaints(logging.Handler):
    """Whatever is logged as an error: nothing that a stranger sends is one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))


class Watched:
    def __init__(
        self, served_gateway: ServedGateway, portal: BlockingPortal, complaints: Complaints
    ) -> None:
        self.served_gateway = served_gateway
        self._http = httpx2.Client(base_url=served_gateway.url, timeout=PATIENCE_S)
        self._portal = portal
        self._stalls_of_ours = 0
        self._complaints = complaints
        store = Paths(
            served_gateway.folder, served_gateway.folder / "state", served_gateway.folder / "x"
        ).ledger_path
        self._store = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
        named = self._store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        # A refusal is remembered in the audit; what is searched follows the entries.
        self._tables = [name for (name,) in named if not name.startswith(("entries_", "audit"))]

    def close(self) -> None:
        self._store.close()
        self._http.close()

    def stalls(self) -> int:
        """How often the loop was kept busy for longer than `STANDS_STILL_S`: everybody waited then. What
        the test itself does in the loop is not counted."""
        found = self._http.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
        counted = re.search(r'crossclaw_loop_stalls_total\{kind="busy"\} (\d+)', found)
        assert counted is not None, found
        return int(counted[1]) - self._stalls_of_ours

    @contextmanager
    def nobody_waits(self) -> Iterator[None]:
        before = self.stalls()
        yield
        assert self.stalls() == before, "the loop stood still, and everybody waited"

    def serves(self) -> bool:
        return self._http.get("/health").status_code == 200

    # ── the ledger ─────────────────────────────────────────────────────────────────────────────

    def rows(self) -> dict[str, int]:
        return {name: self._number(f"SELECT count(*) FROM {name}") for name in self._tables}

    def check_unchanged(self, refused: Callable[[], object]) -> None:
        """What changed with a refusal may be the work of others; with the same one three times it is not."""
        for _ in range(3):
            self.wait_for_rest()
            before = self.rows()
            refused()
            if self.rows() == before:
                return
        raise AssertionError(f"a refusal changed the ledger: {before} became {self.rows()}")

    def wait_for_rest(self) -> None:
        """Until no run is under way and nothing waits to be delivered."""
        open_runs = "SELECT count(*) FROM runs WHERE ended_at IS NULL"
        until = time.monotonic() + PATIENCE_S
        while self._number(open_runs):
            assert time.monotonic() < until, "runs never end"
            time.sleep(0.005)

    def _number(self, query: str) -> int:
        return int(next(self._store.execute(query))[0])

    # ── what is held ───────────────────────────────────────────────────────────────────────────

    def held(self) -> dict[str, int]:
        """What the gateway holds while nobody is connected."""
        before = self.stalls()
        found = {"sockets": _sockets(), **self._portal.call(_in_the_loop)}
        self._stalls_of_ours += self.stalls() - before
        return found

    def check_held(self, before: dict[str, int]) -> None:
        """No more than before, as soon as those who left are gone; but for the last few who were here, whom
        somebody who waits for the next one may still know."""
        until = time.monotonic() + PATIENCE_S
        while any(now[name] > before[name] + FEW for now in [self.held()] for name in now):
            assert time.monotonic() < until, f"{self.held()} is held, {before} was"
            time.sleep(0.02)

    def complaints(self) -> list[str]:
        found, self._complaints.found = self._complaints.found, []
        return found


def _sockets() -> int:
    """And pipes. Transcripts that stay open for a while have a limit of their own."""
    open_files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    named = [os.readlink(each) for each in open_files if os.path.exists(each)]
    return sum(1 for name in named if name.startswith(("socket:", "pipe:")))


async def _in_the_loop() -> dict[str, int]:
    gc.collect()
    kinds = (Client, Subscription, Following)
    living = [each for each in gc.get_objects() if isinstance(each, kinds)]
    return {"tasks": len(all_tasks()), "clients and what they follow": len(living)}


@contextmanager
def watched_gateway(folder: Path) -> Iterator[Watched]:
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    gc.collect()
    gc.freeze()  # what the tests hold is not looked through while the gateway serves
    try:
        with (
            pytest.MonkeyPatch.context() as slower,
            start_blocking_portal("asyncio") as portal,
            portal.wrap_async_context_manager(
                serve_gateway(folder / STATE, **SECTIONS)
            ) as served_gateway,
        ):
            slower.setattr(watchdog, "STALL_S", STANDS_STILL_S)
            watched = Watched(served_gateway, portal, complaints)
            try:
                _first_visit(watched)
                with watched.nobody_waits():
                    yield watched
            finally:
                watched.close()
    finally:
        gc.unfreeze()
        logging.getLogger().removeHandler(complaints)


def _first_visit(watched: Watched) -> None:
    """What is held from the first visit on is held once: a connection of ours, the last one who came."""
    assert watched.serves()
    visitor = Visitor(watched.served_gateway)
    assert visitor.ask("health", {})[0]["ok"]
    visitor.close()


class Visitor:
    """A client that is in, and comes again when it is sent away."""

    def __init__(self, served_gateway: ServedGateway, **changes: Any) -> None:
        self._served_gateway = served_gateway
        self._changes = changes
        self._count = 0
        self._leaving = ExitStack()
        self._socket: ClientConnection | None = None
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        self._leaving.close()
        self._socket = None

    def ask(self, method: str, params: Any, answers: int = 1) -> list[dict[str, Any]]:
        """All answers to one request. One that was closed on has the reason instead."""
        self._count += 1
        request_id = f"q{self._count}"
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        found = self.ask_all([json.dumps(frame)], answers)
        assert all(each.get("id", request_id) == request_id for each in found), found
        return found

    def ask_at_once(self, asked: Sequence[tuple[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
        """Requests of which none waits for another, and all answers, each with its method."""
        socket, found = self._connected(), list[tuple[str, dict[str, Any]]]()
        methods, owed = dict[str, str](), dict[str, int]()
        try:
            for method, params in asked:
                self._count += 1
                name = f"q{self._count}"
                methods[name], owed[name] = method, 2 if method == "agent" else 1
                frame = {"type": "req", "id": name, "method": method, "params": params}
                socket.send(json.dumps(frame))
            while any(count > 0 for count in owed.values()):
                answer = self._next(socket)
                if answer["type"] == "event":
                    self.events.append(answer)
                    continue
                assert owed[answer["id"]] > 0, f"one answer too many: {answer}"
                owed[answer["id"]] -= 1 if answer["ok"] else 2
                found.append((methods[answer["id"]], answer))
        except ConnectionClosed as closed:
            self.close()
            found.append(("", {"ok": False, "closed": reason_of(closed)}))
        return found

    def ask_all(self, frames: Sequence[Any], answers: int = 1) -> list[dict[str, Any]]:
        """Sent in one go, then read: so many answers for each, unless it is refused."""
        found: list[dict[str, Any]] = []
        socket, owed = self._connected(), len(frames) * answers
        try:
            for frame in frames:
                socket.send(frame)
            while owed > 0:
                answer = self._next(socket)
                if answer["type"] == "event":
                    self.events.append(answer)
                    continue
                found.append(answer)
                owed -= 1 if answer["ok"] else answers
        except ConnectionClosed as closed:
            self.close()
            found.append({"ok": False, "closed": reason_of(closed)})
        return found

    def _next(self, socket: ClientConnection) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
        return answer

    def _connected(self) -> ClientConnection:
        if self._socket is not None:
            return self._socket
        # What it does not read yet waits here and not on the wire, where pings would wait behind it.
        dialled = connect(
            self._served_gateway.ws,
            proxy=None,
            max_size=None,
            max_queue=None,
            ping_interval=None,
            open_timeout=PATIENCE_S,
        )
        self._socket = self._leaving.enter_context(dialled)
        self._next(self._socket)
        hello = self.ask("connect", connect_params(**self._changes))
        assert hello[0]["ok"], hello
        return self._socket


# The gateway lives in a thread beside Hypothesis, which takes its random numbers for those of a strategy.
beside_a_gateway = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")


def hostile(sample: int, full: int = EXAMPLES_FULL) -> Callable[[Test], Test]:
    """So many examples of what nobody should send; in `make test` the same every time, because what a new
    one finds is for whoever looks for it and not for whoever passes by."""
    return settings(
        max_examples=full if FULL else sample,
        deadline=None,
        derandomize=not FULL,
        suppress_health_check=list(HealthCheck),
    )


# ── laws ───────────────────────────────────────────────────────────────────────────────────────


def read_to_the_end(peer: SocketType) -> None:
    """However the other side ends it: who is cut off while it still sends finds its connection reset."""
    with suppress(ConnectionResetError):
        while peer.recv(65536):
            pass


def reason_of(closed: ConnectionClosed) -> str:
    assert closed.rcvd is not None, "closed without a word"
    assert closed.rcvd.reason, f"closed without a reason: {closed.rcvd}"
    return closed.rcvd.reason


def check_names(refused: Exception, path: Path) -> None:
    assert str(path) in str(refused)


def check_answer(answer: dict[str, Any], method: Method[Any] | None) -> None:
    text = json.dumps(answer)
    for each in NEVER:
        assert each not in text, answer
    tells_paths = method is not None and method.scope == "operator.admin"
    assert answer.get("ok") or tells_paths or STATE not in text, answer
    if "closed" in answer:
        return
    if not answer["ok"]:
        assert answer["error"]["message"].strip(), answer
        return
    if method is not None:
        msgspec.convert(answer["payload"], method.result, strict=True)


def check_event(frame: dict[str, Any]) -> None:
    assert frame["event"] in EVENT_TYPES, frame
    msgspec.convert(frame["payload"], EVENT_TYPES[frame["event"]][0], strict=True)


async def every_method(folder: Path) -> list[Method[Any]]:
    async with open_with_server(folder) as (gateway, _server):
        return list(gateway.door.registry)

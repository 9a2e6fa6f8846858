"""What the client does when its gateway cuts the line or an event is missing: nothing twice, nothing lost."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from websockets.sync.server import ServerConnection, serve

from crossclaw.client import GatewayClient, GatewayDown, ReplyFailed, RunReply, connect
from tests.cli.fake_gateway import TOKEN, Chat, FakeGateway, Frame
from tests.ending import beside


class CuttingGateway(FakeGateway):
    """Cuts the connection in place of the first answer to each of `cuts`: the request has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts: set[str] = set()

    def _answer(self, socket: ServerConnection, request: Frame) -> None:
        if request["method"] in self.cuts:
            self.cuts.discard(request["method"])
            self.requests.append(request)
            socket.close(1012, "service restart")
            return
        super()._answer(socket, request)


@pytest.fixture
def gateway() -> Generator[CuttingGateway]:
    gateway = CuttingGateway()
    with serve(gateway.handle, "127.0.0.1", 0) as server:
        gateway.port = server.socket.getsockname()[1]
        with beside(server.serve_forever):
            yield gateway
            server.shutdown()


@pytest.fixture
def client(gateway: CuttingGateway) -> Generator[GatewayClient]:
    with connect(gateway.url, token=TOKEN) as client:
        yield client


def test_a_request_that_may_have_arrived_goes_again_only_where_twice_is_as_good_as_once(
    gateway: CuttingGateway, client: GatewayClient
) -> None:
    gateway.answers |= {"cron.run": {"ok": True}, "cron.list": {"jobs": []}}
    gateway.cuts = {"cron.run", "cron.list", "chat.send"}

    with pytest.raises(GatewayDown) as down:
        client.call("cron.run", {"id": "1"})
    listed = client.call("cron.list", {}, repeat=True)
    sent = client.submit("Hello")

    assert down.value.may_have_arrived
    assert len(gateway.params_of("cron.run")) == 1
    assert (listed, len(gateway.params_of("cron.list"))) == ({"jobs": []}, 2)
    first, second = gateway.params_of("chat.send")
    assert first == second
    assert sent.run_id == first["idempotencyKey"]


def test_a_client_that_shall_not_wait_for_its_gateway_ends_with_the_first_lost_connection(
    gateway: CuttingGateway,
) -> None:
    gateway.cuts = {"health"}
    with connect(gateway.url, token=TOKEN, away_s=0) as client:
        for _ in range(2):
            with pytest.raises(GatewayDown):
                client.call("health", {}, repeat=True)

    assert len(gateway.params_of("connect")) == 1


@pytest.mark.parametrize("seqs", [(1, 3), (1, 2)], ids=["one is missing", "all are there"])
def test_after_a_gap_in_the_events_the_reply_is_read_from_what_is_stored(
    gateway: CuttingGateway, client: GatewayClient, seqs: tuple[int, int]
) -> None:
    has_gap = seqs == (1, 3)

    def say(chat: Chat) -> None:
        run_id = gateway.params_of("chat.send")[0]["idempotencyKey"]
        stored = {
            "role": "assistant",
            "content": [{"type": "text", "text": "All of it."}],
            "__openclaw": {"runId": run_id},
        }
        gateway.answers["chat.history"] = {"messages": [stored]}
        gateway.answers["agent.wait"] = {"status": "ok"}
        if len(gateway.params_of("chat.send")) > 1:
            return
        for seq in seqs:
            payload: dict[str, Any] = {
                "runId": run_id,
                "sessionKey": "agent:main:main",
                "state": "delta",
            }
            frame = {"type": "event", "event": "chat", "seq": seq, "payload": payload}
            chat._socket.send(json.dumps(frame))
        if not has_gap:
            chat.final("All of it.")

    gateway.chat = say

    pieces = list(client.stream("Hello", timeout_s=20))

    assert isinstance(pieces[-1], RunReply)
    assert pieces[-1].text == "All of it."
    assert len(gateway.params_of("agent.wait")) == (1 if has_gap else 0)


OVERDUE = "the run was stopped: the time that a run may take was over"
ENDS: dict[str, tuple[Frame, Frame, tuple[str, str | None]]] = {
    "ok": ({"status": "ok"}, {"state": "final"}, ("ok", None)),
    "overdue": (
        {"status": "error", "stopReason": "timeout", "error": "timeout"},
        {"state": "aborted", "stopReason": "timeout"},
        ("error", OVERDUE),
    ),
    "aborted": (
        {"status": "error", "stopReason": "aborted", "error": "stopped by the client"},
        {"state": "aborted", "stopReason": "rpc"},
        ("aborted", "the run was aborted"),
    ),
    "failed": (
        {"status": "error", "error": "no luck"},
        {"state": "error", "errorMessage": "no luck"},
        ("error", "no luck"),
    ),
}
"""How a run ends: what `agent.wait` says, what the event says, and what a program is told."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "way", ["wait", "send", "stream", "send after a gap", "stream after a gap"]
)
def test_a_run_has_one_end_however_the_client_learns_of_it(
    gateway: CuttingGateway, client: GatewayClient, end: str, way: str
) -> None:
    waited, event, told = ENDS[end]
    gateway.answers |= {"agent.wait": waited, "chat.history": {"messages": []}}
    gateway.chat = lambda chat: chat.cut() if "gap" in way else chat.end(**event)

    assert _end(client, way) == told


def _end(client: GatewayClient, way: str) -> tuple[str, str | None]:
    try:
        if way == "wait":
            reply = client.wait(client.submit("Hello"))
        elif way.startswith("send"):
            reply = client.send("Hello", timeout_s=20)
        else:
            *_, last = client.stream("Hello", timeout_s=20)
            assert isinstance(last, RunReply)
            reply = last
    except ReplyFailed as failed:
        reply = failed.reply
    return reply.status, reply.error

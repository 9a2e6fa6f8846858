"""Asking, over a real socket."""

import json
import logging

import anyio
import pytest

from crossclaw.gateway.limits import GatewayLimits
from tests.wire.serving import guest, open_server


@pytest.mark.spec("G1")
@pytest.mark.parametrize("protocol", [3, 4])
async def test_unknown_methods_and_bad_parameters_leave_the_connection_open(protocol: int) -> None:
    async with open_server() as served, guest(served, protocol) as peer:
        unknown = await peer.ask("nope", {})
        extra = await peer.ask("echo", {"word": 1})
        kind = await peer.ask("echo", {"text": 1})
        no_object = await peer.ask("echo", [])
        fine = await peer.ask("echo", {"text": "hi"})

    assert unknown["error"] == {"code": "INVALID_REQUEST", "message": "unknown method: nope"}
    assert extra["error"]["message"] == ("invalid echo params: at root: unexpected property 'word'")
    assert kind["error"]["message"].startswith("invalid echo params: at /text: ")
    assert no_object["error"]["code"] == "INVALID_REQUEST"
    assert fine == {"type": "res", "id": fine["id"], "ok": True, "payload": {"text": "hi"}}


@pytest.mark.spec("G1")
async def test_scopes_are_enforced_and_refusals_remembered() -> None:
    scopes = ["operator.read", "operator.write"]
    async with open_server() as served:
        async with (
            guest(served, 4, scopes=scopes) as four,
            guest(served, 3, scopes=scopes) as three,
        ):
            new, old = await four.ask("rule"), await three.ask("rule")
            assert (await four.ask("echo"))["ok"]
        async with guest(served, 4, scopes=[]) as nobody:
            nothing = await nobody.ask("echo")

    assert new["error"] == {
        "code": "FORBIDDEN",
        "message": "missing scope: operator.admin",
        "details": {
            "code": "MISSING_SCOPE",
            "missingScope": "operator.admin",
            "requiredScopes": ["operator.admin"],
        },
    }
    assert old["error"] == {
        "code": "INVALID_REQUEST",
        "message": "missing scope: operator.admin",
    }
    assert nothing["error"]["message"] == "missing scope: operator.read"
    assert [audit.action for audit in served.ledger.audits] == ["rule", "rule", "echo"]


@pytest.mark.spec("G1")
async def test_a_request_that_waits_does_not_hold_up_others() -> None:
    async with open_server() as served, guest(served) as peer:
        waiting = await peer.send("wait")
        for number in range(50):
            answer = await peer.ask("echo", {"text": str(number)})
            assert answer["payload"]["text"] == str(number)
        served.release.set()

        assert (await peer.answer(waiting))["payload"] == {"waited": True}


async def test_quick_requests_are_answered_in_their_order() -> None:
    async with open_server() as served, guest(served) as peer:
        asked = [await peer.send("echo", {"text": str(number)}) for number in range(300)]
        answered: list[str] = []
        while len(answered) < 300:
            frame = await peer.next()
            if frame["type"] == "res":
                answered.append(frame["id"])

    assert answered == asked


@pytest.mark.spec("G1", "G2")
async def test_a_method_may_answer_twice() -> None:
    async with open_server() as served, guest(served) as peer:
        request = await peer.send("twice", {})
        first = await peer.answer(request)
        assert (await peer.ask("echo"))["ok"]
        served.release.set()
        second = await peer.answer(request)

    assert first["payload"] == {"runId": "r1", "status": "accepted"}
    assert second["payload"] == {"runId": "r1", "status": "ok"}


@pytest.mark.spec("G1")
async def test_the_second_answer_may_be_a_failure() -> None:
    async with open_server() as served, guest(served) as peer:
        request = await peer.send("twice", {"text": "fail"})
        await peer.answer(request)
        served.release.set()
        second = await peer.answer(request)

    assert second["ok"] is False
    assert second["payload"] == {
        "runId": "r1",
        "status": "error",
        "summary": "the model was not there",
    }
    assert second["error"] == {"code": "UNAVAILABLE", "message": "the model was not there"}


async def test_a_failure_that_nobody_foresaw_is_logged_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_server() as served, guest(served) as peer:
        with caplog.at_level(logging.ERROR):
            failed = await peer.ask("fail")
            refused = await peer.ask("fail", {"text": "invalid"})

    assert failed["error"]["code"] == "UNAVAILABLE"
    assert "secret" not in json.dumps(failed)
    assert refused["error"] == {"code": "INVALID_REQUEST", "message": "that cannot be"}
    assert "method fail failed: KeyError" in caplog.text
    assert "serving.py" in caplog.text  # the place is there
    assert 'raise KeyError("a secret word")' in caplog.text  # as code, which is no person's word
    assert "KeyError: " not in caplog.text


async def test_too_many_requests_at_once_are_told_to_come_later() -> None:
    limits = GatewayLimits(requests_at_once=2, refusals=1)
    async with open_server(limits=limits) as served, guest(served) as peer:
        for _ in range(2):
            await peer.send("wait")
        answers = [await peer.ask("echo") for _ in range(5)]
        served.release.set()
        await anyio.sleep(0.05)
        later = await peer.ask("echo")

    assert all(answer["error"]["retryable"] for answer in answers)
    assert later["ok"]


async def test_who_cannot_be_helped_is_sent_away() -> None:
    limits = GatewayLimits(refusals=5, refusal_refill_s=60)
    async with open_server(limits=limits) as served, guest(served) as peer:
        for _ in range(7):
            await peer.send("nope")

        assert await peer.closed() == (1008, "too many refused requests")


async def test_binary_frames_are_read_like_text() -> None:
    async with open_server() as served, guest(served) as peer:
        await peer.socket.send(b'{"type":"req","id":"b","method":"echo"}')

        assert (await peer.answer("b"))["ok"]


async def test_who_leaves_gives_up_what_it_asked() -> None:
    async with open_server() as served:
        async with guest(served) as peer:
            await peer.send("wait")
            await peer.send("twice")
        async with guest(served) as other:
            assert len(served.server.presence()) == 2
            assert (await other.ask("echo"))["ok"]

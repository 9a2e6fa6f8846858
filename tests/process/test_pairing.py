"""A yes to a device survives kill -9: it was given or it was not, and whoever heard of it has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.process.program import PATIENCE_S, Folder, Program
from tests.wire.serving import SignedDevice, connect_params


def knock(program: Program, device: SignedDevice, token: str) -> dict[str, Any]:
    """The answer to a device that comes through a proxy."""
    headers = {"X-Forwarded-For": "203.0.113.7"}
    url = f"ws://127.0.0.1:{program.port}"
    with connect(url, proxy=None, additional_headers=headers, open_timeout=PATIENCE_S) as socket:
        challenge = json.loads(socket.recv(PATIENCE_S))["payload"]
        params = connect_params(auth={"token": token})
        params["device"] = device.sign(params, challenge["nonce"], challenge["ts"], "v3")
        frame = {"type": "req", "id": "1", "method": "connect", "params": params}
        socket.send(json.dumps(frame))
        answer: dict[str, Any] = json.loads(socket.recv(PATIENCE_S))
    return answer


@pytest.mark.spec("B1")
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("method", ["device.pair.approve", "device.pair.remove"])
def test_a_decision_about_a_device_is_whole_after_a_kill(
    tmp_path: Path, method: str, answered: bool
) -> None:
    folder, device = Folder(tmp_path), SignedDevice()
    with folder.serve() as program:
        asked = knock(program, device, folder.token)["error"]["details"]["requestId"]
        with program.client() as owner:
            if method == "device.pair.remove":
                owner.ask("device.pair.approve", {"requestId": asked})
            one = (
                {"requestId": asked} if method == "device.pair.approve" else {"deviceId": device.id}
            )
            sent = owner.send(method, one)
            if answered:
                owner.answer(sent)
            program.kill()

    with folder.serve() as program, program.client() as owner:
        listed = owner.ask("device.pair.list", {})
        pending = [each["deviceId"] for each in listed["pending"]]
        paired = [each["deviceId"] for each in listed["paired"]]
        if answered:
            assert paired == ([device.id] if method == "device.pair.approve" else [])
            assert pending == []
        else:
            undone = pending if method == "device.pair.approve" else paired
            done = [] if undone else [device.id]
            assert (undone, done) in (([device.id], []), ([], [device.id]))
            assert [*pending, *paired].count(device.id) <= 1
        comes_in = knock(program, device, folder.token)["ok"]
        assert comes_in == (paired == [device.id])


@pytest.mark.spec("C2")
def test_a_person_lets_a_device_in_and_sends_it_away(tmp_path: Path) -> None:
    folder, device = Folder(tmp_path), SignedDevice()

    def types(*words: str) -> tuple[int, str]:
        with folder.start("devices", *words) as command:
            return command.wait(), command.said

    with folder.serve() as program:
        asked = knock(program, device, folder.token)["error"]["details"]["requestId"]
        _, waiting = types("list")
        assert asked in waiting
        assert types("approve", asked)[0] == 0
        assert knock(program, device, folder.token)["ok"]
        assert device.id[:12] in types()[1]
        assert types("revoke", device.id[:12])[0] == 0
        refused, said = types("reject", "nothing")
        assert refused != 0
        assert "unknown requestId" in said
        assert not knock(program, device, folder.token)["ok"]

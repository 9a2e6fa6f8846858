"""The servers of the other tests are what they claim to be."""

from pathlib import Path

import httpx2
import pytest

from tests.channels.signal_cli import open_signal_cli
from tests.channels.synapse import Synapse

pytestmark = pytest.mark.real


def test_a_real_synapse_shows_one_event_for_one_transaction_id_whatever_it_holds(
    synapse: Synapse,
) -> None:
    ann, bob = synapse.register("ann"), synapse.register("bob")
    room = ann.make_room(bob.user_id)
    bob.join(room)
    path = f"/v3/rooms/{room}/send/m.room.message/one"
    first = ann.call("PUT", path, {"msgtype": "m.text", "body": "hello"})
    again = ann.call("PUT", path, {"msgtype": "m.text", "body": "other words"})
    assert first == again
    assert bob.wait_for(room, ann.user_id) == ["hello"]


def test_a_real_signal_cli_tells_its_version_and_refuses_an_account_it_does_not_have(
    tmp_path: Path,
) -> None:
    with open_signal_cli(tmp_path) as daemon:

        def ask(method: str, **params: object) -> dict[str, object]:
            body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
            answer = httpx2.post(f"{daemon.http_url}/api/v1/rpc", json=body)
            told: dict[str, object] = answer.json()
            return told

        assert ask("version")["result"] == {"version": "0.13.19"}
        assert ask("listAccounts")["result"] == []
        refused = ask("send", account="+4915112345678", recipient=["+4915112345679"], message="hi")
        assert refused["error"] == {
            "code": -32602,
            "message": "Specified account does not exist",
            "data": None,
        }

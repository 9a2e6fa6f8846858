"""`pairing` and `deliveries` in the terminal: who asks to talk, and replies of which nobody knows whether they arrived."""

import anyio
import pytest

from crossclaw.domain.clock import SystemClock
from crossclaw.ledger.channels import ChatPairingRequest, RequestPairing
from crossclaw.ledger.opening import open_ledger
from tests.cli.fake_gateway import FakeGateway
from tests.cli.person import Person

ANN, EVE = ("123", "ABCD2345", "Ann\nmay talk now"), ("666", "WXYZ6789", "Eve")


async def ask_to_talk(person: Person) -> None:
    now = SystemClock().now_ms()
    person.state.mkdir(mode=0o700, exist_ok=True)
    ledger = open_ledger(person.state / "crossclaw.sqlite")
    for sender, code, name in (ANN, EVE):
        request = ChatPairingRequest(
            channel="telegram",
            account_id="default",
            sender=sender,
            code=code,
            created_at=now,
            last_seen_at=now,
            expires_at=now + 3_600_000,
            sender_name=name,
        )
        await ledger.do(RequestPairing(request=request, pending_max=3))
    await ledger.close()


@pytest.mark.spec("C2", "N8")
def test_who_asks_is_listed_and_let_in(person: Person) -> None:
    anyio.run(ask_to_talk, person)
    listed = person.types("pairing", "list")
    approved = person.types("pairing", "approve", "telegram", "abcd2345")

    rows = listed.stdout.splitlines()
    assert len(rows) == 3, "a name writes no line of its own"
    assert {row.split()[0] for row in rows[1:]} == {"ABCD2345", "WXYZ6789"}
    assert approved.stdout.startswith("123 (Ann")
    assert approved.stdout.endswith("may talk now on telegram.\n")
    assert len(approved.stdout.splitlines()) == 1


@pytest.mark.spec("C2", "N8")
def test_who_asks_is_refused_and_who_was_let_in_is_sent_away(
    person: Person, gateway: FakeGateway
) -> None:
    request = {"sender": "666", "senderName": "Eve", "channel": "telegram"}
    gateway.answers |= {"chat.pairing.deny": {"request": request}, "chat.pairing.remove": {"removed": False}}  # fmt: skip
    denied = person.types("pairing", "deny", "--channel", "telegram", "WXYZ6789", "--account", "work")  # fmt: skip
    nobody = person.types("pairing", "remove", "telegram", "123")
    unsaid = person.types("pairing", "approve", "telegram")

    assert denied.stdout == "666 (Eve) may not talk on telegram.\n"
    asked = {"channel": "telegram", "code": "WXYZ6789", "accountId": "work"}
    assert gateway.params_of("chat.pairing.deny") == [asked]
    assert (nobody.returncode, nobody.stdout) == (1, "123 was not approved on telegram\n")
    assert gateway.params_of("chat.pairing.remove") == [{"channel": "telegram", "sender": "123"}]  # fmt: skip
    assert (unsaid.returncode, "the channel and the code" in unsaid.stdout) == (2, True)


@pytest.mark.spec("C2", "B2")
def test_a_reply_of_which_nobody_knows_is_listed_and_settled(
    person: Person, gateway: FakeGateway
) -> None:
    row = {"id": "delivery:7", "what": "a reply to telegram 123", "why": "the connection broke", "since": 1}  # fmt: skip
    gateway.answers |= {"attention.list": {"rows": [row]}, "deliveries.resend": {}, "deliveries.delivered": {}}  # fmt: skip
    listed = person.types("deliveries", "list")
    again = person.types("deliveries", "resend", "7")
    arrived = person.types("deliveries", "delivered", "7")

    assert listed.stdout.splitlines()[1].split()[0] == "7"
    assert "the connection broke" in listed.stdout
    assert (again.stdout, arrived.stdout) == ("It is sent again.\n", "It counts as delivered.\n")
    assert gateway.params_of("deliveries.resend") == [{"id": 7}]
    assert gateway.params_of("deliveries.delivered") == [{"id": 7}]
    assert gateway.params_of("attention.list") == [{"kinds": ["delivery"]}]

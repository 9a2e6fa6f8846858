"""`doctor` on chat accounts: which are not set up, and who shares the main session."""

import json
from pathlib import Path
from typing import Any

import pytest

from crossclaw.cli.channel_checks import chat_accounts, shared_session
from crossclaw.cli.place import find_place
from crossclaw.ledger.channels import ChatPairingRequest, DecidePairing, RequestPairing
from crossclaw.ledger.opening import open_ledger

TELEGRAM = {"botToken": "1:a"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def let_in(path: Path, *senders: str) -> None:
    ledger = open_ledger(path, inline=True)
    for number, sender in enumerate(senders):
        request = ChatPairingRequest(
            channel="telegram", account_id="default", sender=sender, code=f"AAAA222{number}",
            sender_name=None, created_at=1, last_seen_at=1, expires_at=99,
        )  # fmt: skip
        await ledger.do(RequestPairing(request=request, pending_max=9))
        decide = DecidePairing(
            channel="telegram", code=request.code, approve=True, at=2, by="owner"
        )
        await ledger.do(decide)
    await ledger.close()


@pytest.mark.parametrize(
    ("telegram", "more", "paired", "told"),
    [
        ({}, {}, ["7"], None),
        ({}, {}, ["7", "8"], "2 people may write"),
        ({"allowFrom": [1]}, {}, ["7"], "2 people may write"),
        ({"allowFrom": [1], "dmPolicy": "allowlist"}, {}, ["7"], None),
        ({"allowFrom": ["*"], "dmPolicy": "open"}, {}, [], "everybody may write"),
        ({}, {"session": {"dmScope": "per-peer"}}, ["7", "8"], None),
        ({}, {"commands": {"ownerAllowFrom": ["telegram:7"]}}, ["7", "8"], "others said"),
    ],
)
async def test_several_people_in_one_session_are_told(
    tmp_path: Path, telegram: dict[str, Any], more: dict[str, Any], paired: list[str], told: str | None
) -> None:  # fmt: skip
    config = {"channels": {"telegram": TELEGRAM | telegram}, **more}
    (tmp_path / "openclaw.json").write_text(json.dumps(config))
    place = find_place({"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)})
    await let_in(place.paths.ledger_path, *paired)

    found = list(shared_session(place))

    if told is None:
        assert found == []
        return
    (finding,) = found
    assert told in finding.text
    assert ("commands.ownerAllowFrom" in finding.text) == ("commands" not in more)
    assert finding.todo == "crossclaw config set session.dmScope per-channel-peer"


def test_an_account_that_lacks_something_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    config = {"channels": {"telegram": TELEGRAM, "whatsapp": {"allowFrom": ["+4917012345"]}}}
    (tmp_path / "openclaw.json").write_text(json.dumps(config))
    place = find_place({"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path)})

    (finding,) = chat_accounts(place)

    assert (finding.subject, finding.grade) == ("whatsapp default", "warning")
    assert "not set up" in finding.text
    assert "WHATSAPP_ACCESS_TOKEN" in str(finding.todo)

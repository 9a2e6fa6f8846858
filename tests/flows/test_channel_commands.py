"""`crossclaw channels` on a gateway with a Telegram account (the strict fake): a test message says what became of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from crossclaw.app import Gateway
from crossclaw.channels.http import HttpClients
from crossclaw.cli.channels import TEST_WORDS, concerns, probe, send_test
from crossclaw.cli.exits import CommandFailed, Exit
from crossclaw.config import Config
from crossclaw.config.section import Loose
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.door.principal import session_principal
from crossclaw.providers.rehearsal import RehearsalProvider
from crossclaw.testing import open_gateway
from tests.channels.fake_http import FakeTransport
from tests.channels.telegram.fake import FakeTelegram
from tests.flows.talking import call

TOKEN, WRONG = "700:AAE-the-token", "701:AAE-wrong"
ANN = 1001
AGENT = session_principal(SessionKey.main("main"), Authority())


class Beside:
    """A peer that asks the gateway's own door."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def call(
        self, method: str, params: dict[str, Any], timeout_s: float | None = None
    ) -> Any:
        return await call(self._gateway, method, **params)


def typed(target: str | None = None, account: str | None = None) -> Any:
    return SimpleNamespace(channel="telegram", target=target, account=account)


@pytest.mark.spec("N2", "C2")
async def test_a_test_message_and_a_probe_say_what_became_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    telegram = FakeTelegram()
    telegram.add_bot(TOKEN)
    telegram.add_chat(ANN)
    accounts = {"default": {"botToken": TOKEN}, "other": {"botToken": WRONG}}
    config: Config = msgspec.structs.replace(
        Config(), channels=Loose.of({"telegram": {"accounts": accounts}})
    )
    http = FakeTransport({"api.telegram.org": telegram})
    async with open_gateway(
        tmp_path, RehearsalProvider(), config=config, http=lambda: HttpClients(http)
    ) as gateway:
        peer: Any = Beside(gateway)
        assert await send_test(typed(str(ANN)), peer) == Exit.OK
        with pytest.raises(CommandFailed, match=r"it failed because .*chat not found"):
            await send_test(typed("9999"), peer)
        telegram.cut("/sendMessage", "after")
        with pytest.raises(CommandFailed, match="nobody knows whether it arrived"):
            await send_test(typed(str(ANN)), peer)
        telegram.away = True
        with pytest.raises(CommandFailed, match="it has not gone out yet: ") as late:
            await send_test(typed(str(ANN)), peer)
        telegram.away = False
        assert await probe(typed(account="default"), peer) == Exit.OK
        assert await probe(typed(), peer) == Exit.FAILED
        with pytest.raises(CommandFailed, match="no account of telegram is set up"):
            await probe(typed(account="third"), peer)
        with pytest.raises(NotFound):
            await call(gateway, "deliveries.wait", messageId="send:nobody")
        with pytest.raises(Forbidden):
            await call(gateway, "deliveries.wait", AGENT, messageId="send:x")

    assert late.value.exit_code == Exit.TIMEOUT
    assert telegram.texts(ANN)[:2] == [TEST_WORDS, TEST_WORDS]
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["It has arrived.", "telegram default answers as @claw_bot"]
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    assert all(f"\n{line}\n" in page for line in said[:2])
    assert said[3].startswith("telegram other failed because Telegram does not know this bot token")


@pytest.mark.parametrize(
    ("entry", "account", "shown"),
    [
        ("ERROR crossclaw.channels.supervisor: telegram account old failed because of x", "old", True),
        ("ERROR crossclaw.channels.supervisor: telegram account old failed because of x", "new", False),
        ("ERROR crossclaw.channels.supervisor: telegram account old failed because of x", None, True),
        ("WARNING crossclaw.channels.telegram.account: an update was passed over", "new", True),
        ("WARNING crossclaw.channels.hosting: matrix account old: no answer", "old", False),
        ("INFO crossclaw.app.serving: listening", None, False),
    ],
)  # fmt: skip
def test_a_line_of_the_log_is_shown_for_its_channel_and_not_for_another_account(
    entry: str, account: str | None, shown: bool
) -> None:
    assert concerns(f"2026-11-16 09:00:00,000 {entry}", ["telegram"], account) is shown

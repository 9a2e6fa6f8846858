"""The account on the fake, call by call, and on the real signal-cli as far as it goes without a number of its own."""

import base64
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from crossclaw.channels.contract import OutgoingFile, Piece
from crossclaw.channels.http import HttpClients
from crossclaw.channels.signal.account import SignalAccount, open_account
from crossclaw.channels.signal.client import open_client
from crossclaw.channels.signal.settings import SignalSettings
from crossclaw.domain.addresses import Address, Attachment, Inbound
from crossclaw.domain.errors import AccountBroken, ChannelDown, DeliveryError, MediaRefused
from tests.channels.signal.fake import ACCOUNT, GROUP, FakeSignalCli
from tests.channels.signal_cli import PROGRAM, environment, open_signal_cli

pytestmark = [pytest.mark.anyio, pytest.mark.spec("N4")]

ANN = "+4915112345678"


class SignalHost:
    channel, account_id = "signal", "default"

    def __init__(self, http: HttpClients) -> None:
        self.http = http
        self.received: list[Inbound] = []
        self.troubles: list[str] = []
        self.facts: Any = None

    async def receive(self, inbound: Inbound) -> None:
        self.received.append(inbound)

    async def connected(self, facts: Any) -> None:
        self.facts = facts

    def heard(self) -> None:
        return None

    def troubled(self, error: str) -> None:
        self.troubles.append(error)


def account_on(url: str, http: HttpClients, **more: Any) -> SignalAccount:
    settings = SignalSettings(account=ACCOUNT, http_url=url, **more)
    return open_account(settings, SignalHost(http))  # type: ignore[arg-type]


def piece(to: str, text: str, **more: Any) -> Piece:
    return Piece(
        address=Address("signal", to, "default"),
        text=text,
        formatted=more.pop("formatted", text),
        delivery_key="k",
        **more,
    )


@pytest.mark.spec("N9")
async def test_words_styles_quotes_files_typing_and_reactions_are_as_signal_cli_takes_them() -> (
    None
):
    fake = FakeSignalCli()
    async with anyio.create_task_group() as tasks:
        account = account_on("tcp://x:1", HttpClients(dial=fake.dial(tasks)))
        host = account._host
        await tasks.start(account.serve, host)
        group = {"groupInfo": {"groupId": GROUP, "type": "DELIVER"}}
        said = fake.say("hi", number=ANN, uuid="aaaaaaaa-1111-4222-8333-444444444444", **group)
        while not host.received:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await anyio.sleep(0.01)
        at = str(said["timestamp"])
        file = OutgoingFile(kind="image", data=b"png", mime="image/png", name="a;b,c.png")
        where = Address("signal", f"group:{GROUP}", "default")
        formatted = "\ufdd0hello\ufdd1"
        await account.send(piece(where.to, "hello", formatted=formatted, reply_to=at, media=file))
        await account.show_typing(where)
        await account.react(where, at, "👀")
        await account.react(where, "999", "👀")
        fake.files["f1"] = base64.b64encode(b"data").decode()
        account._files["f1"] = where
        assert await account.fetch(Attachment(kind="image", id="f1"), 10) == b"data"
        with pytest.raises(MediaRefused):
            await account.fetch(Attachment(kind="image", id="f1"), 3)
        tasks.cancel_scope.cancel()
    made = [(method, params) for method, params in fake.calls if method not in BEFORE]
    sent = made[0][1]
    assert (sent["message"], sent["text-style"], sent["groupId"]) == ("hello", ["0:5:BOLD"], GROUP)
    assert (sent["quoteTimestamp"], sent["quoteAuthor"]) == (int(at), ANN)
    assert sent["attachment"] == ["data:image/png;filename=a_b_c.png;base64,cG5n"]
    assert [method for method, _ in made] == [
        "send",
        "sendTyping",
        "sendReaction",
        *["getAttachment"] * 2,
    ]
    assert made[2][1]["targetAuthor"] == ANN


BEFORE = ("version", "listAccounts", "getUserStatus", "subscribeReceive")


async def test_an_account_that_is_no_number_is_refused_with_what_to_write() -> None:
    with pytest.raises(AccountBroken, match=r"\+49"):
        open_account(SignalSettings(account="ann"), SignalHost(HttpClients()))  # type: ignore[arg-type]


@pytest.mark.real
async def test_a_real_daemon_is_asked_over_http_tcp_and_unix_and_has_no_such_account(
    tmp_path: Path,
) -> None:
    with open_signal_cli(tmp_path) as daemon:
        for url in (daemon.http_url, daemon.tcp_url, daemon.unix_url):
            http = HttpClients()
            account = account_on(url, http)
            with pytest.raises(AccountBroken, match="no account"):
                await account.probe()
            with pytest.raises(DeliveryError) as refused:
                await account.send(piece(ANN, "hi"))
            assert (refused.value.retryable, "-32602" in str(refused.value)) == (False, True)
            await http.close()
        http = HttpClients()
        with anyio.fail_after(60):  # the headers of the stream come with its first sign of life
            async with aclosing(open_client(daemon.http_url, "", http).events()) as events:
                assert await anext(events) is None
        with pytest.raises(ChannelDown, match="400"):
            await anext(open_client(daemon.http_url, ACCOUNT, http).events())
        await http.close()
    http = HttpClients()
    with pytest.raises(DeliveryError) as away:
        await account_on(daemon.tcp_url, http).send(piece(ANN, "hi"))
    assert away.value.retryable


@pytest.mark.real
async def test_a_daemon_that_the_gateway_starts_and_that_has_no_account_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    program, said = tmp_path / "signal-cli", tmp_path / "said"
    program.write_text(f'#!/bin/sh\nexec sh {PROGRAM} "$@" 2>{said}\n')
    os.chmod(program, 0o755)
    settings = SignalSettings(
        account=ACCOUNT, cli_path=str(program), http_port=1, startup_timeout_ms=60_000
    )
    host = SignalHost(HttpClients())
    account = open_account(settings, host)  # type: ignore[arg-type]
    with pytest.raises(ExceptionGroup) as ended:
        await account.serve(host)  # type: ignore[arg-type]
    await host.http.close()

    assert f"User {ACCOUNT} is not registered" in said.read_text()
    assert ended.group_contains(AccountBroken, match="ended at once with code 1; try it by hand: ")

"""Jobs, hooks and announces reach the account and the thread that is meant."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.addresses import Address
from crossclaw.domain.errors import Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession, Session
from crossclaw.ledger.operations import EnsureSession
from crossclaw.schedule.job_runs import bound_accounts, find_address
from crossclaw.testing import MemoryChannel, ScriptedProvider, open_gateway
from tests.flows.talking import call, say, two_agents
from tests.flows.test_exchanges import LIBRARIAN, settled, talkative
from tests.flows.test_models_allowed import HOOK


def two_accounts() -> tuple[MemoryChannel, MemoryChannel]:
    return MemoryChannel(), MemoryChannel(account_id="work")


def arrived(channel: MemoryChannel) -> list[tuple[str, str | None, str]]:
    return [(each.address.to, each.address.thread_id, each.text) for each in channel.pieces]


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_job_and_a_hook_reply_by_the_account_and_in_the_thread_they_name(
    tmp_path: Path,
) -> None:
    default, work = two_accounts()
    where = {"channel": "memory", "to": "g1", "accountId": "work"}
    provider = ScriptedProvider(lambda _request: "news")
    async with open_gateway(tmp_path, provider, channels=[default, work]) as gateway:
        job = await call(
            gateway,
            "cron.add",
            name="report",
            schedule={"kind": "at", "at": "2026-01-01T12:01:00Z"},
            payload={"kind": "agentTurn", "message": "write"},
            delivery={"mode": "announce", "threadId": 7, **where},
        )
        blank = await call(
            gateway,
            "cron.add",
            name="blank",
            schedule={"kind": "every", "everyMs": 3_600_000},
            payload={"kind": "agentTurn", "message": "write"},
            delivery={"mode": "none", "to": " ", "threadId": "", "accountId": "work"},
        )
        await anyio.sleep(70)
        run = await call(gateway, "hooks.agent", HOOK, message="x", threadId="9", **where)
        await gateway.run_store.wait(run["runId"])
        await work.wait_sent(2)
        with pytest.raises(Invalid, match="no account 'home'"):
            await call(
                gateway,
                "cron.add",
                name="lost",
                schedule={"kind": "every", "everyMs": 60_000},
                payload={"kind": "agentTurn", "message": "write"},
                delivery={"mode": "announce", **where, "accountId": "home"},
            )

    assert job["delivery"] == {"mode": "announce", "threadId": 7, **where}
    assert blank["delivery"] == {"mode": "none", "accountId": "work"}
    assert arrived(work) == [("g1", "7", "news"), ("g1", "9", "news")]
    assert default.sent == []


@pytest.mark.anyio
@pytest.mark.spec("S7")
async def test_the_announce_of_an_exchange_goes_to_the_targets_account_and_thread(
    tmp_path: Path,
) -> None:
    default, work = two_accounts()
    config = two_agents()
    model = talkative(skip_at=1)
    async with open_gateway(tmp_path, model, config=config, channels=[default, work]) as gateway:
        address = Address("memory", "g1", "work", "7")
        new = NewSession(key=LIBRARIAN, session_id="s-lib", address=address)
        await gateway.ledger.do(EnsureSession(new=new, at=1))
        await say(gateway, "main", "ask", "r1")
        await settled(gateway)
        await work.wait_sent(1)

    assert arrived(work) == [("g1", "7", "All settled.")]
    assert default.sent == []


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (("last", None), Address("telegram", "-100", "work", "7")),
        ((None, None, "home"), Address("telegram", "-100", "home", "7")),
        (("telegram", "-200"), Address("telegram", "-200", "work", named=True)),
        (("telegram", "-100"), Address("telegram", "-100", "work", "7", named=True)),
        (("telegram", "-100", "home"), Address("telegram", "-100", "home", named=True)),
        (("telegram", "-100", None, "8"), Address("telegram", "-100", "work", "8", named=True)),
        (("matrix", "!r"), Address("matrix", "!r", "bot2", named=True)),
        (("matrix", "!r", "home"), Address("matrix", "!r", "home", named=True)),
        (("telegram", "-200:topic:3"), Address("telegram", "-200", "work", "3", named=True)),
        (("telegram", "-200:topic:3", None, "4"), Address("telegram", "-200", "work", "4", named=True)),
        (("bluebubbles", "+4915"), Address("imessage", "+4915", named=True)),
        (("discord", None), None),
    ],
)  # fmt: skip
def test_what_a_target_does_not_name_is_that_of_the_last_chat_on_the_same_channel(
    named: tuple[Any, ...], found: Address | None
) -> None:
    last = Address("telegram", "-100", "work", "7")
    main = Session(SessionKey.main("main"), "s", 1, 1, last_address=last)

    bindings = [
        {"agentId": "main", "match": {"channel": "matrix", "accountId": "*"}},
        {"agentId": "other", "match": {"channel": "matrix", "accountId": "bot1"}},
        {"agentId": "Main", "match": {"channel": "matrix", "accountId": "bot2"}},
        {"agentId": "main", "match": {"channel": "matrix", "accountId": "bot3"}},
        {"agentId": "main", "match": {"channel": "telegram", "accountId": "bound"}},
    ]
    config = msgspec.convert({"bindings": bindings}, Config)

    assert find_address(*named, main=main, bound=bound_accounts(config, "main")) == found

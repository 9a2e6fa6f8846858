"""Which agent answers a chat, in which session, and when that one begins anew."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.config.doors import CommandsConfig
from crossclaw.config.session import ResetRule
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.keys import SessionKey
from crossclaw.policy.freshness import decide_reset, session_type
from crossclaw.policy.owner import decide_owner
from crossclaw.sessions.route import agent_for, route

AGENTS = {"list": [{"id": "main"}, {"id": "work"}, {"id": "home"}]}


def config(**raw: Any) -> Config:
    return msgspec.convert({"agents": AGENTS, **raw}, Config)


def message(
    channel: str = "telegram", sender: str = "42", account: str | None = None, **more: Any
) -> Inbound:
    address = Address(channel, more.pop("to", sender), account)
    return Inbound(address=address, sender=sender, text="hi", message_id="1", **more)


def bound(agent: str, **match: Any) -> dict[str, Any]:
    return {"agentId": agent, "match": {"channel": "telegram", **match}}


@pytest.mark.spec("K2", "K4")
@pytest.mark.parametrize(
    ("bindings", "inbound", "agent"),
    [
        ([], message(), "main"),
        ([bound("work")], message(), "work"),
        ([bound("Work")], message(), "work"),
        ([bound("work")], message("discord"), "main"),
        ([bound("work", channel="BlueBubbles")], message("imessage"), "work"),
        ([bound("work", channel="Memory")], message("memory"), "work"),
        ([bound("work")], message(account="second"), "main"),
        ([bound("work", accountId="*")], message(account="second"), "work"),
        ([bound("work", accountId="second")], message(account="second"), "work"),
        ([bound("work", accountId="second")], message(), "main"),
        ([bound("work"), bound("home")], message(), "work"),
        (
            [bound("work"), bound("home", peer={"kind": "dm", "id": "42"})],
            message(),
            "home",
        ),
        ([bound("home", peer={"kind": "direct", "id": "43"})], message(), "main"),
        (
            [bound("home", peer={"kind": "group", "id": "G1"})],
            message(chat_type="group", chat_id="g1", to="g1"),
            "home",
        ),
        (
            [bound("home", peer={"kind": "dm", "id": "42"})],
            message(chat_type="group", chat_id="g1", to="g1"),
            "main",
        ),
        ([bound("ghost")], message(), "main"),
        ([bound("work", guildId="1")], message(), "main"),
        (
            [bound("work", accountId="*"), bound("home", accountId="default")],
            message(),
            "home",
        ),
    ],
)
def test_the_binding_that_says_most_chooses_the_agent(
    bindings: list[dict[str, Any]], inbound: Inbound, agent: str
) -> None:
    assert agent_for(config(bindings=bindings), inbound) == agent


@pytest.mark.spec("K4", "K5")
@pytest.mark.parametrize(
    ("session", "inbound", "key"),
    [
        ({}, message(), "agent:main:main"),
        ({"dmScope": "per-peer"}, message(), "agent:main:dm:42"),
        ({"dmScope": "per-channel-peer"}, message(), "agent:main:telegram:dm:42"),
        (
            {"dmScope": "per-account-channel-peer"},
            message(account="Second"),
            "agent:main:telegram:second:dm:42",
        ),
        (
            {"dmScope": "per-peer", "identityLinks": {"ana": ["telegram:42"]}},
            message(),
            "agent:main:dm:ana",
        ),
        ({"scope": "global"}, message(), "global"),
        (
            {"scope": "global"},
            message(chat_type="group", chat_id="g1", to="g1"),
            "agent:main:telegram:group:g1",
        ),
    ],
)
def test_a_message_finds_its_session(session: dict[str, Any], inbound: Inbound, key: str) -> None:
    assert route(config(session=session), inbound).text == key


def test_a_key_that_was_written_down_reads_back_even_when_it_is_the_shared_one() -> None:
    for key in (SessionKey.shared(), SessionKey.main("work"), SessionKey.cron("main", "j")):
        assert SessionKey.stored(key.text) == key


@pytest.mark.parametrize(
    ("owners", "channel", "sender", "is_owner"),
    [
        ([], "telegram", "42", False),
        (["telegram:42"], "telegram", "42", True),
        (["Telegram:42"], "telegram", "42", True),
        (["telegram:42"], "discord", "42", False),
        ([42], "discord", "42", True),
        (["42"], "telegram", "421", False),
        (["*"], "telegram", "42", False),
    ],
)
@pytest.mark.spec("Y2")
def test_the_owner_is_whom_the_config_names(
    owners: list[Any], channel: str, sender: str, is_owner: bool
) -> None:
    settings = msgspec.convert({"ownerAllowFrom": owners}, CommandsConfig)
    assert decide_owner(settings, channel, sender).allowed is is_owner


def at(text: str, zone: Any = UTC) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize(
    ("rule", "last", "now", "anew"),
    [
        (None, "2026-01-01T00:00", "2026-06-01T00:00", False),
        (ResetRule(None, 60), "2026-06-01T10:00", "2026-06-01T11:00", False),
        (ResetRule(None, 60), "2026-06-01T10:00", "2026-06-01T11:01", True),
        (ResetRule(4, None), "2026-06-01T03:59", "2026-06-01T04:00", True),
        (ResetRule(4, None), "2026-06-01T04:00", "2026-06-01T23:00", False),
        (ResetRule(4, None), "2026-06-01T23:00", "2026-06-02T03:59", False),
        (ResetRule(4, None), "2026-05-31T03:00", "2026-06-01T03:00", True),
        (ResetRule(4, 30), "2026-06-01T10:00", "2026-06-01T10:31", True),
    ],
)
def test_a_session_begins_anew_only_when_its_rule_says_so(
    rule: ResetRule | None, last: str, now: str, anew: bool
) -> None:
    assert decide_reset(rule, at(last), at(now), UTC).allowed is anew


def test_days_of_23_and_25_hours_have_one_new_morning() -> None:
    zone = ZoneInfo("Europe/Madrid")
    for day, before in (("2026-03-29", "2026-03-28"), ("2026-10-25", "2026-10-24")):
        rule, last = ResetRule(4, None), at(f"{before}T22:00", zone)
        assert not decide_reset(rule, last, at(f"{day}T03:59", zone), zone).allowed
        assert decide_reset(rule, last, at(f"{day}T04:00", zone), zone).allowed


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:main:main", "direct"),
        ("agent:main:telegram:dm:42", "direct"),
        ("agent:main:telegram:group:g", "group"),
        ("agent:main:slack:channel:c:thread:7", "thread"),
        ("agent:main:telegram:group:g:topic:7", "thread"),
    ],
)
def test_rules_are_chosen_by_the_type_of_a_session(key: str, kind: str) -> None:
    assert session_type(SessionKey.parse(key)) == kind


@pytest.mark.spec("K2", "K4")
def test_a_server_says_more_than_an_account_and_less_than_a_chat_or_the_chat_around_it() -> None:
    rules = [
        bound("server", guildId="1"),
        bound("account", accountId="default"),
        bound("around", peer={"kind": "channel", "id": "c1"}),
        bound("chat", peer={"kind": "channel", "id": "t1"}),
    ]
    agents = {
        "list": [{"id": each["agentId"]} for each in rules] + [{"id": "rest", "default": True}]
    }
    thread = {"chat_type": "channel", "chat_id": "t1", "parent_chat_id": "c1", "guild_id": "1"}
    found = [
        agent_for(config(agents=agents, bindings=rules[:count]), message(**thread))
        for count in range(len(rules), 0, -1)
    ]
    assert found == ["chat", "around", "server", "server"]
    elsewhere = message(**{**thread, "guild_id": "2"})
    assert agent_for(config(agents=agents, bindings=rules[:1]), elsewhere) == "rest"


@pytest.mark.spec("K2")
def test_threads_are_spelled_as_openclaw_spells_them() -> None:
    def key(channel: str, **more: Any) -> str:
        where = Address(channel, "g", thread_id="7")
        return route(
            config(), Inbound(address=where, sender="42", text="", message_id="1", **more)
        ).text

    group = {"chat_type": "group", "chat_id": "g"}
    assert key("telegram", **group) == "agent:main:telegram:group:g:topic:7"
    assert key("telegram") == "agent:main:main:thread:7"
    assert key("slack", chat_type="channel", chat_id="g") == "agent:main:slack:channel:g:thread:7"
    assert key("matrix", **group) == "agent:main:matrix:group:g"
    assert key("slack") == "agent:main:main"

"""Rows of the session tools: which kind a session is, and which channel it belongs to."""

from pathlib import Path

import msgspec
import pytest

from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import Kind, SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.sessions.budgets import BudgetRow
from crossclaw.sessions.rows import channel_field, tool_row
from crossclaw.sessions.where import address_of

GROUP = "agent:main:discord:group:1"
DIRECT = "agent:main:notes"


def session(key: str, channel: str | None = None, last: str | None = None) -> Session:
    address = Address(last, "42") if last else None
    return Session(SessionKey.parse(key), "s", 0, 0, channel=channel, last_address=address)


@pytest.mark.spec("L5")
@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:main:main", "main"),
        ("agent:ops:main", "main"),
        (GROUP, "group"),
        ("agent:main:slack:channel:c:thread:9", "group"),
        ("agent:ops:cron:j1", "cron"),
        ("hook:u1", "hook"),
        ("node-n1", "node"),
        ("agent:main:subagent:u1", "other"),
        ("agent:main:telegram:dm:ana", "other"),
        (DIRECT, "other"),
    ],
)
def test_a_session_has_the_kind_that_its_key_tells(key: str, kind: Kind) -> None:
    assert SessionKey.parse(key).kind == kind


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    ("row", "channel"),
    [
        (session(GROUP, channel="telegram", last="webchat"), "telegram"),
        (session(GROUP), "discord"),
        (session(DIRECT, channel="webchat", last="signal"), "signal"),
        (session(DIRECT, channel="webchat"), "webchat"),
        (session(DIRECT), "unknown"),
        (session("cron:j1", channel="telegram", last="telegram"), "internal"),
        (session("hook:u1"), "internal"),
        (session("node-n1"), "internal"),
    ],
)
def test_the_channel_is_the_groups_own_or_where_a_chat_was_last_talked_to(
    row: Session, channel: str
) -> None:
    assert channel_field(row) == channel


@pytest.mark.spec("L3")
def test_a_row_says_all_that_is_known_of_a_session() -> None:
    known = Session(
        SessionKey.parse(GROUP), "s1", 1, 86_400_000, "discord", "The club", "club", model="x/y",
        thinking="high", verbose="full", send_policy="deny", total_tokens=7, context_tokens=9,
        system_sent=True, aborted_last_run=True, last_address=Address("discord", "42", "work", "t9"),
        unreadable=True,
    )  # fmt: skip
    budget = BudgetRow(text="little", tokens_spent=1, cost_usd_spent=0.5)

    row = tool_row(
        known, caller_agent_id="main", model="x/y", window=1_000, transcript=Path("/t.jsonl"),
        messages=[{"id": "e1"}], budget=budget, agent_gone=True,
    )  # fmt: skip

    assert msgspec.to_builtins(row) == {
        "key": GROUP, "kind": "group", "channel": "discord", "updatedAt": 86_400_000,
        "updated": "Fri 1970-01-02 00:00 UTC", "sessionId": "s1", "displayName": "The club", "label": "club",
        "model": "x/y", "contextTokens": 9, "totalTokens": 7, "thinkingLevel": "high", "verboseLevel": "full",
        "systemSent": True, "abortedLastRun": True, "sendPolicy": "deny", "lastChannel": "discord",
        "lastTo": "42", "deliveryContext": {"channel": "discord", "to": "42", "accountId": "work"},
        "transcriptPath": "/t.jsonl", "messages": [{"id": "e1"}], "agentGone": True, "unreadable": True,
        "budget": {"text": "little", "tokensSpent": 1, "costUsdSpent": 0.5},
    }  # fmt: skip


@pytest.mark.spec("L3")
def test_a_row_leaves_out_what_is_not_known_and_has_the_models_window() -> None:
    row = tool_row(
        session("agent:main:main"), caller_agent_id="main", model="x/y", window=1_000, transcript=None
    )  # fmt: skip

    assert msgspec.to_builtins(row) == {
        "key": "main", "kind": "main", "channel": "unknown", "updatedAt": 0, "sessionId": "s",
        "updated": "Thu 1970-01-01 00:00 UTC", "model": "x/y", "contextTokens": 1_000, "totalTokens": 0,
        "systemSent": False, "abortedLastRun": False,
    }  # fmt: skip


@pytest.mark.spec("P6")
@pytest.mark.parametrize(
    ("of", "address"),
    [
        (None, None),
        (session(DIRECT), None),
        (session(DIRECT, last="signal"), Address("signal", "42")),
        (session(GROUP, last="telegram"), Address("telegram", "42")),
        (session(GROUP), Address("discord", "1")),
        (
            session("agent:main:matrix:group:!r:server.org:thread:9"),
            Address("matrix", "!r:server.org", thread_id="9"),
        ),
    ],
)
def test_a_chat_is_where_it_was_last_talked_to_or_what_the_groups_key_says(
    of: Session | None, address: Address | None
) -> None:
    assert address_of(of) == address

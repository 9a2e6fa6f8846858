"""Decisions that say why: the send policy and agent-to-agent reach."""

from itertools import product

import msgspec
import pytest

from crossclaw.config.session import SendMatch, SendPolicy, SendRule
from crossclaw.config.tools import AgentToAgent
from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.policy.agent_to_agent import decide_reach
from crossclaw.policy.send import decide_send

GROUP = SessionKey.parse("agent:main:discord:group:1")


def session(key: SessionKey, **fields: object) -> Session:
    base = Session(key=key, session_id="s", created_at=0, updated_at=0)
    return msgspec.structs.replace(base, **fields)


def rule(action: str, **match: str) -> SendRule:
    return msgspec.convert({"action": action, "match": match}, SendRule)


@pytest.mark.spec("Y1")
@pytest.mark.parametrize(
    ("match", "hit"),
    [
        ({}, True),
        ({"channel": "discord"}, True),
        ({"channel": "Discord"}, True),
        ({"channel": "telegram"}, False),
        ({"chatType": "group"}, True),
        ({"chatType": "direct"}, False),
        ({"keyPrefix": "agent:main:discord"}, True),
        ({"keyPrefix": "agent:ops"}, False),
        ({"channel": "discord", "chatType": "channel"}, False),
    ],
)
def test_a_rule_matches_by_channel_chat_type_and_key(match: dict[str, str], hit: bool) -> None:
    policy = SendPolicy(rules=(rule("deny", **match),))

    assert decide_send(policy, GROUP, session(GROUP, channel="discord")).allowed is not hit


@pytest.mark.spec("Y3")
@pytest.mark.parametrize(("first", "second"), list(product(["allow", "deny"], repeat=2)))
def test_a_deny_wins_in_whatever_order(first: str, second: str) -> None:
    policy = SendPolicy(default="allow", rules=(rule(first), rule(second)))

    decision = decide_send(policy, GROUP, None)

    assert decision.allowed is ("deny" not in (first, second))
    assert decision.reason.startswith("a rule of session.sendPolicy says")


@pytest.mark.spec("Y2", "Y3")
def test_the_sessions_own_word_comes_first_and_the_default_last() -> None:
    deny_all = SendPolicy(default="deny", rules=(rule("deny"),))

    assert decide_send(deny_all, GROUP, session(GROUP, send_policy="allow")).allowed
    assert not decide_send(SendPolicy(), GROUP, session(GROUP, send_policy="deny")).allowed
    assert not decide_send(SendPolicy(default="deny"), GROUP, None).allowed
    assert decide_send(SendPolicy(), GROUP, None).allowed


@pytest.mark.spec("Y1")
def test_a_direct_chat_is_known_by_where_it_was_last_talked_to() -> None:
    main = SessionKey.main("main")
    policy = SendPolicy(rules=(SendRule("deny", SendMatch(channel="telegram")),))

    assert not decide_send(
        policy, main, session(main, last_address=Address("telegram", "42"))
    ).allowed
    assert decide_send(policy, main, session(main)).allowed


@pytest.mark.spec("S8")
@pytest.mark.parametrize(
    ("settings", "allowed", "names"),
    [
        (AgentToAgent(), True, "allows"),
        (AgentToAgent(enabled=False), False, "tools.agentToAgent.enabled=true"),
        (AgentToAgent(allow=("main", "ops")), True, "allows"),
        (AgentToAgent(allow=("main",)), False, "does not name ops"),
        (AgentToAgent(allow=("op*",)), False, "does not name main"),
        (AgentToAgent(allow=()), True, "allows"),
    ],
)
def test_agents_reach_each_other_as_far_as_the_config_says(
    settings: AgentToAgent, allowed: bool, names: str
) -> None:
    decision = decide_reach(settings, "main", "ops", "messaging")

    assert decision.allowed is allowed
    assert names in decision.reason
    assert decide_reach(settings, "ops", "ops", "messaging").allowed

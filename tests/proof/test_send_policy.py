"""The send policy, all cases: every list of up to three rules, every default and override, every kind
of session, against a reference that was written without looking at the code."""

from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import msgspec
import pytest

from crossclaw.config.session import SendPolicy
from crossclaw.domain.addresses import Address
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.policy.send import decide_send
from tests.proof.size import share

CHANNELS = (None, "discord", "telegram")
CHAT_TYPES = (None, "direct", "group", "channel")
PREFIXES = (None, "agent:main:", "agent:main:discord:", "cron:")
RULES = [
    {"action": action, "match": {name: value for name, value in match.items() if value}}
    for action in ("allow", "deny")
    for match in (
        {"channel": c, "chatType": t, "keyPrefix": p}
        for c, t, p in product(CHANNELS, CHAT_TYPES, PREFIXES)
    )
]


class Asked(NamedTuple):
    """A session as the reference knows it: facts, not types."""

    key: str
    channel: str | None
    chat_type: str
    recorded: str | None = None
    last: str | None = None


QUERIES = [
    Asked("agent:main:main", None, "direct"),
    Asked("agent:main:main", "telegram", "direct", last="telegram"),
    Asked("agent:main:discord:group:1", "discord", "group"),
    Asked("agent:main:discord:channel:1", "discord", "channel"),
    Asked("agent:ops:telegram:dm:7", "telegram", "direct"),
    Asked("agent:ops:telegram:group:7", "discord", "group", recorded="discord", last="telegram"),
    Asked("cron:9", None, "direct"),
]
OVERRIDES = (None, "allow", "deny")


def reference(rules: Any, default: str, override: str | None, asked: Asked) -> bool:
    if override:
        return override == "allow"
    facts = {"channel": asked.channel, "chatType": asked.chat_type}
    actions = set()
    for rule in rules:
        wanted = dict(rule["match"])
        prefix = wanted.pop("keyPrefix", "")
        if asked.key.startswith(prefix) and all(facts[name] == wanted[name] for name in wanted):
            actions.add(rule["action"])
    return "deny" not in actions and ("allow" in actions or default == "allow")


def session(asked: Asked, override: str | None) -> Session:
    return Session(
        key=SessionKey.parse(asked.key),
        session_id="s",
        created_at=0,
        updated_at=0,
        channel=asked.recorded,
        send_policy=override,
        last_address=Address(asked.last, "1") if asked.last else None,
    )


SESSIONS = [(each, over, session(each, over)) for each, over in product(QUERIES, OVERRIDES)]
LENGTHS = (0, 1, 2, 3)
STRIDE = {0: 1, 1: 1, 2: 1, 3: 97}


def disagreements(rules: tuple[Any, ...], decide: Any = decide_send) -> list[Any]:
    wrong = []
    for default in ("allow", "deny"):
        policy = msgspec.convert({"default": default, "rules": rules}, SendPolicy)
        for asked, override, stored in SESSIONS:
            decision = decide(policy, stored.key, stored)
            if decision.allowed != reference(rules, default, override, asked):
                wrong.append((rules, default, override, asked))
    return wrong


@pytest.mark.spec("Y1", "Y2", "Y3")
@pytest.mark.parametrize("length", LENGTHS)
def test_every_list_of_rules_decides_as_the_specification_says(length: int) -> None:
    """Order does not matter (another test says so), so each set of rules comes once."""
    lists = combinations_with_replacement(RULES, length)
    for rules in share(lists, STRIDE[length]):
        assert disagreements(rules) == []


@pytest.mark.spec("Y3")
def test_the_order_of_rules_does_not_matter() -> None:
    for rules in share(product(RULES, repeat=2), 7):
        assert disagreements(rules) == disagreements(rules[::-1]) == []


def test_the_rule_space_is_whole() -> None:
    assert len(RULES) == 2 * len(CHANNELS) * len(CHAT_TYPES) * len(PREFIXES) == 96


def first_rule_wins(policy: SendPolicy, key: SessionKey, stored: Session | None) -> Any:
    first = msgspec.structs.replace(policy, rules=policy.rules[:1])
    return decide_send(first, key, stored)


def no_override(policy: SendPolicy, key: SessionKey, stored: Session) -> Any:
    return decide_send(policy, key, msgspec.structs.replace(stored, send_policy=None))


@pytest.mark.parametrize("wrong", [first_rule_wins, no_override])
def test_a_wrong_policy_is_caught(wrong: Any) -> None:
    """The control: the proof can fail."""
    rules = ({"action": "allow", "match": {}}, {"action": "deny", "match": {"channel": "discord"}})

    assert disagreements(rules) == []
    assert disagreements(rules, wrong)

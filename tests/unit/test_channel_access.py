"""Who may talk on a chat account: every combination of policy, list and sender against what is written here in
plain words."""

from itertools import product
from typing import Any

import msgspec
import pytest

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.manifest import ChannelManifest, Traits
from crossclaw.channels.registry import list_manifests
from crossclaw.config import Config
from crossclaw.config.channels import ChannelSettings, DmPolicy, GroupPolicy, TopicSettings
from crossclaw.config.doors import CommandsConfig
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.mention_patterns import mention_pattern, name_pattern
from crossclaw.policy.channel_access import (
    AccessDecision,
    AccessRules,
    GroupRules,
    MentionFacts,
    Speaker,
    decide_access,
    decide_mention,
)
from crossclaw.policy.owner import decide_commands, decide_owner
from crossclaw.sessions.channel_rules import (
    access_rules,
    chat_place,
    mention_patterns,
    speaker_of,
)
from crossclaw.testing import MemoryChannel

LISTS = [frozenset[str](), frozenset({"7"}), frozenset({"*"}), frozenset({"8"})]


@pytest.mark.spec("N8")
def test_a_direct_message_is_heard_of_whom_the_policy_names_and_of_nobody_else() -> None:
    policies: tuple[DmPolicy, ...] = ("pairing", "allowlist", "open", "disabled")
    for policy, allow, paired, bot in product(policies, LISTS, (False, True), (False, True)):
        rules = AccessRules(dm_policy=policy, allow=allow)
        speaker = Speaker(ids=frozenset({"7", "uuid:7"}), is_bot=bot, paired=paired)
        decision = decide_access(rules, speaker)
        named = bool(allow & {"7", "*"})
        expected = not bot and policy != "disabled" and (named or (policy == "pairing" and paired))
        assert decision.allowed == expected, (policy, allow, paired, bot)
        strange = policy == "pairing" and not (named or paired or bot)
        assert decision.offers_pairing == strange
        assert decision.reason
    off = decide_access(
        AccessRules(dm_enabled=False, allow=frozenset({"*"})), Speaker(ids=frozenset({"7"}))
    )
    assert not off.allowed


@pytest.mark.spec("N8")
def test_a_group_is_heard_where_it_is_listed_and_its_sender_is() -> None:
    policies: tuple[GroupPolicy, ...] = ("open", "allowlist", "disabled")
    own_lists = (None, *LISTS)
    for policy, group_allow, lists, listed, enabled, own, paired in product(
        policies,
        (None, *LISTS),
        (False, True),
        (False, True),
        (False, True),
        own_lists,
        (False, True),
    ):
        rules = AccessRules(
            group_policy=policy, group_allow=group_allow, lists_groups=lists, allow=frozenset({"7"})
        )
        group = GroupRules(listed=listed, enabled=enabled, allow=own)
        decision = decide_access(rules, Speaker(ids=frozenset({"7"}), group=group, paired=paired))
        if policy == "disabled" or (lists and not listed) or not enabled:
            expected = False
        elif own is not None:
            expected = bool(own & {"7", "*"})
        elif policy == "open":
            expected = True
        elif group_allow is None:
            expected = listed
        else:
            expected = bool(group_allow & {"7", "*"})
        assert decision.allowed == expected, (policy, group_allow, lists, listed, enabled, own)
        assert not decision.offers_pairing


@pytest.mark.spec("N8")
def test_an_empty_list_lets_nobody_in() -> None:
    me = frozenset({"7"})
    for rules in (AccessRules(), AccessRules(dm_policy="allowlist"), AccessRules(dm_policy="open")):
        assert not decide_access(rules, Speaker(ids=me)).allowed
        assert not decide_access(rules, Speaker(ids=me, group=GroupRules(listed=True))).allowed
        assert not decide_access(
            rules, Speaker(ids=me, group=GroupRules(listed=True, allow=frozenset()))
        ).allowed


def test_bots_are_heard_only_where_that_is_said() -> None:
    rules = AccessRules(group_policy="open", allow=frozenset({"*"}), dm_policy="open")
    bot = Speaker(ids=frozenset({"7"}), is_bot=True, group=GroupRules(listed=True))
    assert not decide_access(rules, bot).allowed
    assert decide_access(msgspec.structs.replace(rules, allow_bots=True), bot).allowed
    welcome = msgspec.structs.replace(bot, group=GroupRules(listed=True, allow_bots=True))
    assert decide_access(rules, welcome).allowed
    unwelcome = msgspec.structs.replace(bot, group=GroupRules(listed=True, allow_bots=False))
    assert not decide_access(msgspec.structs.replace(rules, allow_bots=True), unwelcome).allowed


def test_what_is_written_about_a_topic_goes_before_its_group() -> None:
    topic = TopicSettings(group_policy="open", enabled=None)
    group = TopicSettings(group_policy="disabled", allow_bots=True)
    made = GroupRules.of([topic, group], None)
    assert (made.listed, made.enabled, made.policy, made.allow_bots) == (True, True, "open", True)
    assert not GroupRules.of([topic, TopicSettings(allow=False)], None).enabled


def mention(**facts: Any) -> bool:
    base = MentionFacts(required=True, mentioned=None)
    patterns = [mention_pattern(r"\bclaw\b")]
    return decide_mention(msgspec.structs.replace(base, **facts), patterns).allowed


@pytest.mark.spec("N8")
def test_a_group_message_is_meant_for_us_by_mention_reply_pattern_or_command() -> None:
    assert not mention(text="hello")
    assert mention(text="hello", required=False)
    assert mention(text="hello", mentioned=True)
    assert mention(text="hello", replies_to_us=True)
    assert mention(text="Claw, come")
    assert mention(text="cl\u200baw, come")
    assert not mention(text="clawing")
    assert mention(text="/status", command=True)
    assert not mention(text="/status", command=True, mentions_others=True)
    assert not mention(text="x" * 5_000 + " claw")


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$",
        "(a|a)*b",
        "(a?a?)*b",
        r"(\w+\s?)*$",
        r"(a)\1",
        ".*a.*b.*c",
        "[",
        "(",
        "a{2,9000}b{2,9000}c{1,999}",
    ],
)
def test_a_pattern_that_could_take_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"long|expression"):
        mention_pattern(text)


def test_ordinary_patterns_are_taken_and_an_agent_is_called_by_its_name() -> None:
    for text in (r"@?crossclaw", r"\bhey,?\s+claw\b", "^claw[:,]", "(claw|crab)", "🦞", r"@\w+bot"):
        mention_pattern(text)
    called = name_pattern("Ana María")
    assert called is not None
    assert called.search("¿qué tal, @ana maría?")
    assert not called.search("anamaría")
    assert name_pattern("  ") is None


@pytest.mark.parametrize(
    ("entry", "channel", "sender", "is_owner"),
    [
        ("telegram:7", "telegram", "7", True),
        ("Telegram:7", "telegram", "7", True),
        ("7", "telegram", "7", True),
        ("telegram:7", "discord", "7", False),
        ("@ana:example.org", "matrix", "@ana:example.org", True),
        ("matrix:@ana:example.org", "matrix", "@ana:example.org", True),
        ("@ana:example.org", "matrix", "@ana:evil.org", False),
        ("uuid:1", "signal", "uuid:1", True),
        ("signal:uuid:1", "signal", "+49", False),
        ("*", "telegram", "*", False),
        ("*", "telegram", "7", False),
    ],
)
def test_an_owner_is_named_by_an_id_that_may_contain_colons(
    entry: str, channel: str, sender: str, is_owner: bool
) -> None:
    settings = CommandsConfig(owner_allow_from=(entry,))
    assert decide_owner(settings, channel, sender).allowed == is_owner
    assert decide_owner(
        CommandsConfig(owner_allow_from=("uuid:1",)), "signal", "+49", ["uuid:1"]
    ).allowed


@pytest.mark.spec("N8")
def test_an_agent_is_called_by_its_patterns_else_by_its_name_and_its_emoji() -> None:
    common = {"groupChat": {"mentionPatterns": ["robot"]}}
    lobster = {"id": "main", "identity": {"name": "Clawd", "emoji": "🦞"}}
    own = {"id": "own", "groupChat": {"mentionPatterns": ["boss"]}}

    def calls(text: str, agent_id: str, messages: dict[str, Any]) -> bool:
        raw = {"agents": {"list": [lobster, own]}, "messages": messages}
        patterns = mention_patterns(msgspec.convert(raw, Config), agent_id)
        return any(pattern.search(text) for pattern in patterns)

    assert [calls(text, "main", {}) for text in ("hi Clawd", "🦞 hi", "robot")] == [
        True,
        True,
        False,
    ]
    assert [calls(text, "main", common) for text in ("hi Clawd", "robot")] == [False, True]
    assert [calls(text, "own", common) for text in ("boss", "robot")] == [True, False]


@pytest.mark.spec("N8")
def test_a_rule_about_tools_is_looked_up_by_the_group_and_not_by_where_its_replies_go() -> None:
    raw = {"groups": {"g1": {"tools": {"deny": ["exec"]}}}}
    settings, channel = msgspec.convert(raw, ChannelSettings), MemoryChannel()
    live = LiveAccount("memory", "default", channel, channel.traits)

    def chat_of(**more: Any) -> str | None:
        where = Address("memory", "topic 3 of g1")
        inbound = Inbound(address=where, sender="7", text="hi", message_id="1", **more)
        found = chat_place(live, settings, inbound)
        return None if found is None else found.chat_id

    assert chat_of(chat_type="group", chat_id="g1") == "g1"
    assert chat_of(chat_type="group") == "topic 3 of g1"
    assert chat_of() is None


@pytest.mark.spec("N8")
@pytest.mark.parametrize("manifest", list_manifests(), ids=lambda each: each.name)
def test_a_channel_in_memory_without_settings_is_as_closed_as_a_platform_without_any(
    manifest: ChannelManifest,
) -> None:
    def decided(name: str, settings: ChannelSettings, **more: Any) -> AccessDecision:
        live = LiveAccount(name, "default", MemoryChannel(name), Traits(), settings)
        where = Address(name, "7")
        inbound = Inbound(address=where, sender="7", text="hi", message_id="1", **more)
        speaker = speaker_of(live, settings, inbound, paired=False)
        return decide_access(access_rules(Config(), live, settings), speaker)

    written = msgspec.convert({}, manifest.settings)
    chats: list[dict[str, Any]] = [{}, {"sender_is_bot": True}, {"chat_type": "group", "chat_id": "g1"}]  # fmt: skip
    for each in chats:
        real = decided(manifest.name, written, **each)
        double = decided("memory", MemoryChannel().settings, **each)
        assert not real.allowed
        assert (double.allowed, double.offers_pairing) == (False, real.offers_pairing), each


@pytest.mark.parametrize("listed", ["ownerAllowFrom", "allowFrom"])
def test_whoever_is_named_by_another_id_of_theirs_may_command(listed: str) -> None:
    named: dict[str, Any] = {"ownerAllowFrom": ["signal:uuid:77"], "allowFrom": {"signal": ["+1"]}}
    if listed == "allowFrom":
        named = {"allowFrom": {"signal": ["uuid:77"]}}
    settings = msgspec.convert(named, CommandsConfig)

    assert decide_commands(settings, "signal", "+4179", ["uuid:77"]).allowed
    assert not decide_commands(settings, "signal", "+4179", ["uuid:78"]).allowed
    assert not decide_commands(settings, "signal", "+4179").allowed

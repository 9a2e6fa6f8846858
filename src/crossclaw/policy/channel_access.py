"""Access to a chat account: one policy for all channels, which says why.

An identity is a channel, an account and the platform's immutable id; a name decides nothing. An empty list lets
nobody in. Who was approved by a pairing code may write directly, under `dmPolicy: pairing` and nowhere else.
"""

import re
from collections.abc import Collection, Sequence

import msgspec

from crossclaw.config.channels import DmPolicy, GroupPolicy, TopicSettings
from crossclaw.policy.decision import Decision

EVERYBODY = "*"


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules in an account's settings, with every list entry as the id that it is compared with."""

    dm_policy: DmPolicy = "pairing"
    dm_enabled: bool = True
    allow: frozenset[str] = frozenset()
    group_policy: GroupPolicy = "allowlist"
    group_allow: frozenset[str] | None = frozenset()
    """The senders who may talk in groups; None: the list is one of groups, and whoever is in a listed group
    may talk."""
    lists_groups: bool = False
    allow_bots: bool = False


class GroupRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of the one group that a message comes from."""

    listed: bool = False
    enabled: bool = True
    policy: GroupPolicy | None = None
    allow: frozenset[str] | None = None
    allow_bots: bool | None = None

    @classmethod
    def of(cls, written: Sequence[TopicSettings], allow: frozenset[str] | None) -> "GroupRules":
        """The group's rules from its settings, the most specific first; `allow` are the senders of the first
        that names any."""
        policies = [each.group_policy for each in written if each.group_policy is not None]
        bots = [each.allow_bots for each in written if each.allow_bots is not None]
        return cls(
            listed=bool(written),
            enabled=all(each.listened_to for each in written),
            policy=policies[0] if policies else None,
            allow=allow,
            allow_bots=bots[0] if bots else None,
        )


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """The sender of a message, and where it was written."""

    ids: frozenset[str]
    """The sender's id and its aliases."""
    is_bot: bool = False
    group: GroupRules | None = None
    """The rules of the group; None: a direct chat."""
    paired: bool = False


class AccessDecision(Decision, frozen=True):
    offers_pairing: bool = False
    """Whether the sender is refused, but may ask for a code."""


def decide_access(rules: AccessRules, speaker: Speaker) -> AccessDecision:
    bots = rules.allow_bots
    if speaker.group is not None and speaker.group.allow_bots is not None:
        bots = speaker.group.allow_bots
    if speaker.is_bot and not bots:
        return _no("it is from another bot, and allowBots is off")
    if speaker.group is None:
        return _decide_direct(rules, speaker)
    return _decide_group(rules, speaker, speaker.group)


def _decide_direct(rules: AccessRules, speaker: Speaker) -> AccessDecision:
    policy = rules.dm_policy
    if not rules.dm_enabled or policy == "disabled":
        return _no("direct messages are switched off")
    if _is_in(speaker.ids, rules.allow):
        return _yes("allowFrom names the sender")
    if policy == "pairing" and speaker.paired:
        return _yes("the sender was approved by a pairing code")
    if policy == "pairing" and not speaker.is_bot:
        return AccessDecision(False, "the sender is not approved yet", offers_pairing=True)
    return _no("allowFrom does not name the sender")


def _decide_group(rules: AccessRules, speaker: Speaker, group: GroupRules) -> AccessDecision:
    policy = group.policy or rules.group_policy
    if policy == "disabled":
        return _no("groupPolicy is disabled")
    if rules.lists_groups and not group.listed:
        return _no("the group is not among those that are listed")
    if not group.enabled:
        return _no("the group is switched off")
    if group.allow is not None:
        if _is_in(speaker.ids, group.allow):
            return _yes("the group's own list names the sender")
        return _no("the group's own list does not name the sender")
    if policy == "open":
        return _yes("groupPolicy is open")
    if rules.group_allow is None:
        if group.listed:
            return _yes("the group is listed")
        return _no("no group is listed")
    if _is_in(speaker.ids, rules.group_allow):
        return _yes("groupAllowFrom names the sender")
    return _no("groupAllowFrom does not name the sender")


def _is_in(ids: Collection[str], allowed: frozenset[str]) -> bool:
    return EVERYBODY in allowed or not allowed.isdisjoint(ids)


def _yes(reason: str) -> AccessDecision:
    return AccessDecision(True, reason)


def _no(reason: str) -> AccessDecision:
    return AccessDecision(False, reason)


# ── mentions ───────────────────────────────────────────────────────────────────────────────────

TEXT_CHARS_MAX = (
    500  # of a message that is looked through by patterns: who calls somebody does it early
)
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f]")


class MentionFacts(msgspec.Struct, frozen=True, kw_only=True):
    required: bool
    mentioned: bool | None
    """Whether the platform itself says that we were mentioned; None: it cannot tell."""
    replies_to_us: bool = False
    mentions_others: bool = False
    command: bool = False
    """Whether it is a command of somebody who may use it."""
    text: str = ""


def decide_mention(facts: MentionFacts, patterns: Sequence[re.Pattern[str]]) -> Decision:
    """Decides whether a message of a group is meant for us. The sender's own words count, never what is quoted."""
    if not facts.required:
        return Decision(True, "no mention is needed here")
    if facts.mentioned:
        return Decision(True, "it mentions us")
    if facts.replies_to_us:
        return Decision(True, "it replies to us")
    words = _INVISIBLE.sub("", facts.text)[:TEXT_CHARS_MAX]
    if any(pattern.search(words) for pattern in patterns):
        return Decision(True, "it fits a mention pattern")
    if facts.command and not facts.mentions_others:
        return Decision(True, "it is a command")
    return Decision(False, "it does not mention us")

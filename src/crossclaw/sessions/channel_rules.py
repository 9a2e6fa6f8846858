"""Channel rules: what an account's settings say about who may talk, made ready for the policy."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.registry import find_manifest
from crossclaw.config import Config
from crossclaw.config.channel_accounts import (
    account_sections,
    accounts_in,
    defaults_in,
    sender_of_rule,
)
from crossclaw.config.channels import ChannelSettings, TopicSettings
from crossclaw.config.tools import ToolPolicy
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.aliases import Senders
from crossclaw.domain.authority import ChatPlace
from crossclaw.domain.mention_patterns import mention_pattern, name_pattern
from crossclaw.policy.channel_access import EVERYBODY, AccessRules, GroupRules, Speaker
from crossclaw.policy.tools import Layer, layer_of

Normalize = Callable[[str], str | None]


def access_rules(config: Config, live: LiveAccount, settings: ChannelSettings) -> AccessRules:
    """The access rules of an account; entries of its lists that are no ids are left out."""
    normalize = normalizer(live.channel)
    allow = ids_of(settings.allow_from, normalize)
    shared = defaults_in(config.channels).group_policy
    group_allow: frozenset[str] | None = allow
    if settings.group_allow_from is not None:
        group_allow = ids_of(settings.group_allow_from, normalize)
    elif settings.group_list == "groups":
        group_allow = None
    return AccessRules(
        dm_policy=settings.dm_policy,
        dm_enabled=settings.dm.enabled,
        allow=allow,
        group_policy=settings.group_policy or shared or "allowlist",
        group_allow=group_allow,
        lists_groups=settings.lists_groups,
        allow_bots=settings.allow_bots,
    )


def speaker_of(
    live: LiveAccount, settings: ChannelSettings, inbound: Inbound, paired: bool
) -> Speaker:
    written = group_settings(settings, inbound)
    senders = next((each.senders for each in written if each.senders is not None), None)
    normalize = normalizer(live.channel)
    listed = None if senders is None else ids_of(senders, normalize)
    ids = sender_ids(live.channel, inbound)
    return Speaker(
        ids=ids if inbound.is_direct else ids | frozenset(inbound.member_of),
        is_bot=inbound.sender_is_bot,
        group=None if inbound.is_direct else GroupRules.of(written, listed),
        paired=paired,
    )


def group_settings(settings: ChannelSettings, inbound: Inbound) -> Sequence[TopicSettings]:
    """The group's settings: of its topic, of itself, of all groups; the most specific first."""
    if inbound.is_direct:
        return ()
    chat = inbound.chat_id or inbound.address.to
    thread_id = inbound.address.thread_id
    return _written_of(settings, chat, inbound.parent_chat_id, inbound.guild_id, thread_id)


def _written_of(
    settings: ChannelSettings,
    chat: str,
    parent_id: str | None,
    guild_id: str | None,
    thread_id: str | None,
) -> Sequence[TopicSettings]:
    group = settings.group(chat, parent_id, guild_id)
    if group is None:
        return ()
    topic = group.topics.get(thread_id or "")
    everywhere = settings.groups.get(EVERYBODY)
    found = [topic, group, everywhere if everywhere is not group else None]
    return [each for each in found if each is not None]


def names_sender(live: LiveAccount, settings: ChannelSettings, inbound: Inbound) -> bool:
    """Whether `allowFrom` names this very person, not everybody."""
    allow = ids_of(settings.allow_from, normalizer(live.channel))
    return not allow.isdisjoint(sender_ids(live.channel, inbound))


def written_lists(config: Config) -> Iterator[Senders]:
    """Every list of people who may write directly, in both spellings, of channels and of their accounts."""
    for each in account_sections(config.channels):
        dm = each.get("dm")
        yield each.get("allowFrom") or ()
        yield (dm.get("allowFrom") if isinstance(dm, Mapping) else None) or ()


def sender_ids(channel: str, inbound: Inbound) -> frozenset[str]:
    """The sender's ids in the spelling of the lists."""
    normalize = normalizer(channel)
    raw = (inbound.sender, *inbound.sender_aliases)
    return frozenset(normalize(each) or each for each in raw)


def normalizer(channel: str) -> Normalize:
    manifest = find_manifest(channel)
    return manifest.normalize_sender if manifest else lambda entry: entry


def ids_of(entries: Senders, normalize: Normalize) -> frozenset[str]:
    found = (_id_of(str(each), normalize) for each in entries)
    return frozenset(each for each in found if each is not None)


def _id_of(entry: str, normalize: Normalize) -> str | None:
    return EVERYBODY if entry.strip() == EVERYBODY else normalize(entry)


def mention_patterns(config: Config, agent_id: str) -> tuple[re.Pattern[str], ...]:
    """The agent's own patterns, even if there are none; else the common ones; else the agent's name."""
    agent = config.agents.find(agent_id)
    own = agent.group_chat.mention_patterns if agent else None
    common = config.messages.group_chat.mention_patterns
    written = own if own is not None else common
    if written is not None:
        return _compiled(written)
    name = (agent.identity.name or agent.name) if agent else None
    emoji = agent.identity.emoji if agent else None
    return _named(tuple(filter(None, (name, emoji))))


@lru_cache(256)
def _compiled(written: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(map(mention_pattern, written))


@lru_cache(256)
def _named(names: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    found = map(name_pattern, names)
    return tuple(each for each in found if each is not None)


# ── tools by group ─────────────────────────────────────────────────────────────────────────────

NOT_KEPT = (
    "toolsBySender of this group names somebody by a name, which anybody can take; write it by id"
)


def chat_place(live: LiveAccount, settings: ChannelSettings, inbound: Inbound) -> ChatPlace | None:
    """The chat a message was written in, if tools are limited there by group."""
    if inbound.is_direct or not settings.limits_tools:
        return None
    return ChatPlace(
        channel=live.channel,
        account_id=live.account_id,
        chat_id=inbound.chat_id or inbound.address.to,
        senders=tuple(sorted(sender_ids(live.channel, inbound))),
        parent_id=inbound.parent_chat_id,
        guild_id=inbound.guild_id,
        thread_id=inbound.address.thread_id,
    )


def unkept_tool_rule(channel: str, settings: ChannelSettings, place: ChatPlace) -> str | None:
    """Why no message from there is accepted: a rule about tools that cannot be enforced."""
    normalize = normalizer(channel)
    entries = [entry for each in _written(settings, place) for entry in each.tools_by_sender]
    odd = any(sender_of_rule(entry, normalize) is None for entry in entries)
    return NOT_KEPT if odd else None


def chat_tool_layers(config: Config, place: ChatPlace) -> tuple[Layer, ...]:
    """What the config says now about tools in a group: by the writer, else for the group, else for all groups. The first
    that says anything is the rule."""
    for account in accounts_in(config.channels, {}):
        if (account.channel, account.account_id) == (place.channel, place.account_id):
            return _layers(account.settings, place)
    gone = f"the account {place.account_id} of {place.channel}, in a group of which it was asked and which is gone,"
    return (Layer(gone, allow=()),)


def _layers(settings: ChannelSettings, place: ChatPlace) -> tuple[Layer, ...]:
    setting = f"channels.{place.channel}, group {place.chat_id},"
    if unkept_tool_rule(place.channel, settings, place) is not None:
        return (Layer(setting, allow=()),)
    for written in _written(settings, place):
        if (policy := _policy_for(written, place)) is not None:
            return (layer_of(f"{setting} tools", policy),)
    return ()


def _policy_for(written: TopicSettings, place: ChatPlace) -> ToolPolicy | None:
    normalize = normalizer(place.channel)
    by_id = {
        sender_of_rule(entry, normalize): rule for entry, rule in written.tools_by_sender.items()
    }
    own = next((by_id[each] for each in place.senders if each in by_id), None)
    return own or by_id.get(EVERYBODY) or written.tools


def _written(settings: ChannelSettings, place: ChatPlace) -> Sequence[TopicSettings]:
    return _written_of(settings, place.chat_id, place.parent_id, place.guild_id, place.thread_id)

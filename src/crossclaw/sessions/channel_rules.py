"""Channel rules: what an account's settings say about who may talk, made ready for the policy."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from crossclaw.channels.accounts import LiveAccount
from crossclaw.channels.registry import find_manifest
from crossclaw.config import Config
from crossclaw.config.channel_accounts import defaults_in
from crossclaw.config.channels import ChannelSettings, Senders, TopicSettings
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.mention_patterns import mention_pattern, name_pattern
from crossclaw.policy.channel_access import EVERYBODY, AccessRules, GroupRules, Speaker

Normalize = Callable[[str], str | None]


def access_rules(config: Config, live: LiveAccount, settings: ChannelSettings) -> AccessRules:
    """Of an account; its lists without whatever is no id."""
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
    """What is written about the group: of its topic, of itself, of all; the first says most."""
    if inbound.is_direct:
        return ()
    chat = inbound.chat_id or inbound.address.to
    group = settings.group(chat, inbound.parent_chat_id, inbound.guild_id)
    if group is None:
        return ()
    topic = group.topics.get(inbound.address.thread_id or "")
    everywhere = settings.groups.get(EVERYBODY)
    found = [topic, group, everywhere if everywhere is not group else None]
    return [each for each in found if each is not None]


def names_sender(live: LiveAccount, settings: ChannelSettings, inbound: Inbound) -> bool:
    """Whether `allowFrom` names this very person, not everybody."""
    allow = ids_of(settings.allow_from, normalizer(live.channel))
    return not allow.isdisjoint(sender_ids(live.channel, inbound))


def written_lists(config: Config) -> Iterator[Senders]:
    """Every list of people who may write directly, in both spellings, of channels and of their accounts."""
    for section in config.channels.values():
        accounts = section.get("accounts") if isinstance(section, Mapping) else None
        inside = accounts.values() if isinstance(accounts, Mapping) else ()
        for each in (section, *inside):
            if isinstance(each, Mapping):
                dm = each.get("dm")
                yield each.get("allowFrom") or ()
                yield (dm.get("allowFrom") if isinstance(dm, Mapping) else None) or ()


def sender_ids(channel: str, inbound: Inbound) -> frozenset[str]:
    """As lists spell them."""
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
    """The agent's own, even if there are none; else the common ones; else the agent's name."""
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

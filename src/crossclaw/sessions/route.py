"""Routing: which agent answers a chat, and in which of its sessions; and whose chat an address is."""

from crossclaw.channels.contract import DEFAULT_ACCOUNT
from crossclaw.channels.registry import find_manifest
from crossclaw.channels.spelling import read_chat
from crossclaw.config import Config
from crossclaw.config.doors import Binding
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.keys import SessionKey, ThreadWord
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import Ledger

ANY_ACCOUNT = "*"


def route(config: Config, inbound: Inbound) -> SessionKey:
    agent_id, where, session = agent_for(config, inbound), inbound.address, config.session
    word = _thread_word(where.channel)
    if inbound.chat_type in ("group", "channel"):
        return SessionKey.group(
            agent_id,
            where.channel,
            inbound.chat_id or where.to,
            chat_type="group" if inbound.chat_type == "group" else "channel",
            thread_id=where.thread_id if word else None,
            thread_word=word or "thread",
        )
    return config.meant_key(
        SessionKey.direct(
            agent_id,
            where.channel,
            inbound.sender,
            scope=session.dm_scope,
            account_id=where.account_id or DEFAULT_ACCOUNT,
            links=session.identity_links,
            thread_id=where.thread_id if word == "topic" else None,
        )
    )


def _thread_word(channel: str) -> ThreadWord | None:
    """The word for threads in a channel's keys, as OpenClaw has it. Telegram's topics are topics, and have
    sessions of their own in direct chats too; threads of Matrix share the session of their room."""
    manifest = find_manifest(channel)
    return manifest.traits.threads if manifest else "thread"


ChatSession = tuple[SessionKey, Session | None]


async def find_chats(config: Config, ledger: Ledger, where: Address) -> list[ChatSession]:
    """The sessions that a message from this address would come to: one, where it is known what kind of chat
    it is, else one for each kind that it may be. It is known where a session has this chat, where a message
    has come from it, and mostly by its spelling."""
    spelled = read_chat(where)
    found: list[ChatSession] = []
    for kind in ("group", "channel"):
        _, session = await _find_chat(config, ledger, where, kind, spelled.chat)
        if session is not None and (kind in spelled.types or not where.named):
            return [(session.key, session)]
        if session is not None:  # it may be meant, although its name says something else
            found.append((session.key, session))
    direct = await _find_chat(config, ledger, where, "direct", spelled.chat)
    if not where.named or _has_talked(direct[1], where):
        return [direct, *found]
    others = [kind for kind in spelled.types if kind != "direct"]
    keys = [route(config, _from(where, kind, spelled.chat)) for kind in others]
    first = [direct] if "direct" in spelled.types else []
    return [*first, *((key, None) for key in keys), *found]


async def _find_chat(
    config: Config, ledger: Ledger, where: Address, kind: str, bare: str
) -> tuple[SessionKey, Session | None]:
    """The chat's key and session: as it is spelled, else without the word before it."""
    key = route(config, _from(where, kind, where.to))
    session = await ledger.find_session(key)
    if session is None and bare != where.to:
        key = route(config, _from(where, kind, bare))
        session = await ledger.find_session(key)
    return key, session


def _has_talked(session: Session | None, where: Address) -> bool:
    """Whether this session was last talked to from there. A session of several chats knows only of the last
    one that it was direct."""
    if session is None:
        return False
    last = session.last_address
    same = last is not None and (last.channel, last.to) == (where.channel, where.to)
    return same or session.key.channel == where.channel.lower()


def _from(where: Address, chat_type: str, chat: str) -> Inbound:
    return Inbound(address=where, sender=chat, text="", message_id="", chat_type=chat_type, chat_id=chat)  # fmt: skip


def agent_for(config: Config, inbound: Inbound) -> str:
    """The agent of the most specific binding for the chat; among equals the first. In place of an agent that
    is not configured, the default one answers."""
    fitting = [binding for binding in config.bindings if _fits(binding, inbound)]
    best = max(fitting, key=lambda each: _weight(each, inbound), default=None)
    if best is None or config.agents.find(best.agent_id) is None:
        return config.agents.default_id
    return normalize_agent_id(best.agent_id)


def _fits(binding: Binding, inbound: Inbound) -> bool:
    match, where = binding.match, inbound.address
    account = where.account_id or DEFAULT_ACCOUNT
    if match.roles:
        return False  # roles are not told apart here, and a guess could be wrong
    if _channel_named(match.channel) != where.channel.lower():
        return False
    servers = [each for each in (match.guild_id, match.team_id) if each]
    if servers and any(each != inbound.guild_id for each in servers):
        return False
    if match.account_id != ANY_ACCOUNT and (match.account_id or DEFAULT_ACCOUNT) != account:
        return False
    return match.peer is None or _is_peer(match.peer.kind, match.peer.id, inbound)


def _is_peer(kind: str, peer_id: str, inbound: Inbound) -> bool:
    direct = inbound.is_direct
    wanted = "direct" if kind == "dm" else kind
    if wanted != ("direct" if direct else inbound.chat_type):
        return False
    return peer_id.lower() in (_chat_of(inbound).lower(), (inbound.parent_chat_id or "").lower())


def _chat_of(inbound: Inbound) -> str:
    return inbound.sender if inbound.is_direct else inbound.chat_id or inbound.address.to


def _channel_named(name: str) -> str:
    """The channel's name; aliases are resolved: `bluebubbles` is iMessage."""
    manifest = find_manifest(name)
    return manifest.name if manifest else name.lower()


def _weight(binding: Binding, inbound: Inbound) -> int:
    """How specific a binding is: a chat more than the chat that it is in, that more than a server, a server
    more than an account, an account more than all of a channel."""
    match = binding.match
    peer = match.peer is not None and match.peer.id.lower() == _chat_of(inbound).lower()
    return (
        peer * 16
        + (match.peer is not None) * 8
        + bool(match.guild_id or match.team_id) * 4
        + (match.account_id not in (None, ANY_ACCOUNT)) * 2
    )

"""Routing: which agent answers a chat, and in which of its sessions; and whose chat an address is."""

from crossclaw.channels.spelling import read_chat
from crossclaw.config import Config
from crossclaw.config.doors import Binding
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import Ledger

DEFAULT_ACCOUNT = "default"
ANY_ACCOUNT = "*"


def route(config: Config, inbound: Inbound) -> SessionKey:
    agent_id, where, session = agent_for(config, inbound), inbound.address, config.session
    if inbound.chat_type in ("group", "channel"):
        return SessionKey.group(
            agent_id,
            where.channel,
            inbound.chat_id or where.to,
            chat_type="group" if inbound.chat_type == "group" else "channel",
            thread_id=where.thread_id,
        )
    key = SessionKey.direct(
        agent_id,
        where.channel,
        inbound.sender,
        scope=session.dm_scope,
        account_id=where.account_id or DEFAULT_ACCOUNT,
        links=session.identity_links,
    )
    if session.scope == "global" and key.kind == "main":
        return SessionKey.shared(config.agents.default_id)
    return key


Chat = tuple[SessionKey, Session | None]


async def find_chats(config: Config, ledger: Ledger, where: Address) -> list[Chat]:
    """The sessions that a message from this address would come to: one, where it is known what kind of chat
    it is, else one for each kind that it may be. It is known where a session has this chat, where a message
    has come from it, and mostly by its spelling."""
    spelled = read_chat(where)
    found: list[Chat] = []
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
    """As it is spelled, else without the word before it."""
    key = route(config, _from(where, kind, where.to))
    session = await ledger.find_session(key)
    if session is None and bare != where.to:
        key = route(config, _from(where, kind, bare))
        session = await ledger.find_session(key)
    return key, session


def _has_talked(session: Session | None, where: Address) -> bool:
    """A session of several chats knows only of the last one that it was direct."""
    if session is None:
        return False
    last = session.last_address
    same = last is not None and (last.channel, last.to) == (where.channel, where.to)
    return same or session.key.channel == where.channel.lower()


def _from(where: Address, chat_type: str, chat: str) -> Inbound:
    return Inbound(address=where, sender=chat, text="", message_id="", chat_type=chat_type, chat_id=chat)  # fmt: skip


def agent_for(config: Config, inbound: Inbound) -> str:
    """The binding that says most about the chat; among equals the first. An agent that is not
    configured answers nothing: the default one does."""
    fitting = [binding for binding in config.bindings if _fits(binding, inbound)]
    best = max(fitting, key=_weight, default=None)
    if best is None or config.agents.find(best.agent_id) is None:
        return config.agents.default_id
    return normalize_agent_id(best.agent_id)


def _fits(binding: Binding, inbound: Inbound) -> bool:
    match, where = binding.match, inbound.address
    account = where.account_id or DEFAULT_ACCOUNT
    if match.guild_id or match.team_id or match.roles:
        return False  # servers and roles are not told apart here, and a guess could be wrong
    if match.channel.lower() != where.channel.lower():
        return False
    if match.account_id != ANY_ACCOUNT and (match.account_id or DEFAULT_ACCOUNT) != account:
        return False
    return match.peer is None or _is_peer(match.peer.kind, match.peer.id, inbound)


def _is_peer(kind: str, peer_id: str, inbound: Inbound) -> bool:
    direct = inbound.chat_type not in ("group", "channel")
    chat = inbound.sender if direct else inbound.chat_id or inbound.address.to
    wanted = "direct" if kind == "dm" else kind
    return wanted == ("direct" if direct else inbound.chat_type) and peer_id.lower() == chat.lower()


def _weight(binding: Binding) -> int:
    """A chat says more than an account, an account more than all of a channel."""
    match = binding.match
    return (match.peer is not None) * 4 + (match.account_id not in (None, ANY_ACCOUNT)) * 2

"""Session keys: the name of a session, parsed once at the door into a type.

    agent:<agent>:main                          the agent's main chat; its own agent sees `main`
    agent:<agent>:<channel>:group:<id>          a group; likewise `channel`
    agent:<agent>:…:dm:<peer>                   a direct chat, in the shapes of `session.dmScope`
    agent:<agent>:subagent:<uuid>               a sub-agent
    agent:<agent>:mcp:<name>                    a guest: an agent outside of the gateway
    agent:<agent>:<name>                        whatever else a person names
    cron:<job>  hook:<uuid>  node-<node>        work from inside; `agent:<agent>:cron:…` means the same
    …:thread:<id>  …:topic:<id>                 a thread of the chat before it

`global` and `unknown` are reserved: with `session.scope = "global"` one shared session stands for
every agent's main chat, and everybody sees it as `main`.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal

import msgspec

from crossclaw.domain.agents import DEFAULT_AGENT_ID, is_agent_id, normalize_agent_id
from crossclaw.domain.errors import Invalid, InvalidKey
from crossclaw.domain.texts import with_ellipsis

Kind = Literal["main", "group", "cron", "hook", "node", "other"]
KINDS: tuple[Kind, ...] = ("main", "group", "cron", "hook", "node", "other")
ChatType = Literal["direct", "group", "channel"]
ThreadWord = Literal["thread", "topic"]
DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]

MAIN = "main"
SHARED = "global"
RESERVED = ("global", "unknown")


CHILD = "child"
"""The kind of a session that another one has spawned, wherever people read it."""


def known_kinds(kinds: Sequence[str] | None) -> list[str] | None:
    """The kinds that a caller asked for; nothing and an empty list mean all."""
    if unknown := [kind for kind in kinds or () if kind not in KINDS]:
        raise Invalid(f"unknown kind {', '.join(unknown)}; the kinds are {', '.join(KINDS)}")
    return list(kinds) if kinds else None


KEY_CHARS_MAX = 512  # the longest platform ids are under 200; a key is an index entry, not a text

_INSIDE = ("cron:", "hook:", "node-")
_WORDS = frozenset({"agent", "main", "global", "unknown", "subagent", "cron", "hook", "acp"})

_OURS = re.compile(r"(subagent|cron|hook):[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SessionKey(msgspec.Struct, frozen=True, dict=True, order=True):
    """A session's key. Two are equal when their canonical texts are; the agent of a bare key is only a guess
    until its session row says better.

    `key_of` makes them, one object a key: the text is parsed once, and its parts are attributes from then on.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    # ── reading ────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def parse(cls, text: str, *, agent_id: str = DEFAULT_AGENT_ID) -> "SessionKey":
        """Parses a full key, a bare inside key, or `main` as `agent_id` means it."""
        trimmed = text.strip()
        _refuse_odd_characters(trimmed)
        if trimmed == MAIN:
            return cls.main(agent_id)
        if trimmed.startswith(_INSIDE):
            return cls._inside(agent_id, trimmed)
        if trimmed.startswith("agent:"):
            return cls._of_agent(trimmed)
        raise InvalidKey(
            f"{_quote(trimmed)} is not a session key; use main, agent:<agent>:<name>, cron:<job>, "
            "hook:<id> or node-<id>"
        )

    @classmethod
    def _of_agent(cls, text: str) -> "SessionKey":
        _, agent, *rest = text.split(":")
        if not rest or not all(rest):
            raise InvalidKey(f"{_quote(text)} is incomplete; a key reads agent:<agent>:<name>")
        if not is_agent_id(agent.strip().lower()):
            raise InvalidKey(
                f"{_quote(agent)} is not an agent id (letters, digits, - and _); "
                "agents_list shows the ids"
            )
        return cls.named(agent, ":".join(rest))

    @classmethod
    def stored(cls, text: str) -> "SessionKey":
        """A key that the gateway itself has stored, including `global`."""
        return cls.shared() if text == SHARED else cls.parse(text)

    @classmethod
    def _inside(cls, agent_id: str, rest: str) -> "SessionKey":
        if rest in _INSIDE or not all(rest.split(":")):
            raise InvalidKey(f"{_quote(rest)} is incomplete; say which one: {rest}<id>")
        return key_of(rest, normalize_agent_id(agent_id))

    @classmethod
    def named(cls, agent_id: str, name: str) -> "SessionKey":
        """The session that `agent_id` calls `name`: everything that follows `agent:<agent>:`."""
        agent = normalize_agent_id(agent_id)
        _refuse_odd_characters(name)
        if name.startswith(_INSIDE):
            return cls._inside(agent, name)
        parts = name.split(":")
        if not all(parts):
            raise InvalidKey(f"{_quote(name)} has an empty part between colons")
        _refuse_lookalike(parts[0])
        if name in RESERVED:
            raise InvalidKey(f"{name} is reserved; the main session is called main")
        return key_of(f"agent:{agent}:{name}", agent)

    # ── making ─────────────────────────────────────────────────────────────────────────────────

    @classmethod
    def main(cls, agent_id: str) -> "SessionKey":
        agent = normalize_agent_id(agent_id)
        return key_of(f"agent:{agent}:{MAIN}", agent)

    @classmethod
    def shared(cls, agent_id: str = DEFAULT_AGENT_ID) -> "SessionKey":
        """The one session of `session.scope = "global"`."""
        return key_of(SHARED, normalize_agent_id(agent_id))

    @classmethod
    def group(
        cls,
        agent_id: str,
        channel: str,
        group_id: str,
        *,
        chat_type: Literal["group", "channel"] = "group",
        thread_id: str | None = None,
        thread_word: ThreadWord = "thread",
    ) -> "SessionKey":
        name = f"{_part(channel).lower()}:{chat_type}:{_part(group_id)}"
        return cls.named(agent_id, _with_thread(name, thread_id, thread_word))

    @classmethod
    def direct(
        cls,
        agent_id: str,
        channel: str,
        peer: str,
        *,
        scope: DmScope = "main",
        account_id: str = "default",
        links: Mapping[str, Sequence[str]] | None = None,
        thread_id: str | None = None,
    ) -> "SessionKey":
        """The session of a direct chat: `session.dmScope` says who shares one with whom."""
        if scope == "main":
            name = MAIN
        else:
            who = _part(linked_peer(channel, peer, links or {}))
            before = {
                "per-peer": "",
                "per-channel-peer": f"{_part(channel).lower()}:",
                "per-account-channel-peer": f"{_part(channel).lower()}:{_part(account_id).lower()}:",
            }[scope]
            name = f"{before}dm:{who}"
        return cls.named(agent_id, _with_thread(name, thread_id))

    @classmethod
    def subagent(cls, agent_id: str, child_id: str) -> "SessionKey":
        return cls.named(agent_id, f"subagent:{_part(child_id)}")

    @classmethod
    def guest(cls, agent_id: str, name: str) -> "SessionKey":
        return cls.named(agent_id, f"mcp:{_part(name)}")

    @classmethod
    def cron(cls, agent_id: str, job_id: str) -> "SessionKey":
        return cls._inside(agent_id, f"cron:{_part(job_id)}")

    @classmethod
    def hook(cls, agent_id: str, hook_id: str) -> "SessionKey":
        return cls._inside(agent_id, f"hook:{_part(hook_id)}")

    @classmethod
    def node(cls, agent_id: str, node_id: str) -> "SessionKey":
        return cls._inside(agent_id, f"node-{_part(node_id)}")

    # ── telling ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def agent_id(self) -> str:
        """The agent's id. Set by `key_of`; here for a key that was made without it."""
        return self.text.split(":", 2)[1] if self.text.startswith("agent:") else DEFAULT_AGENT_ID

    @cached_property
    def name(self) -> str:
        """What follows `agent:<agent>:`; for an inside key, all of it."""
        return self.text.split(":", 2)[2] if self.text.startswith("agent:") else self.text

    @cached_property
    def kind(self) -> Kind:
        if self.text == SHARED or self.name == MAIN:
            return "main"
        if self.text.startswith("cron:"):
            return "cron"
        if self.text.startswith("hook:"):
            return "hook"
        if self.text.startswith("node-"):
            return "node"
        return "group" if self.chat_type != "direct" else "other"

    @cached_property
    def chat_type(self) -> ChatType:
        if ":group:" not in self.text and ":channel:" not in self.text:
            return "direct"
        match self.name.split(":"):
            case [_, "group", _, *_]:
                return "group"
            case [_, "channel", _, *_]:
                return "channel"
        return "direct"

    @cached_property
    def channel(self) -> str | None:
        """The channel that the key itself names: of a group, or of a direct chat by channel."""
        match self.name.split(":"):
            case [channel, "group" | "channel" | "dm", _, *_]:
                return channel
            case [channel, _, "dm", _, *_]:
                return channel
        return None

    @cached_property
    def shown(self) -> str:
        """The full text, and never the word `global`: the shared session is its agent's main one."""
        return f"agent:{self.agent_id}:{MAIN}" if self.text == SHARED else self.text

    @cached_property
    def with_agent(self) -> str:
        """A text that names the agent too, which those of work from inside do not by themselves."""
        return self.text if self.text.startswith("agent:") else f"agent:{self.agent_id}:{self.text}"

    @cached_property
    def is_named_by_us(self) -> bool:
        """Whether nobody outside can have influenced it: the main session, and keys with a random id of the
        gateway's own. Any other key may be a stranger's words."""
        return self.text in (SHARED, f"agent:{self.agent_id}:{MAIN}") or bool(
            _OURS.fullmatch(self.name)
        )

    @cached_property
    def is_subagent(self) -> bool:
        return self.name.startswith("subagent:")

    @cached_property
    def is_guest(self) -> bool:
        """Whether its runs are answered from outside of the gateway."""
        return self.name.startswith("mcp:")

    @cached_property
    def thread_id(self) -> str | None:
        match self.name.split(":"):
            case [_, *_, "thread" | "topic", thread]:
                return thread
        return None

    def display(self, caller_agent_id: str | None = None) -> str:
        """The text a caller sees: its own main session is `main`, and `global` is never seen."""
        if self.text == SHARED:
            return MAIN
        if self.name == MAIN and self.agent_id == caller_agent_id:
            return MAIN
        return self.text


@lru_cache(maxsize=10_000)  # of all sessions that are at work or listed; some ten megabytes at most
def key_of(text: str, agent_id: str) -> SessionKey:
    """The key with this canonical text, as the ledger has it, of this agent."""
    key = SessionKey(text)
    key.__dict__["agent_id"] = agent_id
    return key


def linked_peer(channel: str, peer: str, links: Mapping[str, Sequence[str]]) -> str:
    """The person behind a peer id: `session.identityLinks` maps a name to its ids anywhere."""
    lowered = peer.strip().lower()
    spellings = {lowered, f"{channel.strip().lower()}:{lowered}"}
    for name, ids in links.items():
        if any(linked.strip().lower() in spellings for linked in ids):
            return name.strip().lower()
    return lowered


def _with_thread(name: str, thread_id: str | None, word: ThreadWord = "thread") -> str:
    return name if thread_id is None else f"{name}:{word}:{_part(thread_id)}"


def _part(text: str) -> str:
    """An id from outside as part of a key. Colons stay (many platforms use them) unless they would leave an
    empty part, which no key may have."""
    trimmed = text.strip() or "unknown"
    return trimmed if all(trimmed.split(":")) else trimmed.replace(":", "%3A")


def _refuse_odd_characters(text: str) -> None:
    if not text:
        raise InvalidKey("a session key must not be empty; the main session is called main")
    if len(text) > KEY_CHARS_MAX:
        raise InvalidKey(f"a session key has at most {KEY_CHARS_MAX} characters, not {len(text)}")
    if not text.isprintable() or text != text.strip():
        raise InvalidKey(f"{_quote(text)} has characters that no session key has")


def _refuse_lookalike(word: str) -> None:
    """Refuses `MAIN` and full-width spellings: they would be other sessions that look the same to a person."""
    plain = unicodedata.normalize("NFKC", word).casefold()
    if plain in _WORDS and word != plain:
        raise InvalidKey(f"{_quote(word)} is not a session key; did you mean {plain}?")


def _quote(text: str) -> str:
    return repr(with_ellipsis(text, 80))

"""Groups that became supergroups: the same chat under another id. It keeps its session, its rules and its bindings, which
go by the id that it had first; what is sent goes to the one that it has now."""

from crossclaw.channels.contract import ChannelHost

_SUPERGROUP = "-100"
CHATS_MAX = 10_000  # known in memory; beyond, they are read from the store again


class MovedChats:
    def __init__(self, host: ChannelHost) -> None:
        self._host = host
        self._known: dict[str, str | None] = {}

    async def note(self, old: str, new: str) -> None:
        """Stores that a group has moved, durably."""
        await self._host.save_cursor(_is_now(old), new)
        await self._host.save_cursor(_was(new), old)
        self._known |= {_is_now(old): new, _was(new): old}

    async def current(self, chat: str) -> str:
        """The id to send to. Only a group that is no supergroup can have moved."""
        if not chat.startswith("-") or chat.startswith(_SUPERGROUP):
            return chat
        return await self._find(_is_now(chat)) or chat

    async def first(self, chat: str) -> str | None:
        """The id that a supergroup had as a group."""
        return await self._find(_was(chat)) if chat.startswith(_SUPERGROUP) else None

    async def _find(self, name: str) -> str | None:
        if name not in self._known:
            if len(self._known) >= CHATS_MAX:
                self._known.clear()
            self._known[name] = await self._host.load_cursor(name)
        return self._known[name]


def _is_now(old: str) -> str:
    return f"chat {old} is now"


def _was(new: str) -> str:
    return f"chat {new} was"

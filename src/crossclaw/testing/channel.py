"""MemoryChannel: a chat platform that lives in memory, with faults on demand."""

from collections import deque

import anyio
import anyio.abc

from crossclaw.channels.contract import DEFAULT_ACCOUNT, ChannelHost, GivenChannel, Piece, Received
from crossclaw.channels.manifest import Traits
from crossclaw.config.channels import ChannelSettings
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import DeliveryError

OPEN_TO_ALL = ChannelSettings(
    dm_policy="open", allow_from=("*",), group_policy="open", require_mention=False
)
"""Settings with which everybody may talk, in groups without a mention too: for tests that are about something else."""


class MemoryChannel(GivenChannel):
    """A chat platform in memory. `say` is a person typing; `sent` is what people got to see. `faults` are
    raised one by one by the next sends. `knows_key_s`: how long it knows a delivery key and shows the same
    message once; good platforms do for ever.

    Who may talk is decided as on a real platform: without `settings` a stranger gets a pairing code, and groups are not
    heard; with `OPEN_TO_ALL` everybody may.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        knows_key_s: float = 0.0,
        account_id: str = DEFAULT_ACCOUNT,
        settings: ChannelSettings = ChannelSettings(),  # noqa: B008  frozen
        traits: Traits = Traits(),  # noqa: B008  frozen
    ) -> None:
        self.name, self.account_id = name, account_id
        self.settings, self.traits = settings, traits
        self.knows_key_s = knows_key_s
        self.sent: list[tuple[str, str]] = []
        self.pieces: list[Piece] = []
        self.faults: deque[DeliveryError | Exception] = deque()
        self.tries = 0
        self.typing: list[tuple[str, bool]] = []
        """Chats that saw typing begin (True), each time, and end."""
        self.reactions: list[tuple[str, str, bool]] = []
        """Reactions: message, emoji, whether it was put or taken back."""
        self.shown: dict[str, str] = {}
        """What people see now, by the platform's id: edits change it."""
        self.edits = 0
        self.host: ChannelHost | None = None
        self._keys: set[str] = set()
        self._ids: dict[str, str] = {}
        self._numbers = 0
        self._news = anyio.Event()

    async def serve(
        self,
        host: ChannelHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.host = host
        task_status.started()
        await anyio.sleep_forever()

    def knows_key_for_s(self) -> float:
        return self.knows_key_s

    async def send(self, piece: Piece) -> str | None:
        self.tries += 1
        if self.faults:
            raise self.faults.popleft()
        if not (self.knows_key_s and piece.delivery_key in self._keys):
            self._keys.add(piece.delivery_key)
            self.sent.append((piece.address.to, piece.formatted))
            self.pieces.append(piece)
            self._ids[piece.delivery_key] = f"{self.name}-{len(self.sent)}"
            self.shown[self._ids[piece.delivery_key]] = piece.formatted
        self._news.set()
        return self._ids[piece.delivery_key]

    async def edit(self, where: Address, platform_id: str, piece: Piece) -> None:
        if platform_id not in self.shown:
            raise DeliveryError("there is no such message")
        self.edits += 1
        self.shown[platform_id] = piece.formatted
        self._news.set()

    async def show_typing(self, where: Address) -> None:
        self.typing.append((where.to, True))

    async def stop_typing(self, where: Address) -> None:
        self.typing.append((where.to, False))

    async def react(self, where: Address, message_id: str, emoji: str, *, on: bool = True) -> None:
        self.reactions.append((message_id, emoji, on))

    async def say(
        self, sender: str, text: str, *, message_id: str | None = None, group: str | None = None
    ) -> str:
        """Sends a message as a person; returns the run id, once the gateway has accepted it. Fails if it does not:
        `bring` returns what becomes of any message."""
        self._numbers += 1
        received = await self.bring(
            Inbound(
                address=Address(self.name, group or sender),
                sender=sender,
                text=text,
                message_id=message_id or str(self._numbers),
                chat_type="group" if group else "direct",
                chat_id=group,
            )
        )
        assert received.run_id is not None, (
            f"not accepted: {received}; MemoryChannel(settings=OPEN_TO_ALL) lets everybody talk"
        )
        return received.run_id

    async def bring(self, inbound: Inbound) -> Received:
        """Brings anything that a platform can bring."""
        assert self.host is not None, "the channel is not served yet"
        return await self.host.receive(inbound)

    async def wait_sent(self, count: int = 1) -> None:
        while len(self.sent) < count:
            self._news = anyio.Event()
            await self._news.wait()

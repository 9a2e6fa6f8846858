"""MemoryChannel: a chat platform that lives in memory, with faults on demand."""

from collections import deque

import anyio
import anyio.abc

from crossclaw.channels.contract import Receive
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.errors import DeliveryError


class MemoryChannel:
    """`say` is a person typing; `sent` is what people got to see. `faults` are raised one by one by
    the next sends. An idempotent one shows a delivery key once, as good platforms do."""

    def __init__(self, name: str = "memory", *, idempotent: bool = False) -> None:
        self.name = name
        self.idempotent = idempotent
        self.sent: list[tuple[str, str]] = []
        self.faults: deque[DeliveryError | Exception] = deque()
        self.tries = 0
        self._keys: set[str] = set()
        self._receive: Receive | None = None
        self._numbers = 0
        self._news = anyio.Event()

    async def serve(
        self,
        receive: Receive,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self._receive = receive
        task_status.started()
        await anyio.sleep_forever()

    async def send(self, address: Address, text: str, delivery_key: str) -> str | None:
        self.tries += 1
        if self.faults:
            raise self.faults.popleft()
        if not (self.idempotent and delivery_key in self._keys):
            self._keys.add(delivery_key)
            self.sent.append((address.to, text))
        self._news.set()
        return f"{self.name}-{len(self.sent)}"

    async def say(
        self, sender: str, text: str, *, message_id: str | None = None, group: str | None = None
    ) -> str:
        """Answers the run id, once the house has accepted the message."""
        assert self._receive is not None, "the channel is not served yet"
        self._numbers += 1
        return await self._receive(
            Inbound(
                address=Address(self.name, group or sender),
                sender=sender,
                text=text,
                message_id=message_id or str(self._numbers),
                chat_type="group" if group else "direct",
                chat_id=group,
            )
        )

    async def wait_sent(self, count: int = 1) -> None:
        while len(self.sent) < count:
            self._news = anyio.Event()
            await self._news.wait()

"""deliveries.wait: the outcome of a message that was sent to a chat. Ours: OpenClaw has none."""

from typing import Annotated

import anyio
import msgspec

from crossclaw.domain.errors import NotFound
from crossclaw.domain.states import State, delivery_state
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.methods.map import require_person
from crossclaw.ledger.contract import Ledger

LOOK_S = 0.1  # another process may be the one that delivers, so nobody can be waited for

SETTLED = ("ok", "failed", "uncertain")


class DeliveryWaitParams(Params, frozen=True):
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=600)]
    """The message's id, from the answer of `send`."""
    timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=60_000)] = 10_000


class DeliveryWaited(Result, frozen=True):
    standing: State
    """The delivery's state: still queued or waiting if the time was over."""


class DeliveryMethods:
    def __init__(self, ledger: Ledger, resolver: Resolver) -> None:
        self._ledger, self._resolver = ledger, resolver

    @method(
        "deliveries.wait",
        "operator.read",
        "read",
        "Ours: what became of a message that was sent to a chat, once that is known.",
    )
    async def wait(self, caller: Caller, params: DeliveryWaitParams) -> DeliveryWaited:
        require_person(self._resolver, caller)
        ends = anyio.current_time() + params.timeout_ms / 1000
        while True:
            found = await self._look(params.message_id)
            if found.name in SETTLED or anyio.current_time() >= ends:
                return DeliveryWaited(standing=found)
            await anyio.sleep(LOOK_S)

    async def _look(self, message_id: str) -> State:
        found = await self._ledger.find_delivery(message_id)
        if found is None:
            raise NotFound(f"there is no message {message_id}")
        return delivery_state(found.state, found.error, found.attempt)

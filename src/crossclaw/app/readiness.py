"""Readiness: whether the gateway can serve a new client. Anybody may ask, so it is cheap."""

import anyio

from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.claiming import Claiming
from crossclaw.runs.lease import GatewayLease
from crossclaw.runs.slots import Slots

LOOK_S = 1.0  # between two looks at the ledger, however many ask
PATIENCE_S = 2.0  # whoever asks does not wait longer either


class Readiness:
    """Says whether the gateway is ready. It is not while it drains, after its lease has expired, if
    its config differs from that of the gateways it shares its ledger with, or if the ledger does
    not answer."""

    def __init__(
        self,
        ledger: Ledger,
        slots: Slots,
        lease: GatewayLease | None = None,
        claiming: Claiming | None = None,
    ) -> None:
        self._ledger, self._slots, self._lease, self._claiming = ledger, slots, lease, claiming
        self._looked_at = float("-inf")
        self._answers = False
        self._looking = anyio.Lock()

    async def is_ready(self) -> bool:
        has_lease = self._lease is None or self._lease.left_s > 0
        agrees = self._claiming is None or self._claiming.why_not is None
        return has_lease and agrees and not self._slots.closed and await self._ledger_answers()

    async def _ledger_answers(self) -> bool:
        async with self._looking:
            if anyio.current_time() - self._looked_at >= LOOK_S:
                self._answers = await self._look()
                self._looked_at = anyio.current_time()
            return self._answers

    async def _look(self) -> bool:
        try:
            with anyio.fail_after(PATIENCE_S):
                await self._ledger.last_seq("")
        except (CrossclawError, TimeoutError):
            return False
        return True

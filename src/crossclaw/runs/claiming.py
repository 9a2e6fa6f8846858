"""Claiming: which runs a gateway among several takes. One whose config is another than the others' takes none."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from crossclaw.config.agreeing import differing, digest_of, shared_keys
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.gateways import Membership, SharingGateway
from crossclaw.runs.spreading import Spreading

log = logging.getLogger(__name__)

KEYS_SAID = 5
ABSENT_S = 5.0  # for the gateway that a guest is connected to; the others look each second
ABSENT_MAX = 1_000  # sessions of guests that are remembered
NOT_YET = "its config was not compared with that of the others yet"


class Claiming:
    """`agents`: those whose files are here; None: all."""

    def __init__(
        self, membership: Membership, owner: str, agents: Sequence[str] | None = None
    ) -> None:
        self._membership = membership
        self._owner = owner
        self._agents = None if agents is None else frozenset(agents)
        self._keys: dict[str, str] = {}
        self._epoch = 0
        self.spreading = Spreading(owner, self._agents)
        self._is_told = False
        self._absent: dict[SessionKey, float] = {}
        """Since when a run waits here for a guest of another gateway."""
        self.guest_is_here: Callable[[SessionKey], bool] = lambda key: True
        self.why_not: str | None = NOT_YET
        """Why this gateway takes no runs."""

    def take_config(self, raw: Mapping[str, Any], epoch: int) -> None:
        """What this gateway's config says from now on."""
        self._keys, self._epoch, self._is_told = shared_keys(raw), epoch, False

    def may_claim(self, key: SessionKey) -> bool:
        if self.why_not is not None or (
            self._agents is not None and key.agent_id not in self._agents
        ):
            return False
        return not key.is_guest or self._is_with_guest(key)

    def _is_with_guest(self, key: SessionKey) -> bool:
        """What is for a guest is taken where the guest is; by anybody when it seems to be nowhere, so that whoever
        waits is told."""
        if self.guest_is_here(key):
            self._absent.pop(key, None)
            return True
        if len(self._absent) >= ABSENT_MAX:
            self._absent.clear()
        return anyio.current_time() - self._absent.setdefault(key, anyio.current_time()) > ABSENT_S

    async def compare(self) -> None:
        """With the gateway that has the newest config (`ledger.configEpoch`), and of those the longest."""
        digest = digest_of(self._keys)
        if not self._is_told:
            await self._membership.tell_config(self._keys, digest, self._epoch)
            self._is_told = True
        found = await self._membership.list_gateways()
        self.spreading.see(found)
        model = model_of(found, self._owner)
        if model is None or model.config_hash == digest:
            self._settle(None)
            return
        keys = differing(self._keys, await self._membership.find_config(model.incarnation))
        more = f" and {len(keys) - KEYS_SAID} more" if len(keys) > KEYS_SAID else ""
        said = ", ".join(keys[:KEYS_SAID])
        self._settle(f"its config is another than that of gateway {model.gateway_id}: {said}{more}")

    def _settle(self, why_not: str | None) -> None:
        if why_not != self.why_not and why_not is not None:
            log.error("this gateway takes no runs, because %s", why_not)
        elif why_not != self.why_not and self.why_not != NOT_YET:
            log.info("this gateway takes runs again: its config is that of the others")
        self.why_not = why_not


def model_of(found: Sequence[SharingGateway], owner: str) -> SharingGateway | None:
    """Whose config counts; None: ours."""
    living = [each for each in found if each.left_ms > 0 or each.incarnation == owner]
    first = min(living, key=lambda each: (-each.config_epoch, each.joined_at), default=None)
    return None if first is None or first.incarnation == owner else first

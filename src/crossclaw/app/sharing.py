"""Sharing: this gateway as one of several on one ledger. It joins them, keeps its lease, and
leaves."""

import logging
import socket
from hashlib import blake2s

import anyio

from crossclaw import __version__
from crossclaw.app.parts import Gateway
from crossclaw.config import Config, Paths
from crossclaw.domain.aliases import Hints
from crossclaw.domain.errors import CrossclawError
from crossclaw.ledger.gateways import (
    APPROVALS,
    CREDENTIALS,
    INTERRUPT,
    OUTBOX,
    STOP,
    GatewayFacts,
    Membership,
)
from crossclaw.ledger.hints import ENDED, ENTRIES, JOBS, LANES
from crossclaw.ledger.shared_settings import CONFIG, MODEL_KEYS
from crossclaw.runs.lease import GatewayLease

log = logging.getLogger(__name__)

LEAVE_S = 2.0  # then the lease runs out by itself


def name_of(config: Config, paths: Paths) -> str:
    """The name of this gateway: as configured, else made from the machine and the state folder, so
    that it is the same after a restart."""
    folder = blake2s(str(paths.state_dir.absolute()).encode(), digest_size=2).hexdigest()
    return config.ledger.gateway or f"{socket.gethostname()}-{folder}"


async def join_gateways(
    membership: Membership, config: Config, paths: Paths, config_hash: str
) -> None:
    await membership.join(
        GatewayFacts(
            gateway_id=name_of(config, paths),
            address=config.ledger.reached_at,
            version=__version__,
            config_hash=config_hash,
        )
    )


async def has_others(membership: Membership | None) -> bool:
    return membership is not None and len(await membership.list_gateways()) > 1


async def leave_gateways(membership: Membership) -> None:
    """Leaves, so that the others continue its work at once; if that fails, they do when the lease
    expires."""
    with anyio.move_on_after(LEAVE_S, shield=True):
        try:
            await membership.leave()
        except CrossclawError as error:
            log.warning("the other gateways do not know that this one leaves: %s", error)


async def publish_leaving(membership: Membership | None, config: Config, paths: Paths) -> None:
    """Marks this gateway as draining, so that the list of gateways shows it and nobody sends it
    more."""
    if membership is None:
        return
    with anyio.move_on_after(LEAVE_S):
        try:
            await membership.ask_to_drain(name_of(config, paths))
        except CrossclawError as error:
            log.warning("the other gateways do not know that this one drains: %s", error)


class OthersCredentials:
    """Keeps the credentials as the ledger has them, within a second of any gateway's change."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._hint = anyio.Event()

    def on_hint(self, _changed: Hints | None) -> None:
        self._hint.set()

    async def serve(self) -> None:
        while True:
            await self._hint.wait()
            self._hint = anyio.Event()
            try:
                await self._read()
            except CrossclawError as error:
                log.warning("credentials are read again in a second: %s", error)

    async def _read(self) -> None:
        gateway, ended = self._gateway, self._gateway.credentials.ended
        await gateway.pairings.load()
        await gateway.guest_names.load()
        for each in await gateway.ledger.list_credentials():
            newest = gateway.credentials.epoch_of(each.credential_id) or 0
            if (
                each.kind == "door" and each.epoch > newest
            ):  # one that is changed here is stored next
                gateway.credentials.put(each.credential_id, each.epoch)
        if gateway.credentials.ended != ended:
            await gateway.revoking.end_runs()


def listen_to_others(gateway: Gateway, lease: GatewayLease, credentials: OthersCredentials) -> None:
    """Subscribes to the hints of other gateways, so that their changes count here at once; a lost
    hint is made up for at the next look, a second later."""
    ledger, lanes = gateway.ledger, gateway.lanes
    ledger.on_hint(LANES, lease.on_lane_hint)
    for kind in (CONFIG, MODEL_KEYS):
        ledger.on_hint(kind, lease.on_settings_hint)
    ledger.on_hint(ENDED, gateway.run_store.on_end_hint)
    ledger.on_hint(ENDED, lanes.on_end_hint)
    ledger.on_hint(STOP, lanes.on_stop_hint)
    ledger.on_hint(INTERRUPT, lanes.on_interrupt_hint)
    ledger.on_hint(ENTRIES, gateway.exporter.on_entries_hint)
    ledger.on_hint(APPROVALS, gateway.approvals.on_approval_hint)
    ledger.on_hint(CREDENTIALS, credentials.on_hint)
    ledger.on_hint(JOBS, gateway.schedule.clockwork.on_job_hint)
    ledger.on_hint(OUTBOX, lambda _channels: gateway.outbox.wake())

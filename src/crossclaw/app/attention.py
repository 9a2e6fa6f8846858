"""All sources of what needs attention, in one list: to add one is a method and its name in `sources`."""

import logging

import anyio

from crossclaw.channels.account_roles import role_of
from crossclaw.channels.supervisor import AccountStatus, ChannelSupervisor
from crossclaw.domain.attention import AttentionAction, AttentionRow, AttentionSource
from crossclaw.domain.clock import Clock
from crossclaw.domain.credentials import Credential
from crossclaw.domain.errors import CrossclawError
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.pairing import Pairings
from crossclaw.ledger.channels import ChatPairingRequest
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.neighbours import Neighbour, Neighbours, answers
from crossclaw.sessions.attention import ROWS_MAX, LedgerAttention

log = logging.getLogger(__name__)

OTHERS_S = 0.5  # for other gateways to answer: somebody waits for the list


class AttentionSources:
    """Finds what needs attention and is not a row of a session: devices, models, the store, chat accounts and
    strangers."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        neighbours: Neighbours,
        about: About,
        pairings: Pairings,
        channels: ChannelSupervisor,
    ) -> None:
        self._ledger, self._clock, self._neighbours = ledger, clock, neighbours
        self._about, self._pairings, self._channels = about, pairings, channels
        self._started = clock.now_ms()

    def sources(self) -> list[AttentionSource]:
        own = [self.devices, self.models, self.store, self.channels, self.strangers]
        return [*LedgerAttention(self._ledger, self._clock).sources(), *own]

    async def devices(self) -> list[AttentionRow]:
        return [_device_row(each) for each in self._pairings.pending]

    async def models(self) -> list[AttentionRow]:
        return [
            AttentionRow(
                id=f"model:{fault}",
                kind="model",
                what=fault[0].upper() + fault[1:],
                since=self._started,
                helps="crossclaw onboard sets a key",
            )
            for fault in self._about.key_faults()
        ]

    async def store(self) -> list[AttentionRow]:
        return [
            AttentionRow(
                id=f"store:{table}:{count}",
                kind="store",
                subject="The store",
                what=f"has rows in {table} that cannot be read (met {count} times since the start)",
                since=self._started,
                helps="crossclaw doctor names them; what is readable goes on",
            )
            for table, count in self._ledger.unreadable().items()
        ]

    async def channels(self) -> list[AttentionRow]:
        return [*await self.channels_here(), *await self._channels_elsewhere()]

    @answers("attention.channels")
    async def channels_here(self, _body: None = None) -> list[AttentionRow]:
        accounts = self._channels.list_status()
        return [
            _channel_row(each) for each in accounts if _is_down(each) and not self._is_kept(each)
        ]

    def _is_kept(self, account: AccountStatus) -> bool:
        """Whether another gateway keeps the account: what this one could not open, that one did."""
        role = role_of(account.channel, account.account_id)
        return not account.is_ours and self._neighbours.find_holder(role) is not None

    async def _channels_elsewhere(self) -> list[AttentionRow]:
        """Accounts that other gateways keep. One that does not answer at once is left out: people look again."""
        found: list[AttentionRow] = []
        async with anyio.create_task_group() as asking:
            for each in self._neighbours:
                if any(role.startswith("channel:") for role in each.facts.roles):
                    asking.start_soon(self._ask_for_channels, each, found)
        return found

    async def _ask_for_channels(self, holder: Neighbour, found: list[AttentionRow]) -> None:
        with anyio.move_on_after(OTHERS_S):
            try:
                found += await self._neighbours.ask(
                    holder, "attention.channels", None, list[AttentionRow]
                )
            except CrossclawError as error:
                log.info("gateway %s does not tell how its accounts are: %s", holder.name, error)

    async def strangers(self) -> list[AttentionRow]:
        at = self._clock.now_ms()
        asking = await self._ledger.list_pairing_requests(at=at, limit=ROWS_MAX)
        return [_stranger_row(each) for each in asking]


def _stranger_row(asking: ChatPairingRequest) -> AttentionRow:
    which = {"channel": asking.channel, "code": asking.code}
    name = f"{asking.sender_name} ({asking.sender})" if asking.sender_name else asking.sender
    return AttentionRow(
        id=f"chat:{asking.channel}:{asking.account_id}:{asking.sender}:{asking.created_at}",
        kind="chat",
        subject=name,
        what=f"asks on {asking.channel} to talk with your agents",
        why=f"pairing code {asking.code}",
        since=asking.created_at,
        actions=(
            AttentionAction("Let in", "chat.pairing.approve", which),
            AttentionAction("Refuse", "chat.pairing.deny", which),
        ),
    )


def _is_down(account: AccountStatus) -> bool:
    """Whether an account is down. One that is being tried again still is."""
    tried = account.state == "starting" and account.error is not None
    return tried or account.state in ("waiting", "broken")


def _channel_row(account: AccountStatus) -> AttentionRow:
    which = {"channel": account.channel, "accountId": account.account_id}
    named = f" ({account.account_id})" if account.account_id != "default" else ""
    return AttentionRow(
        id=f"channel:{account.channel}:{account.account_id}:{(account.error or account.state)[:200]}",
        kind="channel",
        subject=f"{account.title}{named}",
        what="cannot be used as it is set up" if account.state == "broken" else "is not connected",
        why=account.error,
        since=account.since_ms,
        actions=(AttentionAction("Connect now", "channels.start", which),),
    )


def _device_row(request: Credential) -> AttentionRow:
    said = request.particulars
    name = said.display_name or said.client_id or request.subject[:12]
    where = f" from {said.remote_ip}" if said.remote_ip else ""
    which = {"requestId": request.credential_id}
    return AttentionRow(
        id=f"device:{request.credential_id}:{request.created_at}",
        kind="device",
        subject=f"The device {name}",
        what=f"asks to be let in as {request.role}{where}",
        why=", ".join(request.scopes) or None,
        since=request.created_at,
        actions=(
            AttentionAction("Let in", "device.pair.approve", which),
            AttentionAction("Refuse", "device.pair.reject", which),
        ),
    )

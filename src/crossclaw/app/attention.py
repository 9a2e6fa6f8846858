"""All sources of what needs attention, in one list: to add one is a line here."""

import logging

import anyio

from crossclaw.app.parts import Resources, RunServices, SessionServices
from crossclaw.channels.account_roles import role_of
from crossclaw.channels.supervisor import AccountStatus
from crossclaw.domain.attention import AttentionAction, AttentionRow, AttentionSource
from crossclaw.domain.credentials import Credential
from crossclaw.domain.errors import CrossclawError
from crossclaw.gateway.methods.about import About
from crossclaw.gateway.methods.attention import AttentionMethods
from crossclaw.gateway.neighbours import Neighbour, Neighbours
from crossclaw.ledger.channels import ChatPairingRequest
from crossclaw.sessions.attention import ROWS_MAX, LedgerAttention
from crossclaw.sessions.retrying import Retries

log = logging.getLogger(__name__)

OTHERS_S = 0.5  # for other gateways to answer: somebody waits for the list


def needing_attention(
    resources: Resources, run_services: RunServices, session_services: SessionServices, about: About
) -> AttentionMethods:
    return AttentionMethods(
        resources.ledger,
        run_services.resolver,
        Retries(resources.ledger, run_services.resolver, session_services.intake),
        resources.clock,
        run_services.outbox.look_again,
        attention_sources(resources, session_services, about),
    )


def attention_sources(
    resources: Resources, session_services: SessionServices, about: About
) -> list[AttentionSource]:
    started = resources.clock.now_ms()

    async def devices() -> list[AttentionRow]:
        return [_device_row(each) for each in session_services.pairings.pending]

    async def models() -> list[AttentionRow]:
        return [
            AttentionRow(
                id=f"model:{fault}",
                kind="model",
                what=fault[0].upper() + fault[1:],
                since=started,
                helps="crossclaw onboard sets a key",
            )
            for fault in about.key_faults()
        ]

    async def store() -> list[AttentionRow]:
        return [
            AttentionRow(
                id=f"store:{table}:{count}",
                kind="store",
                subject="The store",
                what=f"has rows in {table} that cannot be read (met {count} times since the start)",
                since=started,
                helps="crossclaw doctor names them; what is readable goes on",
            )
            for table, count in resources.ledger.unreadable().items()
        ]

    def is_kept(account: AccountStatus) -> bool:
        """By another gateway: what this one could not open, that one did."""
        role = role_of(account.channel, account.account_id)
        return not account.is_ours and resources.neighbours.find_holder(role) is not None

    async def channels_here(_asked: None = None) -> list[AttentionRow]:
        accounts = session_services.channels.list_status()
        return [_channel_row(each) for each in accounts if _is_down(each) and not is_kept(each)]

    async def channels() -> list[AttentionRow]:
        return [*await channels_here(), *await _channels_elsewhere(resources.neighbours)]

    resources.neighbours.answer("attention.channels", channels_here)

    async def strangers() -> list[AttentionRow]:
        at = resources.clock.now_ms()
        asking = await resources.ledger.list_pairing_requests(at=at, limit=ROWS_MAX)
        return [_stranger_row(each) for each in asking]

    own = [devices, models, store, channels, strangers]
    return [*LedgerAttention(resources.ledger, resources.clock).sources(), *own]


async def _channels_elsewhere(neighbours: Neighbours) -> list[AttentionRow]:
    """Of accounts that other gateways keep. One that does not answer at once is left out: people look again."""
    found: list[AttentionRow] = []

    async def ask(holder: Neighbour) -> None:
        with anyio.move_on_after(OTHERS_S):
            try:
                found.extend(
                    await neighbours.ask(holder, "attention.channels", None, list[AttentionRow])
                )
            except CrossclawError as error:
                log.info("gateway %s does not tell how its accounts are: %s", holder.name, error)

    async with anyio.create_task_group() as asking:
        for each in neighbours:
            if any(role.startswith("channel:") for role in each.facts.roles):
                asking.start_soon(ask, each)
    return found


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
    """One that is being tried again is still down."""
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

"""Pairing with people: a stranger who writes to an account gets a code, and may talk when the owner has
approved it.

What the stranger wrote is not kept. The same person asking again gets no second message: the code, its message
and the notice to the owner are stored in one step, so a crash sends neither two nor none.
"""

import logging
import secrets

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.contract import Received
from crossclaw.channels.hosting import AccountHost
from crossclaw.channels.registry import find_manifest
from crossclaw.config import Config
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import NotFound
from crossclaw.ledger.channels import (
    ChatPairingRequest,
    DecidePairing,
    PairedSender,
    RemovePaired,
    RequestPairing,
)
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Audit, NewDelivery
from crossclaw.sessions.channel_rules import ids_of, normalizer
from crossclaw.sessions.route import route

log = logging.getLogger(__name__)

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without those that are read as another one
CODE_CHARS = 8  # 40 bits: approved by hand, so nobody can try many
LIFE_MS = 3_600_000
PENDING_MAX = 3  # of one account; a person looks at each
GIVES_WAY_MS = 15 * 60_000
"""The age at which an unanswered request gives its place to the next stranger, or three of them could keep
everybody else out; not less, or every newcomer could push the others out before the owner has looked."""
OLD_MS = 30_000  # what was written so long before the gateway started is history: nobody waits for an answer
NAME_CHARS_MAX = 80
LIST_MAX = 1_000


class ChannelPairing:
    def __init__(
        self, config: Config, ledger: Ledger, accounts: LiveAccounts, clock: Clock
    ) -> None:
        self._config, self._ledger, self._accounts, self._clock = config, ledger, accounts, clock

    async def offer(self, live: LiveAccount, host: AccountHost, inbound: Inbound) -> Received:
        """Sends a pairing code to a stranger in a direct chat."""
        if inbound.at_ms is not None and inbound.at_ms < host.opened_ms - OLD_MS:
            return Received(what="dropped", why="a stranger wrote it before the gateway started")
        now = self._clock.now_ms()
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE_CHARS))
        request = ChatPairingRequest(
            channel=live.channel,
            account_id=live.account_id,
            sender=inbound.sender,
            code=code,
            sender_name=_plain(inbound.sender_name),
            created_at=now,
            last_seen_at=now,
            expires_at=now + LIFE_MS,
        )
        letters = (self._to_stranger(request, inbound), *self._to_owners(request))
        asked = await self._ledger.do(
            RequestPairing(
                request=request,
                pending_max=PENDING_MAX,
                gives_way_at=now - GIVES_WAY_MS,
                deliveries=letters,
            )
        )
        if asked is None:
            return Received(what="dropped", why="too many strangers wait for approval already")
        if asked.code == code:
            log.info("somebody asks to talk: %s account %s: crossclaw pairing list", *live.place)
            host.wake()
        return Received(what="pairing", why="the sender is not approved yet")

    async def list_requests(self) -> list[ChatPairingRequest]:
        return await self._ledger.list_pairing_requests(at=self._clock.now_ms(), limit=LIST_MAX)

    async def list_paired(self) -> list[PairedSender]:
        return await self._ledger.list_paired_senders(limit=LIST_MAX)

    async def decide(
        self, channel: str, code: str, *, approve: bool, by: str, account_id: str | None = None
    ) -> ChatPairingRequest:
        manifest = find_manifest(channel)
        name, wanted = manifest.name if manifest else channel, code.strip().upper()
        at = self._clock.now_ms()
        op = DecidePairing(
            channel=name, code=wanted, approve=approve, at=at, by=by, account_id=account_id
        )
        found = await self._ledger.do(op)
        if found is None:
            raise NotFound(
                f"nobody on {channel} has the code {wanted[:20]}; codes are good for an hour, and "
                "crossclaw pairing list shows them"
            )
        await self._ledger.do(
            Audit(
                at=at,
                agent_id=self._config.agents.default_id,
                principal=by,
                action="channel pairing approved" if approve else "channel pairing denied",
                target=f"{found.channel}:{found.account_id}:{found.sender}",
                allowed=approve,
                reason="by hand",
            )
        )
        return found

    async def remove(self, channel: str, account_id: str, sender: str) -> bool:
        manifest = find_manifest(channel)
        name = manifest.name if manifest else channel
        target = manifest.read_target(sender) if manifest else None
        return await self._ledger.do(
            RemovePaired(
                channel=name,
                account_id=account_id,
                sender=sender,
                chats=(sender, *([target.to] if target else [])),
                forgets_chats=not self._may_talk_anyhow(name, account_id, sender),
            )
        )

    def _may_talk_anyhow(self, channel: str, account_id: str, sender: str) -> bool:
        """Whether the config alone lets this sender talk."""
        live = self._accounts.find(Address(channel, "", account_id))
        if live is None:
            return False
        normalize = normalizer(channel)
        named = ids_of(live.settings.allow_from, normalize)
        return live.settings.dm_policy == "open" or (normalize(sender) or sender) in named

    # ── what is said ───────────────────────────────────────────────────────────────────────────

    def _to_stranger(self, request: ChatPairingRequest, inbound: Inbound) -> NewDelivery:
        manifest = find_manifest(request.channel)
        label = manifest.traits.id_label if manifest else "id"
        text = (
            "This assistant does not know you yet.\n\n"
            f"Your {label}: {request.sender}\n"
            f"Pairing code: {request.code}\n\n"
            "Ask its owner to approve it within an hour:\n"
            f"crossclaw pairing approve {request.channel} {request.code}"
        )
        return NewDelivery(
            delivery_key=_key(request, "code"),
            key=route(self._config, inbound),
            address=inbound.address,
            text=text,
        )

    def _to_owners(self, request: ChatPairingRequest) -> list[NewDelivery]:
        """Messages to each owner whose chat is known by `commands.ownerAllowFrom`: `telegram:123`."""
        who = f"{request.sender_name} ({request.sender})" if request.sender_name else request.sender
        text = (
            f"Somebody on {request.channel} asks to talk to your assistant: {who}.\n"
            f"To allow it: crossclaw pairing approve {request.channel} {request.code}"
        )
        found: list[NewDelivery] = []
        for entry in map(str, self._config.commands.owner_allow_from):
            channel, _, owner = entry.partition(":")
            if not owner or channel.lower() not in self._accounts or owner == request.sender:
                continue
            found.append(
                NewDelivery(
                    delivery_key=_key(request, entry),
                    key=self._config.main_key(self._config.agents.default_id),
                    address=Address(channel.lower(), owner, named=True),
                    text=text,
                )
            )
        return found


def _key(request: ChatPairingRequest, to: str) -> str:
    place = f"{request.channel}:{request.account_id}:{request.sender}"
    return f"pairing:{place}:{request.created_at}:{to}"


def _plain(name: str | None) -> str | None:
    """A stranger's name on one line: strangers choose it themselves."""
    letters = "".join(letter if letter.isprintable() else " " for letter in name or "")
    return " ".join(letters.split())[:NAME_CHARS_MAX] or None

"""chat.pairing.*: who asks to talk on chat accounts, and who may. OpenClaw's `channels.pairing.*` has other
answers."""

from typing import Any

import msgspec

from crossclaw.channels.contract import DEFAULT_ACCOUNT
from crossclaw.domain.aliases import Filled
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.ledger.channels import ChatPairingRequest
from crossclaw.sessions.channel_pairing import ChannelPairing


class PairingListParams(Params, frozen=True):
    channel: str | None = None
    """Only requests of this channel."""


class PairingListing(Result, frozen=True):
    requests: list[dict[str, Any]]
    """Who asks; a code is good for an hour."""
    paired: list[dict[str, Any]]
    """Who may talk directly, beside those that the config names."""


class PairingCodeParams(Params, frozen=True):
    channel: Filled
    code: Filled
    account_id: str | None = None


class PairingDecided(Result, frozen=True):
    ok: bool
    request: dict[str, Any]


class PairedSenderParams(Params, frozen=True):
    channel: Filled
    sender: Filled
    account_id: str | None = None


class PairedRemoved(Result, frozen=True):
    removed: bool


class ChannelPairingMethods:
    def __init__(self, pairing: ChannelPairing) -> None:
        self._pairing = pairing

    @method(
        "chat.pairing.list",
        "operator.pairing",
        "read",
        "Who asks to talk on chat accounts, and who may.",
    )
    async def list_all(self, caller: Caller, params: PairingListParams) -> PairingListing:
        requests, paired = await self._pairing.list_requests(), await self._pairing.list_paired()
        return PairingListing(
            requests=[_shown(each) for each in requests if params.channel in (None, each.channel)],
            paired=[_shown(each) for each in paired if params.channel in (None, each.channel)],
        )

    @method(
        "chat.pairing.approve",
        "operator.pairing",
        "change",
        "Let somebody talk who has shown this code.",
    )
    async def approve(self, caller: Caller, params: PairingCodeParams) -> PairingDecided:
        return await self._decide(caller, params, approve=True)

    @method("chat.pairing.deny", "operator.pairing", "change", "Forget a pairing code.")
    async def deny(self, caller: Caller, params: PairingCodeParams) -> PairingDecided:
        return await self._decide(caller, params, approve=False)

    async def _decide(
        self, caller: Caller, params: PairingCodeParams, *, approve: bool
    ) -> PairingDecided:
        by, account = caller.principal.name, params.account_id
        found: ChatPairingRequest = await self._pairing.decide(
            params.channel, params.code, approve=approve, by=by, account_id=account
        )
        return PairingDecided(ok=True, request=_shown(found))

    @method(
        "chat.pairing.remove",
        "operator.pairing",
        "change",
        "Somebody who was approved may not talk any more.",
    )
    async def remove(self, caller: Caller, params: PairedSenderParams) -> PairedRemoved:
        account = params.account_id or DEFAULT_ACCOUNT
        removed = await self._pairing.remove(params.channel, account, params.sender)
        return PairedRemoved(removed=removed)


def _shown(row: msgspec.Struct) -> dict[str, Any]:
    return {_camel(name): value for name, value in msgspec.structs.asdict(row).items()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

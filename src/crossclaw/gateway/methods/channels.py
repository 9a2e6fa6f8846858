"""channels.*: the chat accounts and their status, as OpenClaw's clients read it."""

import logging
from typing import Any

import anyio
import msgspec

from crossclaw.channels.account_roles import role_of
from crossclaw.channels.contract import DEFAULT_ACCOUNT
from crossclaw.channels.supervisor import AccountStatus, ChannelSupervisor
from crossclaw.domain.addresses import WEBCHAT
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CrossclawError, Invalid
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.runs.neighbours import ASK_S, Neighbour, Neighbours, answers

log = logging.getLogger(__name__)

PROBE_MS = 10_000
STATUS_S = 2.0  # for another gateway to tell how its accounts are: people wait for the list

Shown = dict[str, Any]
"""An account as clients read it."""


class ChannelsParams(Params, frozen=True):
    probe: bool | None = None
    """Whether to ask every platform now who we are."""
    timeout_ms: int | None = None
    channel: str | None = None
    """Only this channel."""


class ChannelAccountParams(Params, frozen=True):
    channel: str
    account_id: str | None = None


class ChannelStarted(Result, frozen=True):
    channel: str
    account_id: str
    started: bool


class WebLoginParams(Params, frozen=True):
    account_id: str | None = None
    force: bool | None = None
    timeout_ms: int | None = None
    verbose: bool | None = None
    current_qr_data_url: str | None = None


class ChannelMethods:
    def __init__(self, supervisor: ChannelSupervisor, clock: Clock, neighbours: Neighbours) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._neighbours = neighbours

    @method(
        "channels.status", "operator.read", "read", "The channels, their accounts and how they are."
    )
    async def status(self, caller: Caller, params: ChannelsParams) -> dict[str, Any]:
        listed = self._supervisor.list_status()
        listed = [each for each in listed if params.channel in (None, each.channel)]
        own: dict[str, list[Shown]] = {WEBCHAT: []} if params.channel in (None, WEBCHAT) else {}
        shown = own | _by_channel(listed, await self._shown(listed, params))
        titles = {WEBCHAT: "Webchat"} | {each.channel: each.title for each in listed}
        return {
            "ts": self._clock.now_ms(),
            "channelOrder": list(shown),
            "channelLabels": {name: titles[name] for name in shown},
            "channels": {name: _channel(name, accounts) for name, accounts in shown.items()},
            "channelAccounts": shown,
            "channelDefaultAccountId": {name: _default(rows) for name, rows in shown.items()},
        }

    async def _shown(
        self, listed: list[AccountStatus], params: ChannelsParams
    ) -> dict[tuple[str, str], Shown]:
        """The status of each account as its own gateway reports it; where that cannot be reached, as this one
        sees it."""
        here = [each for each in listed if not self._is_away(each)]
        rows = {(each.channel, each.account_id): _account(each, None) for each in listed}
        async with anyio.create_task_group() as asking:

            async def ask(holder: Neighbour) -> None:
                rows.update(await self._ask_status(holder, params))

            for holder in self._holders(listed):
                asking.start_soon(ask, holder)
            probes = await self._probe(here, params) if params.probe else {}
            for each in here:
                place = each.channel, each.account_id
                rows[place] = _account(each, probes.get(place))
        return rows

    def _holders(self, listed: list[AccountStatus]) -> list[Neighbour]:
        found = [self._find_holder(each) for each in listed]
        return list({each.facts.incarnation: each for each in found if each}.values())

    def _find_holder(self, status: AccountStatus) -> Neighbour | None:
        """The other gateway that keeps this account."""
        role = role_of(status.channel, status.account_id)
        return None if status.is_ours else self._neighbours.find_holder(role)

    def _is_away(self, status: AccountStatus) -> bool:
        """Whether another gateway has to be asked about this account. For one that no gateway could open,
        this one knows why."""
        return status.state == "elsewhere" or self._find_holder(status) is not None

    async def _ask_status(
        self, holder: Neighbour, params: ChannelsParams
    ) -> dict[tuple[str, str], Shown]:
        probe_s = (params.timeout_ms or PROBE_MS) / 1000 if params.probe else 0.0
        asked, timeout_s = msgspec.to_builtins(params), STATUS_S + probe_s
        answer: list[tuple[str, Shown]] = []
        try:
            with anyio.move_on_after(timeout_s):
                answer = await self._neighbours.ask(
                    holder, "channels.status", asked, list[tuple[str, Shown]], ASK_S + probe_s
                )
        except CrossclawError as error:
            log.info("gateway %s does not tell how its chat accounts are: %s", holder.name, error)
        return {(channel, shown["accountId"]): shown for channel, shown in answer}

    @answers("channels.status")
    async def _status_for_others(self, body: Any) -> list[tuple[str, Shown]]:
        params = msgspec.convert(body, ChannelsParams)
        here = [each for each in self._supervisor.list_status() if each.is_ours]
        here = [each for each in here if params.channel in (None, each.channel)]
        probes = await self._probe(here, params) if params.probe else {}
        return [
            (each.channel, _account(each, probes.get((each.channel, each.account_id))))
            for each in here
        ]

    async def _probe(
        self, listed: list[AccountStatus], params: ChannelsParams
    ) -> dict[tuple[str, str], dict[str, Any]]:
        """Probes all accounts at once: one platform that is away does not hold up the others."""
        found: dict[tuple[str, str], dict[str, Any]] = {}

        async def ask(each: AccountStatus) -> None:
            began = self._clock.now_ms()
            answer: dict[str, Any] = {"ok": False, "error": "no answer in time"}
            found[each.channel, each.account_id] = answer
            try:
                facts = await self._supervisor.probe(each.channel, each.account_id)
            except CrossclawError as error:
                answer["error"] = str(error)
            else:
                answer |= {
                    "ok": True,
                    "error": None,
                    "bot": {"id": facts.id, "username": facts.name},
                }
            answer["elapsedMs"] = self._clock.now_ms() - began

        with anyio.move_on_after((params.timeout_ms or PROBE_MS) / 1000):
            async with anyio.create_task_group() as tasks:
                for each in listed:
                    tasks.start_soon(ask, each)
        return found

    @method("channels.start", "operator.admin", "change", "Try to connect an account now.")
    async def start(self, caller: Caller, params: ChannelAccountParams) -> ChannelStarted:
        account_id = params.account_id or DEFAULT_ACCOUNT
        holder = self._neighbours.find_holder(role_of(params.channel, account_id))
        if holder is None:
            self._supervisor.start_again(params.channel, account_id)
        else:
            asked = [params.channel, account_id]
            await self._neighbours.ask(holder, "channels.start", asked, bool)
        return ChannelStarted(channel=params.channel, account_id=account_id, started=True)

    @answers("channels.start")
    async def _start_for_others(self, body: Any) -> bool:
        channel, account_id = msgspec.convert(body, tuple[str, str])
        self._supervisor.start_again(channel, account_id)
        return True

    @method(
        "channels.logout",
        "operator.admin",
        "change",
        "For OpenClaw's clients: says what to do instead.",
    )
    async def logout(self, caller: Caller, params: ChannelAccountParams) -> dict[str, Any]:
        raise Invalid(
            f"accounts are not linked here but have a token: take the one of {params.channel} out of openclaw.json "
            f"(or set channels.{params.channel}.enabled to false), and revoke it at the platform"
        )

    @method(
        "web.login.start",
        "operator.admin",
        "change",
        "For OpenClaw's clients: says what to do instead.",
    )
    async def web_login(self, caller: Caller, params: WebLoginParams) -> dict[str, Any]:
        raise Invalid(_NO_LINKED_PHONE)

    @method(
        "web.login.wait",
        "operator.admin",
        "change",
        "For OpenClaw's clients: says what to do instead.",
    )
    async def web_login_wait(self, caller: Caller, params: WebLoginParams) -> dict[str, Any]:
        raise Invalid(_NO_LINKED_PHONE)


_NO_LINKED_PHONE = (
    "web login provider is not available: WhatsApp is spoken by Meta's Cloud API here, which needs no linked phone "
    "and no QR code; docs/channels.md says how to set it up"
)


def _by_channel(
    listed: list[AccountStatus], rows: dict[tuple[str, str], Shown]
) -> dict[str, list[Shown]]:
    found: dict[str, list[Shown]] = {}
    for each in listed:
        found.setdefault(each.channel, []).append(rows[each.channel, each.account_id])
    return found


def _channel(name: str, accounts: list[dict[str, Any]]) -> dict[str, Any]:
    """A channel's summary as OpenClaw has it: its default account, or the first."""
    if name == WEBCHAT:
        return {"configured": True, "running": True}
    default = _default(accounts)
    shown = next(each for each in accounts if each["accountId"] == default)
    return {key: value for key, value in shown.items() if key != "accountId"}


def _default(accounts: list[dict[str, Any]]) -> str:
    known = [each["accountId"] for each in accounts]
    return DEFAULT_ACCOUNT if DEFAULT_ACCOUNT in known or not known else known[0]


def _account(status: AccountStatus, probe: dict[str, Any] | None) -> dict[str, Any]:
    running = status.state == "running"
    shown = {
        "accountId": status.account_id,
        "name": status.name,
        "enabled": True,
        "configured": status.state != "not set up",
        "running": status.state in ("starting", "running", "waiting"),
        "connected": running,
        "state": status.state,
        "stateSince": status.since_ms,
        "nextTryAt": status.next_try_ms,
        "reconnectAttempts": status.restarts,
        "lastConnectedAt": status.connected_ms,
        "lastError": status.error,
        "lastErrorAt": status.error_at_ms,
        "lastEventAt": status.heard_ms,
        "lastInboundAt": status.inbound_ms,
        "lastOutboundAt": status.outbound_ms,
        "webhookPath": status.webhook_path,
        "probe": probe,
    }
    if status.facts is not None:
        facts = status.facts
        shown["bot"] = {"id": facts.id, "username": facts.name, "detail": facts.detail}
    shown["dmPolicy"] = status.settings.dm_policy
    shown["groupPolicy"] = status.settings.group_policy
    return {key: value for key, value in shown.items() if value is not None}

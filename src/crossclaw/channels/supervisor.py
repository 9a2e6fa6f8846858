"""The supervisor: keeps every account open that the config names. One that fails is started again, and none
affects another.

A changed config restarts the accounts that it changes and no other. An account whose token is wrong is left
alone for half an hour at a time: asking more often does not help, and platforms lock out who does.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
import msgspec

from crossclaw.channels.account_roles import AccountRoles, BotRoles, role_of
from crossclaw.channels.accounts import AccountPlace, LiveAccount, LiveAccounts
from crossclaw.channels.contract import (
    AccountFacts,
    AccountWebhook,
    ChannelAccount,
    GivenChannel,
)
from crossclaw.channels.hosting import AccountHost, FindTwin, HostServices
from crossclaw.channels.http import HttpClients
from crossclaw.channels.manifest import Traits
from crossclaw.channels.registry import find_manifest, open_account
from crossclaw.config.channels import AccountConfig, ChannelSettings
from crossclaw.domain.errors import AccountBroken, ChannelDown, CrossclawError, NotFound, first_of
from crossclaw.domain.secret import Secret

log = logging.getLogger(__name__)

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0  # a platform that is away is not helped by asking more often
SOUND_S = 60.0  # whoever has lived so long is well again: the next pause is short
BROKEN_S = 1_800.0  # a token may be put right at the platform, without a change of the config
PROBE_S = 10.0

DOWN_S = 120.0  # an account that could not be connected here for so long is left to another gateway
TWIN_S = 300.0  # the config may have changed there, too, or that gateway may be gone

WantedAccounts = Callable[[], Sequence[AccountConfig]]
"""The accounts of the config in force."""
AccountState = Literal[
    "starting", "running", "waiting", "broken", "not set up", "stopped", "elsewhere"
]


class SameBotElsewhere(AccountBroken):
    """Another gateway is the same bot at the platform, by another account of the config."""

    def __init__(self, name: str, gateway: str) -> None:
        super().__init__(
            f"{name} is the same account as one that the gateway {gateway} keeps under another name, and everybody would be"
            " answered twice: give it a token of its own, or take one of the two out of the config"
        )


class AccountStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of an account, for people."""

    channel: str
    account_id: str
    title: str
    name: str | None
    state: AccountState
    since_ms: int
    error: str | None = None
    """The last error, also of an account that runs again."""
    error_at_ms: int | None = None
    next_try_ms: int | None = None
    restarts: int = 0
    facts: AccountFacts | None = None
    connected_ms: int | None = None
    heard_ms: int | None = None
    inbound_ms: int | None = None
    outbound_ms: int | None = None
    settings: ChannelSettings
    webhook_path: str | None = None
    is_ours: bool = True
    """Whether this one of several gateways has the account: it keeps it open, or tries to."""


class _SupervisedAccount:
    """One account under supervision."""

    def __init__(
        self,
        place: AccountPlace,
        host: AccountHost,
        digest: str,
        settings: ChannelSettings,
        account: ChannelAccount | None,
        traits: Traits,
    ) -> None:
        self.place, self.host, self.digest = place, host, digest
        self.settings, self.account, self.traits = settings, account, traits
        self.state: AccountState = "starting"
        self.since_ms = host.now_ms()
        self.next_try_ms: int | None = None
        self.restarts = 0
        self.scope = anyio.CancelScope()
        self.again = anyio.Event()
        """Set when somebody asks for another try now."""
        self.settled = anyio.Event()
        """Set when the account runs, or has failed once."""
        self.done = anyio.Event()
        self.have()

    def have(self) -> None:
        """Notes that the account is this gateway's from now on."""
        self.since_s, self._connected_before = anyio.current_time(), self.host.connected_ms
        self.has_run = False

    @property
    def may_have_sent(self) -> bool:
        """Whether a message may have been sent since the account is this gateway's."""
        return self.has_run or self.host.connected_ms != self._connected_before

    def turn(self, state: AccountState, next_try_ms: int | None = None) -> None:
        if state != self.state:
            self.since_ms = self.host.now_ms()
        self.state, self.next_try_ms = state, next_try_ms

    @property
    def words(self) -> str:
        return "{} account {}".format(*self.place)


class ChannelSupervisor:
    """`folder_of` and `open_http`: a place for the files of an account, and its way to its platform. `roles`: of a gateway that
    shares its ledger with others."""

    def __init__(
        self,
        accounts: LiveAccounts,
        folder_of: Callable[[str, str], Path],
        open_http: Callable[[], HttpClients],
        *,
        inline: bool = False,
        roles: AccountRoles | None = None,
    ) -> None:
        self._roles = roles
        self._bots = None if roles is None else BotRoles(roles)
        self._accounts, self._folder_of, self._open_http = accounts, folder_of, open_http
        self._inline = inline
        self._kept: dict[AccountPlace, _SupervisedAccount] = {}
        self._look = anyio.Event()

    def look_again(self) -> None:
        """Reads the accounts of the config anew."""
        self._look.set()

    async def serve(
        self,
        services: HostServices,
        wanted: WantedAccounts | None,
        given: Sequence[GivenChannel] = (),
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Keeps the accounts open until cancelled. `services`: who receives. Given accounts are waited for; those
        of the config keep no gateway from starting. `wanted` None: they are left to another process."""
        self._services = services
        async with anyio.create_task_group() as tasks:
            for each in given:
                await self._start_given(tasks, each)
            task_status.started()
            while wanted is not None:
                self._look = anyio.Event()
                self._settle(tasks, wanted())
                self._accounts.settle()
                services.wake()
                await self._look.wait()

    # ── what there is ──────────────────────────────────────────────────────────────────────────

    def list_status(self) -> list[AccountStatus]:
        return [self._status(self._kept[place]) for place in sorted(self._kept)]

    def _status(self, kept: _SupervisedAccount) -> AccountStatus:
        channel, account_id = kept.place
        manifest, host = find_manifest(channel), kept.host
        return AccountStatus(
            channel=channel,
            account_id=account_id,
            title=manifest.title if manifest else channel.capitalize(),
            name=kept.settings.name,
            state=kept.state,
            since_ms=kept.since_ms,
            error=host.last_error,
            error_at_ms=host.last_error_ms,
            next_try_ms=kept.next_try_ms,
            restarts=kept.restarts,
            facts=host.facts,
            connected_ms=host.connected_ms,
            heard_ms=host.heard_ms,
            inbound_ms=host.inbound_ms,
            outbound_ms=host.outbound_ms,
            settings=kept.settings,
            webhook_path=webhook_path(kept.place, kept.settings, kept.traits),
            is_ours=self._is_ours(kept),
        )

    def _is_ours(self, kept: _SupervisedAccount) -> bool:
        return self._roles is None or self._roles.has(role_of(*kept.place))

    async def probe(self, channel: str, account_id: str) -> AccountFacts:
        """Asks the platform now who the account is. Its answer, or the failure, is remembered."""
        kept = self._get(channel, account_id)
        if kept.account is None:
            raise ChannelDown(kept.host.last_error or f"{kept.words} is {kept.state}")
        try:
            with anyio.fail_after(PROBE_S):
                facts = await kept.account.probe()
        except TimeoutError:
            raise ChannelDown(f"{kept.words} did not answer in {PROBE_S:g} s") from None
        kept.host.learn(facts)
        return facts

    def find_webhook(self, path: str) -> AccountWebhook | None:
        """The account's own, where the path is of one that is open here."""
        kept = self._find_webhook(path)
        if kept is None or kept.account is None or not self._is_ours(kept):
            return None
        return kept.account.webhook

    def find_webhook_role(self, path: str) -> str | None:
        """The role of an account with this webhook path that another gateway keeps."""
        kept = self._find_webhook(path)
        return role_of(*kept.place) if kept is not None and not self._is_ours(kept) else None

    def _find_webhook(self, path: str) -> _SupervisedAccount | None:
        for kept in self._kept.values():
            if webhook_path(kept.place, kept.settings, kept.traits) == path:
                return kept
        return None

    def start_again(self, channel: str, account_id: str) -> None:
        """Starts an account now, instead of after its pause."""
        kept = self._get(channel, account_id)
        kept.again.set()

    def _get(self, channel: str, account_id: str) -> _SupervisedAccount:
        if (kept := self._kept.get((channel, account_id))) is None:
            known = ", ".join("/".join(place) for place in sorted(self._kept)) or "none"
            raise NotFound(f"no account {account_id} of {channel} is set up; there are: {known}")
        return kept

    # ── which there should be ──────────────────────────────────────────────────────────────────

    async def _start_given(self, tasks: anyio.abc.TaskGroup, given: GivenChannel) -> None:
        place = (given.name, given.account_id)
        host = self._make_host(place, None)
        kept = _SupervisedAccount(place, host, "", given.settings, given, given.traits)
        self._kept[place] = kept
        tasks.start_soon(self._keep, kept, None, name=kept.words)
        await kept.settled.wait()

    def _make_host(self, place: AccountPlace, find_twin: FindTwin | None) -> AccountHost:
        folder, http = self._folder_of(*place), self._open_http()
        return AccountHost(place, self._services, http, folder, find_twin)

    def _settle(self, tasks: anyio.abc.TaskGroup, wanted: Sequence[AccountConfig]) -> None:
        configs = {(each.channel, each.account_id): each for each in wanted}
        for place, kept in list(self._kept.items()):
            gone = place not in configs or kept.digest != _digest(configs[place])
            if kept.digest and gone:
                kept.scope.cancel()
                self._wake_broken(place[0])
                if place not in configs:
                    log.info("%s is closed: the config does not name it any more", kept.words)
                    del self._kept[place]
                    self._accounts.forget(place)
        for place, config in configs.items():
            before = self._kept.get(place)
            if before is not None and (not before.digest or before.digest == _digest(config)):
                continue
            self._start(tasks, config, before)

    def _start(
        self, tasks: anyio.abc.TaskGroup, config: AccountConfig, before: _SupervisedAccount | None
    ) -> None:
        place = (config.channel, config.account_id)
        manifest = find_manifest(config.channel)
        assert manifest is not None, "the config was read with it"
        host = self._make_host(place, partial(self._find_twin, place))
        kept = _SupervisedAccount(
            place, host, _digest(config), config.settings, None, manifest.traits
        )
        self._kept[place] = kept
        self._accounts.expect(place)
        after = None if before is None else before.done
        tasks.start_soon(self._keep, kept, after, name=kept.words)

    def _wake_broken(self, channel: str) -> None:
        """Wakes accounts that were refused because another was the same one: it may be free now."""
        for place, kept in self._kept.items():
            if place[0] == channel and kept.state == "broken":
                kept.again.set()

    async def _find_twin(self, place: AccountPlace, facts: AccountFacts) -> str | None:
        """Another account of the config that is open, here or on another gateway, and is the same one at the platform."""
        if self._bots is not None:
            is_free = partial(self._has_no_twin_here, place, facts)
            holder = await self._bots.take(place, facts.id, is_free)
            if holder is not None:
                raise SameBotElsewhere(facts.name or facts.id, holder)
        return self._find_twin_here(place, facts)

    def _has_no_twin_here(self, place: AccountPlace, facts: AccountFacts) -> bool:
        return self._find_twin_here(place, facts) is None

    def _find_twin_here(self, place: AccountPlace, facts: AccountFacts) -> str | None:
        for (channel, account_id), other in self._kept.items():
            is_open = other.place != place and other.state in ("starting", "running")
            known = other.host.facts
            if is_open and channel == place[0] and known and known.id == facts.id:
                return account_id
        return None

    # ── keeping one ────────────────────────────────────────────────────────────────────────────

    async def _keep(self, kept: _SupervisedAccount, after: anyio.Event | None) -> None:
        """Keeps one account open, after the one before has ended: there are never two of the same account."""
        try:
            if after is not None:
                await after.wait()
            with kept.scope:
                await self._keep_open(kept)
        finally:
            if kept.state != "not set up":
                kept.turn("stopped")
            self._accounts.remove(kept.place, kept.account)
            with anyio.CancelScope(shield=True):
                await kept.host.http.close()
            if kept.scope.cancel_called:  # else the whole gateway ends
                await self._let_go(kept)
            kept.settled.set()
            kept.done.set()

    async def _wait_to_be_its_gateway(self, kept: _SupervisedAccount) -> None:
        """Waits until this gateway holds the account's role. Of several gateways one has it; the others take
        it when that one is gone, or cannot open it."""
        if self._roles is not None and not self._is_ours(kept):
            kept.turn("elsewhere")
            kept.settled.set()
            await self._roles.wait_for(role_of(*kept.place))
            kept.have()
        kept.turn("starting")

    async def _let_others_try(self, kept: _SupervisedAccount) -> None:
        """Gives up an account that this gateway cannot open; another one may be able to: keys, token files,
        variables and routes to the platform are each machine's own.

        One that was connected here stays until this gateway ends: replies may be on their way by it, which
        another would take for left over, and send again.
        """
        if self._roles is None or self._bots is None or kept.may_have_sent:
            return
        await self._bots.leave(kept.place)
        await self._roles.leave(role_of(*kept.place))
        if kept.digest:
            kept.account = None  # what it has in memory may be the past when it is ours again

    async def _let_go(self, kept: _SupervisedAccount) -> None:
        """Closes an account that the config does not name any more, or has changed."""
        if self._bots is not None:
            await self._bots.leave(kept.place)
        if kept.place not in self._kept:
            await self._let_others_try(kept)

    async def _keep_open(self, kept: _SupervisedAccount) -> None:
        settings = kept.settings
        if not settings.is_set_up:
            kept.turn("not set up")
            kept.host.troubled(f"not set up: {settings.what_is_missing}")
            await self._let_others_try(kept)
            return
        pause_s = PAUSE_FIRST_S
        while True:
            await self._wait_to_be_its_gateway(kept)
            began = anyio.current_time()
            error = await self._serve_once(kept)
            if anyio.current_time() - began >= SOUND_S:
                pause_s = PAUSE_FIRST_S
            wait_s = self._wait_s(kept, error, pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)
            kept.again = anyio.Event()
            if kept.state == "broken" or anyio.current_time() - kept.since_s >= DOWN_S:
                await self._let_others_try(kept)
            kept.settled.set()
            with anyio.move_on_after(wait_s):
                await kept.again.wait()
            kept.restarts += 1

    def _wait_s(self, kept: _SupervisedAccount, error: Exception, pause_s: float) -> float:
        """The pause before the next attempt; sets what is shown about it."""
        broken = isinstance(error, AccountBroken)
        wait_s = BROKEN_S if broken else pause_s
        if isinstance(error, SameBotElsewhere):
            wait_s = TWIN_S
        if isinstance(error, ChannelDown) and error.retry_after_s is not None:
            wait_s = max(wait_s, error.retry_after_s)
        kept.turn("broken" if broken else "waiting", kept.host.now_ms() + int(wait_s * 1000))
        expected = isinstance(error, CrossclawError | OSError)
        spoken = isinstance(error, AccountBroken | ChannelDown)
        name = "" if spoken else f"{type(error).__name__}: "
        kept.host.noted(f"{name}{error}")
        log.error(
            "%s failed because of %s%s; it is started again in %g s",
            kept.words,
            name,
            error,
            wait_s,
            exc_info=None if expected else error,
        )
        if broken:
            self._accounts.remove(kept.place)
        return wait_s

    async def _serve_once(self, kept: _SupervisedAccount) -> Exception:
        """Serves an account until it fails or ends; answers why."""
        try:
            with kept.host.begin_attempt():
                if kept.account is None:
                    kept.account = await self._open(kept)
                self._accounts.put(
                    LiveAccount(*kept.place, kept.account, kept.traits, kept.settings, kept.host)
                )
                async with anyio.create_task_group() as tasks:
                    await tasks.start(kept.account.serve, kept.host)
                    kept.turn("running")
                    kept.has_run = True
                    await (
                        kept.host.speaks_since()
                    )  # remembered now: what is put from here on is its own
                    kept.settled.set()
                    self._services.wake()
        except Exception as error:  # noqa: BLE001  whatever it is, it takes nobody with it; it is logged above
            return first_of(error)
        except BaseExceptionGroup as several:  # it is being closed, and has failed meanwhile
            raise several.split(Exception)[1] or several from None
        if kept.host.broken_by is not None:
            return AccountBroken(kept.host.broken_by)
        return ChannelDown("it has stopped by itself")

    async def _open(self, kept: _SupervisedAccount) -> ChannelAccount:
        manifest = find_manifest(kept.place[0])
        assert manifest is not None, "the config was read with it"
        return await open_account(manifest, kept.settings, kept.host, inline=self._inline)


def webhook_path(place: AccountPlace, settings: ChannelSettings, traits: Traits) -> str | None:
    """Where the platform calls this account: as the config says, else the channel's own path; accounts beside the
    default one have their name behind it."""
    if traits.webhook is None or not settings.uses_webhook:
        return None
    if settings.webhook_path:
        return "/" + settings.webhook_path.strip("/")
    return traits.webhook if place[1] == "default" else f"{traits.webhook}/{place[1]}"


def _digest(config: AccountConfig) -> str:
    """A digest of an account's config, by which a change is noticed; secrets have no equality of their own."""
    text = msgspec.json.encode(config, enc_hook=_revealed)
    return sha256(text).hexdigest()


def _revealed(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no setting")

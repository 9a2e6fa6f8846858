"""Who may talk on chat accounts, all cases: every policy, list, approval and group, as they are written in the config,
against a reference that was written without looking at the code; and what each sender may then do and see.

Asked of the real intake with a real ledger: from the written settings to the yes or no."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from crossclaw.channels.accounts import LiveAccount, LiveAccounts
from crossclaw.channels.registry import find_manifest
from crossclaw.config import Config
from crossclaw.config.channel_accounts import accounts_in
from crossclaw.config.current import CurrentConfig
from crossclaw.config.section import Loose
from crossclaw.domain.addresses import Address, Inbound
from crossclaw.domain.keys import SessionKey
from crossclaw.ledger.channels import ChatPairingRequest, DecidePairing, RequestPairing
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.policy.channel_access import AccessDecision
from crossclaw.policy.main_address import decide_main_address
from crossclaw.policy.owner import decide_commands
from crossclaw.runs.context import ServiceContext
from crossclaw.sessions.channel_intake import ChannelIntake
from crossclaw.sessions.intake import Intake
from crossclaw.sessions.run_builder import RunBuilder
from tests.proof.size import share

pytestmark = pytest.mark.spec("N8")

NOTHING: Any = None
ABSENT: Any = None


class Platform(NamedTuple):
    """Two people on it, a group, and whether its lists of groups let everybody in a group talk."""

    name: str
    token: dict[str, str]
    ann: str
    ben: str
    group: str
    lists_groups: bool
    alias: tuple[str, ...] = ()
    """Another id of ann."""
    groups_key: str = "groups"
    server: str | None = None
    merges: bool = True
    """What is written for all groups counts beside what is written for one."""


TELEGRAM = Platform("telegram", {"botToken": "1:a"}, "11", "12", "-100", False)
MATRIX = Platform(
    "matrix", {"homeserver": "https://h", "accessToken": "t"}, "@ann:h", "@ben:h", "!room:h", True
)
SIGNAL = Platform(
    "signal", {"account": "+4910"}, "+4911111111", "+4912222222", "group-1", False,
    ("uuid:8f2a1c7e-0b6d-4c1e-9a55-3d2f10c4b7aa",),
)  # fmt: skip
SLACK = Platform(
    "slack", {"botToken": "xoxb-1", "appToken": "xapp-1"}, "U0AAAAAAA", "U0BBBBBBB", "C0GGGGGGG", True,
    groups_key="channels", server="T1", merges=False,
)  # fmt: skip
PLATFORMS = (TELEGRAM, MATRIX, SIGNAL, SLACK)


class Case(NamedTuple):
    """What is written, in the reference's own words. Ann is approved on `default`, ben on `work`."""

    platform: Platform
    dm_policy: str | None = None
    allow: tuple[str, ...] | None = None
    group_policy: str | None = None
    group_allow: tuple[str, ...] | None = None
    groups: dict[str, dict[str, Any]] | None = None
    bots: bool = False
    old_spelling: bool = False
    in_account: bool = False
    shared_policy: str | None = None

    def channels(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "groupPolicy": self.group_policy,
            "groupAllowFrom": self.group_allow,
            self.platform.groups_key: self.groups,
            "allowBots": self.bots or None,
        }
        direct = {"policy" if self.old_spelling else "dmPolicy": self.dm_policy, "allowFrom": self.allow}  # fmt: skip
        direct = {name: value for name, value in direct.items() if value is not None}
        said |= {"dm": direct or None} if self.old_spelling else direct
        said = {name: value for name, value in said.items() if value is not None}
        token: dict[str, Any] = self.platform.token
        section: dict[str, Any] = {"accounts": {"default": token, "work": token}, **said}
        if self.in_account:
            section = {"accounts": {"default": token | said, "work": token | said}}
        shared = {"defaults": {"groupPolicy": self.shared_policy}} if self.shared_policy else {}
        return {self.platform.name: section, **shared}


class Asking(NamedTuple):
    who: str
    account: str
    in_group: bool
    is_bot: bool = False
    alias: tuple[str, ...] = ()


def reference(case: Case, asking: Asking) -> bool:
    ids = {asking.who, *asking.alias}
    if asking.is_bot and not case.bots:
        return False
    if not asking.in_group:
        policy = case.dm_policy or "pairing"
        if policy == "disabled":
            return False
        approved = asking.who == {"default": case.platform.ann, "work": case.platform.ben}[asking.account]  # fmt: skip
        return named(case.allow or (), ids) or (policy == "pairing" and approved)
    policy = case.group_policy or case.shared_policy or "allowlist"
    listed = {**(case.groups or {})}
    found = [listed[each] for each in (case.platform.group, "*") if each in listed]
    found = found if case.platform.merges else found[:1]
    if policy == "disabled" or (case.groups and not found):
        return False
    if any(each.get("enabled") is False for each in found):
        return False
    for each in found:
        if "allowFrom" in each:
            return named(each["allowFrom"], ids)
    if policy == "open":
        return True
    if case.group_allow is None and case.platform.lists_groups:
        return bool(found)
    people = case.group_allow if case.group_allow is not None else case.allow or ()
    return named(people, ids)


def named(entries: tuple[str, ...], ids: set[str]) -> bool:
    """A name is nobody's id; an empty list names nobody."""
    return "*" in entries or bool(ids & set(entries))


def direct_cases(platform: Platform) -> Iterator[Case]:
    policies = (ABSENT, "pairing", "allowlist", "open", "disabled")
    lists = (ABSENT, (), (platform.ann,), (platform.ben,), ("*",), ("Ann",), *[(each,) for each in platform.alias])  # fmt: skip
    for policy, allow, old, inside, bots in product(policies, lists, *[(False, True)] * 3):
        yield Case(platform, policy, allow, bots=bots, old_spelling=old, in_account=inside)


def group_cases(platform: Platform) -> Iterator[Case]:
    group, ann, ben = platform.group, platform.ann, platform.ben
    groups: tuple[Any, ...] = (
        ABSENT, {group: {}}, {group: {"enabled": False}}, {group: {"allowFrom": (ben,)}},
        {group: {"allowFrom": ()}}, {"*": {}}, {"elsewhere": {}},
        {group: {}, "*": {"allowFrom": (ann,)}},
    )  # fmt: skip
    for policy, people, allow, where, shared in product(
        (ABSENT, "open", "allowlist", "disabled"),
        (ABSENT, (), (ann,), ("*",), ("Ann",)),
        (ABSENT, (ann,), ("*",)),
        groups,
        (ABSENT, "open", "disabled"),
    ):
        yield Case(
            platform, None, allow, policy, people, where, shared_policy=shared,
            bots=policy == "open",
        )  # fmt: skip


def askings(platform: Platform, *, in_group: bool) -> list[Asking]:
    people = [(platform.ann, platform.alias), (platform.ben, ())]
    everybody = product(people, ("default", "work"), (False, True))
    return [Asking(who, account, in_group, bot, alias) for (who, alias), account, bot in everybody]


def inbound(case: Case, asking: Asking) -> Inbound:
    group = case.platform.group if asking.in_group else None
    return Inbound(
        address=Address(case.platform.name, group or asking.who, asking.account),
        sender=asking.who,
        sender_aliases=asking.alias,
        sender_is_bot=asking.is_bot,
        text="hello",
        message_id="1",
        chat_type="group" if asking.in_group else "direct",
        chat_id=group,
        guild_id=case.platform.server if group else None,
    )


class _Place(NamedTuple):
    channel: str
    account_id: str


def intake_of(
    case: Case, ledger: Ledger, kind: type[ChannelIntake] = ChannelIntake
) -> ChannelIntake:
    channels = case.channels()
    manifest = find_manifest(case.platform.name)
    assert manifest is not None
    live = LiveAccounts()
    for account in accounts_in(channels, {}):
        place = (account.channel, account.account_id)
        live.put(LiveAccount(*place, NOTHING, manifest.traits, account.settings))
    config = msgspec.structs.replace(Config(), channels=Loose.of(channels))
    context = ServiceContext(CurrentConfig.of(config), ledger, *[NOTHING] * 4)
    return kind(context, NOTHING, live, NOTHING, NOTHING)


async def disagreements(
    case: Case, ledger: Ledger, *, in_group: bool, kind: type[ChannelIntake] = ChannelIntake
) -> list[Any]:
    intake = intake_of(case, ledger, kind)
    wrong = []
    for asking in askings(case.platform, in_group=in_group):
        host: Any = _Place(case.platform.name, asking.account)
        allowed = await intake.may_talk(host, inbound(case, asking))
        if allowed != reference(case, asking):
            wrong.append((case.channels(), asking, allowed))
    return wrong


async def approved(folder: Path) -> Ledger:
    """Ann on the account `default`, ben on `work`, on every platform."""
    ledger = open_ledger(folder / "ledger.sqlite", inline=True)
    for platform in PLATFORMS:
        for sender, account in ((platform.ann, "default"), (platform.ben, "work")):
            request = ChatPairingRequest(
                channel=platform.name, account_id=account, sender=sender, code="AAAA2222",
                sender_name="Ann", created_at=1, last_seen_at=1, expires_at=99,
            )  # fmt: skip
            await ledger.do(RequestPairing(request=request, pending_max=3))
            await ledger.do(
                DecidePairing(channel=platform.name, code="AAAA2222", approve=True, at=2, by="o")
            )
    return ledger


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: each.name)
async def test_every_way_to_write_who_may_write_directly_is_as_the_specification_says(
    tmp_path: Path, platform: Platform
) -> None:
    ledger = await approved(tmp_path)
    for case in share(direct_cases(platform), 5):
        assert await disagreements(case, ledger, in_group=False) == []
    await ledger.close()


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: each.name)
async def test_every_way_to_write_who_may_talk_in_groups_is_as_the_specification_says(
    tmp_path: Path, platform: Platform
) -> None:
    ledger = await approved(tmp_path)
    for case in share(group_cases(platform), 41):
        assert await disagreements(case, ledger, in_group=True) == []
    await ledger.close()


def discord(guilds: dict[str, Any], **more: Any) -> Case:
    named = Platform("discord", {"token": "a.b.c"}, "1" * 17, "2" * 17, "3" * 17, True, (), "guilds", "9" * 17)  # fmt: skip
    return Case(named, groups=guilds, **more)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, (True, True)),
        ({"users": ["1" * 17]}, (True, False)),
        ({"users": []}, (False, False)),
        ({"channels": {"3" * 17: {}}}, (True, True)),
        ({"channels": {"3" * 17: {"users": ["2" * 17]}}}, (False, True)),
        ({"channels": {"3" * 17: {"allow": False}}}, (False, False)),
        ({"channels": {"4" * 17: {}}}, (False, False)),
        (None, (False, False)),
    ],
)
async def test_on_discord_everybody_talks_where_the_server_is_listed_and_names_nobody(
    tmp_path: Path, server: dict[str, Any] | None, expected: tuple[bool, bool]
) -> None:
    case = discord({"9" * 17: server} if server is not None else {"8" * 17: {}})
    intake = intake_of(case, NOTHING)
    host: Any = _Place("discord", "default")
    people = (case.platform.ann, case.platform.ben)
    told = [await intake.may_talk(host, inbound(case, Asking(who, "default", True))) for who in people]  # fmt: skip
    assert tuple(told) == expected
    silent = intake_of(case._replace(groups=None), NOTHING)
    assert not await silent.may_talk(host, inbound(case, Asking(people[0], "default", True)))


class ApprovalsOpenEverything(ChannelIntake):
    """As OpenClaw once did: a code counts under every policy, on every account and in groups."""

    async def _decide(self, live: Any, settings: Any, said: Inbound) -> AccessDecision:
        for account in ("default", "work"):
            if await self._ledger.is_paired(live.channel, account, [said.sender]):
                return AccessDecision(True, "approved somewhere")
        return await super()._decide(live, settings, said)


class EmptyMeansEverybody(ChannelIntake):
    async def _decide(self, live: Any, settings: Any, said: Inbound) -> AccessDecision:
        if not settings.allow_from:
            settings = msgspec.structs.replace(settings, allow_from=("*",))
        return await super()._decide(live, settings, said)


@pytest.mark.parametrize("kind", [ApprovalsOpenEverything, EmptyMeansEverybody])
async def test_an_intake_that_lets_too_many_in_is_caught(
    tmp_path: Path, kind: type[ChannelIntake]
) -> None:
    """The control: the proof can fail."""
    ledger = await approved(tmp_path)
    closed = Case(TELEGRAM, "allowlist", (), "allowlist")
    assert await disagreements(closed, ledger, in_group=False, kind=kind)
    assert await disagreements(closed, ledger, in_group=True, kind=kind)
    await ledger.close()


# ── what a sender may do and see ───────────────────────────────────────────────────────────────

OWNERS = ((), ("11",), ("telegram:11",), ("TELEGRAM:11",), ("matrix:11",), ("*",), ("uuid:8f2a1c7e-0b6d-4c1e-9a55-3d2f10c4b7aa",), ("signal:uuid:8f2a1c7e-0b6d-4c1e-9a55-3d2f10c4b7aa",), ("12", "telegram:11"))  # fmt: skip
ALLOWED: tuple[dict[str, tuple[str, ...]], ...] = ({}, {"telegram": ("11",)}, {"*": ("12",)}, {"signal": ("*",)}, {"Telegram": ("12",)}, {"telegram": ()})  # fmt: skip
SENDERS = (
    ("telegram", "11", ()), ("telegram", "12", ()), ("matrix", "11", ()),
    ("signal", "+4911111111", ("uuid:8f2a1c7e-0b6d-4c1e-9a55-3d2f10c4b7aa",)), ("telegram", "*", ()),
)  # fmt: skip
SCOPES = ("main", "per-peer", "per-channel-peer", "per-account-channel-peer")


def is_owner(owners: tuple[str, ...], channel: str, ids: set[str]) -> bool:
    """An entry is an id, or a channel and an id; `*` is nobody."""
    meant = set()
    for entry in owners:
        before, _, after = entry.partition(":")
        meant.add(after if before.lower() == channel else entry)
    return bool((ids - {"*"}) & (meant - {"*"}))


def may_command(allowed: dict[str, tuple[str, ...]], channel: str, ids: set[str]) -> bool:
    by_channel = {name.lower(): people for name, people in allowed.items()}
    people = {*by_channel.get(channel, ()), *by_channel.get("*", ())}
    return not allowed or bool(people & {*ids, "*"})


@pytest.mark.spec("N8", "B3", "V2")
def test_every_sender_has_the_owners_rights_or_commands_or_neither_and_sees_its_own_chat_alone() -> None:  # fmt: skip
    for owners, allowed, scope, in_group in product(OWNERS, ALLOWED, SCOPES, (False, True)):
        raw = {
            "commands": {"ownerAllowFrom": owners, "allowFrom": allowed},
            "session": {"dmScope": scope},
        }
        config = msgspec.convert(raw, Config)
        intake = Intake(RunBuilder(config, NOTHING, NOTHING), *[NOTHING] * 5)
        for channel, sender, aliases in SENDERS:
            said = Inbound(
                address=Address(channel, "g" if in_group else sender), sender=sender, text="hi",
                sender_aliases=aliases, message_id="1", member_of=("chat:g", "11"),
                chat_type="group" if in_group else "direct", chat_id="g" if in_group else None,
            )  # fmt: skip
            arrival = intake._arrival_of(said, moves_address=False)
            assert arrival.caller is not None
            assert isinstance(arrival.to, SessionKey)
            principal = arrival.caller.principal
            owner = is_owner(owners, channel, {sender, *aliases})
            facts = (owners, allowed, channel, sender)
            assert principal.authority.owner == owner, facts
            assert ("operator.admin" in principal.scopes) == owner, facts
            assert principal.sight == "named"
            assert principal.sees == {arrival.to.text}
            commands = owner or may_command(allowed, channel, {sender, *aliases})
            decided = decide_commands(config.commands, channel, sender, aliases)
            assert decided.allowed == commands, facts
            assert arrival.may_command == commands, facts


def test_only_the_owner_or_whom_a_list_names_moves_the_chat_of_the_main_session() -> None:
    people: tuple[tuple[tuple[str, ...], ...], ...] = ((), (("11",),), (("*",),), ((), ("12", "*")))  # fmt: skip
    either = (False, True)
    for owners, lists, owner, listed, free in product(OWNERS, people, either, either, either):
        commands = msgspec.convert({"commands": {"ownerAllowFrom": owners}}, Config).commands
        facts = {"is_owner": owner, "is_named": listed, "is_free": free}
        decision = decide_main_address(commands, lists, **facts)
        has_owner = bool(set(owners) - {"*"})
        has_named = any(set(each) - {"*"} for each in lists)
        expected = owner or (listed and free if has_owner else listed if has_named else True)
        assert decision.allowed == expected, (owners, lists, facts)

"""The config of gateways that share a ledger: a change over the wire on one applies to all.

It also decides whose file counts. The ledger has the common part of their configs
(`config/agreeing`) with its number, and earlier ones as digests. Each gateway compares its file
with it each second, and after a hint:

- its file says the same: it takes runs;
- its file is one that counted before: it was away while the config was changed, and follows;
- its file has a higher `ledger.configEpoch`: it counts from now on, and the others follow;
- the config in the ledger has no proof that a gateway has stored it (`config_proof`): it is not
  followed;
- its file is another: it takes no runs and names the settings, as long as a gateway exists whose
  file is the one that counts. If none does, the file of the oldest gateway counts from now on.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio
import anyio.to_thread
import msgspec

from crossclaw.app.config_proof import ConfigProof
from crossclaw.config import Loaded, load
from crossclaw.config.agreeing import (
    differing,
    digest_of,
    secret_places,
    shared_keys,
    shared_value,
    value_at,
)
from crossclaw.config.changing import TakeRules
from crossclaw.config.following import follow_shared, some
from crossclaw.config.ledger_key import HOW, LedgerKey, NotOpened
from crossclaw.config.source import dotted
from crossclaw.disk.private import write_file
from crossclaw.domain.aliases import KeyPath
from crossclaw.domain.errors import ConfigInvalid, Invalid
from crossclaw.domain.secret import Secret
from crossclaw.ledger.gateways import Membership, SharingGateway
from crossclaw.ledger.shared_settings import AgreedConfig, SealedSecret
from crossclaw.runs.claiming import config_leader

log = logging.getLogger(__name__)

CHANGED_ELSEWHERE = (
    "config changed since last load, on another gateway; re-run config.get and retry"
)

UNPROVEN = (
    "the config no. {} in the ledger does not prove that it comes from a gateway with the same token, and is not believed: "
    "give all of them one token, then change a setting over the wire, or raise ledger.configEpoch above that number"
)
EVERYTHING = 2**62  # taken over by a gateway without a file: nothing could be
_REFERENCE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")


class ConfigTaken(Exception):
    """Raised while a gateway opens, when its file was changed to follow the others': it reopens
    with that."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__("the config was changed on another gateway while this one was away")
        self.loaded = loaded


class OurConfig(NamedTuple):
    """This gateway's config file, compared by digest."""

    keys: Mapping[str, str]
    digest: str
    epoch: int
    """The `ledger.configEpoch` in it."""
    taken: int
    """The number of the last config in the ledger that it has followed."""


class ConfigVerdict(NamedTuple):
    """How this gateway's file compares with the config in the ledger and with the files of the
    others, and what follows: nothing, change its file, store it for all, or take no runs."""

    step: Literal["agrees", "follow", "publish", "differs"]
    other: SharingGateway | None = None
    """The gateway from which it differs; None if it differs from the config in the ledger."""


def decide_config(
    ours: OurConfig,
    newest: AgreedConfig | None,
    was_agreed: bool,
    found: Sequence[SharingGateway],
    owner: str,
    *,
    is_proven: bool = True,
) -> ConfigVerdict:
    """Decides whose file counts, by the rules at the top of this module. `was_agreed`: our file is
    one that counted before. `found`: all gateways, this one included, whose start is `owner`.
    `is_proven`: a gateway has stored the newest."""
    if newest is not None:
        if ours.digest == newest.digest:
            return ConfigVerdict("follow" if is_proven and ours.taken < newest.epoch else "agrees")
        if ours.epoch > newest.epoch:
            return ConfigVerdict("publish")
        goes_back = newest.epoch < ours.taken < EVERYTHING  # an old one, put there again
        if was_agreed and is_proven and not goes_back:
            return ConfigVerdict("follow")
        others = [each for each in found if each.left_ms > 0 and each.incarnation != owner]
        if any(each.config_hash == newest.digest for each in others):
            return ConfigVerdict("differs")
    leader = config_leader(found, owner)
    if leader is None:
        return ConfigVerdict("publish")
    return ConfigVerdict("agrees" if leader.config_hash == ours.digest else "differs", leader)


class OwnFile(msgspec.Struct, frozen=True):
    """The config file of this gateway, and what is needed to change it to follow the others'."""

    loaded: Loaded
    environ: Mapping[str, str]
    mark: Path
    """The file that records which config was followed last."""
    proof: ConfigProof
    key: LedgerKey | None = None
    follows: bool = True
    """Whether there is a file that can be changed."""
    take_rules: TakeRules | None = None
    """Puts the rules of a config in force at once."""


class SharedConfig:
    """Keeps this gateway's config and the ledger's in agreement. `owner`: this start of the
    gateway; `name`: the gateway."""

    def __init__(self, membership: Membership, owner: str, name: str, file: OwnFile) -> None:
        self._membership, self._owner, self._name = membership, owner, name
        self._path, self._environ, self._mark = file.loaded.path, file.environ, file.mark
        self._key, self._follows, self._proof = file.key, file.follows, file.proof
        reload = file.loaded.config.gateway.reload
        self._take_rules = None if reload.mode == "off" else file.take_rules
        self._newest: AgreedConfig | None = None
        self._is_proven = True
        self._published: OurConfig | None = None
        self._changing = anyio.Lock()
        self._ours: OurConfig = OurConfig(
            {}, "", 0, _read_mark(file.mark) if file.follows else EVERYTHING
        )
        self.take_config(file.loaded)

    @property
    def digest(self) -> str:
        return self._ours.digest

    def take_config(self, loaded: Loaded) -> None:
        """Takes a config as what this gateway's file says from now on."""
        self._raw = loaded.raw
        keys = shared_keys(loaded.raw)
        epoch = loaded.config.ledger.config_epoch
        self._ours = self._ours._replace(keys=keys, digest=digest_of(keys), epoch=epoch)

    def take_token(self, token: Secret) -> None:
        """The secret of all gateways, from now on."""
        self._proof.take_token(token)

    async def catch_up(self) -> None:
        """Follows what was changed while this gateway was away, before it opens. Raises
        `ConfigTaken`."""
        if (await self._verdict()).step != "follow":
            return
        before = self._raw
        try:
            fresh = await self._followed()
        except (ConfigInvalid, OSError) as error:
            log.warning("the config of the other gateways cannot be followed: %s", error)
            return
        if fresh.raw != before:
            raise ConfigTaken(fresh)

    async def look(self, found: Sequence[SharingGateway]) -> str | None:
        """Compares with the others, then follows or leads. Returns why this gateway takes no runs,
        or None."""
        async with self._changing:
            why_not = await self._settled(await self._verdict(found))
            await self._tell()
            return why_not

    async def _verdict(self, found: Sequence[SharingGateway] | None = None) -> ConfigVerdict:
        await self._read_newest()
        newest, ours = self._newest, self._ours
        was_agreed = (
            newest is not None
            and newest.digest != ours.digest
            and await self._membership.settings.find_epoch(ours.digest) is not None
        )
        if found is None:
            found = await self._membership.list_gateways()
        self._is_proven = True
        if newest is not None and (newest.digest != ours.digest or newest.epoch > ours.taken):
            self._is_proven = await anyio.to_thread.run_sync(self._proof.is_proven, newest)
        return decide_config(
            ours, newest, was_agreed, found, self._owner, is_proven=self._is_proven
        )

    async def _read_newest(self) -> None:
        known = self._newest.epoch if self._newest is not None else 0
        newer = await self._membership.settings.newest_config(known)
        self._newest = newer or self._newest

    async def _settled(self, verdict: ConfigVerdict) -> str | None:
        match verdict.step:
            case "agrees":
                return None
            case "follow":
                return await self._follow()
            case "publish":
                return await self._lead()
        return await self._difference(verdict.other)

    async def _difference(self, other: SharingGateway | None) -> str:
        newest = self._newest
        if newest is not None and not self._is_proven:
            return UNPROVEN.format(newest.epoch)
        if other is not None:
            theirs, name = await self._membership.find_config(other.incarnation), other.gateway_id
        else:
            assert newest is not None
            theirs, name = newest.keys, newest.by
        keys = some(differing(self._ours.keys, theirs))
        above, which = "", f"that of gateway {name}"
        if newest is not None:
            above = f" above {newest.epoch}"
            which = f"the one in force (number {newest.epoch}, by gateway {newest.by})"
        return (
            f"its config is another than {which}: {keys}. Correct its file, or raise "
            f"ledger.configEpoch{above} in it, if it is to count everywhere"
        )

    async def _tell(self) -> None:
        if self._published != self._ours:
            ours = self._ours
            newest = self._newest
            agrees = newest is not None and newest.digest == ours.digest
            epoch = newest.epoch if newest is not None and agrees else ours.epoch
            await self._membership.publish_config(ours.keys, ours.digest, epoch)
            self._published = ours

    # ── following ──────────────────────────────────────────────────────────────────────────────

    async def _follow(self) -> str | None:
        """Changes our file to follow the others' and puts it in force. Returns why that cannot be,
        or None."""
        try:
            fresh = await self._followed()
        except (ConfigInvalid, OSError) as error:
            return f"its file cannot follow: {error}"
        return None if self._take_rules is None else await self._take_rules(fresh)

    async def _followed(self) -> Loaded:
        newest = self._newest
        assert newest is not None
        if not self._follows:
            raise ConfigInvalid(f"gateway {newest.by} has changed the config, and there is no file")
        secrets = self._opened(newest)
        shared = msgspec.json.decode(newest.text, type=dict[str, Any])
        fresh = await anyio.to_thread.run_sync(
            follow_shared, self._path, self._environ, shared, secrets
        )
        if fresh.raw != self._raw:
            log.info("the config was changed on gateway %s, and is taken over here", newest.by)
        await anyio.to_thread.run_sync(self.take_config, fresh)
        await self._has(newest)
        return fresh

    def _opened(self, newest: AgreedConfig) -> dict[KeyPath, Any]:
        """The secrets that were set over the wire since we followed last, decrypted."""
        taken = self._ours.taken if self._ours.taken <= newest.epoch else 0
        fresh = [each for each in newest.secrets if each.epoch > taken]
        if not fresh:
            return {}
        key = self._key
        if key is None:
            places = some([dotted(each.path) for each in fresh])
            raise ConfigInvalid(f"{places} came encrypted, and no ledger key is set here: {HOW}")
        return {each.path: _open(key, each) for each in fresh}

    async def _has(self, config: AgreedConfig) -> None:
        """Records, also for after a restart, that our file has this config."""
        self._newest = config
        if self._follows:
            self._ours = self._ours._replace(taken=config.epoch)
            await anyio.to_thread.run_sync(write_file, self._mark, f"{config.epoch}\n")

    # ── leading ────────────────────────────────────────────────────────────────────────────────

    async def _lead(self) -> str | None:
        """Stores our file as the config of all. Returns why that cannot be, or None."""
        after = self._newest.epoch if self._newest is not None else 0
        epoch = max(after + 1, self._ours.epoch)
        config = await anyio.to_thread.run_sync(self._agreed, epoch, self._raw, None)
        if not await self._membership.settings.put_config(config, after):
            return "the config is being changed on another gateway"
        if after:
            log.info("the config file of this gateway counts everywhere, as no. %d", config.epoch)
        await self._has(config)
        return None

    async def publish(self, changed: Loaded) -> None:
        """Publishes a change made over the wire: it is stored for all before it is written here.
        Raises `Invalid` if another gateway was quicker, or if our own file does not count."""
        async with self._changing:
            verdict = await self._verdict()
            if verdict.step == "differs":
                why = await self._difference(verdict.other)
                raise Invalid(f"the config cannot be changed over this gateway, because {why}")
            if verdict.step == "follow":
                raise Invalid(CHANGED_ELSEWHERE)
            if verdict.step == "publish":
                await self._lead()
            before, digest = await anyio.to_thread.run_sync(self._own_now)
            newest = self._newest
            if newest is None or digest != newest.digest:
                raise Invalid(CHANGED_ELSEWHERE)
            config = await anyio.to_thread.run_sync(
                self._agreed, newest.epoch + 1, changed.raw, before.raw
            )
            if (config.digest, config.secrets) == (newest.digest, newest.secrets):
                return  # only what is this machine's own
            if not await self._membership.settings.put_config(config, newest.epoch):
                raise Invalid(CHANGED_ELSEWHERE)
            await anyio.to_thread.run_sync(self.take_config, changed)
            await self._has(config)
            await self._tell()

    def _own_now(self) -> tuple[Loaded, str]:
        found = load(self._path, self._environ)
        return found, digest_of(shared_keys(found.raw))

    def _agreed(
        self, epoch: int, raw: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> AgreedConfig:
        """The config to store, with proof. `before` is the config before a change over the wire;
        secrets that the change sets are included, encrypted."""
        shared, keys = shared_value(raw), shared_keys(raw)
        return self._proof.sealed(
            AgreedConfig(
                epoch=epoch,
                digest=digest_of(keys),
                keys=keys,
                text=msgspec.json.encode(shared).decode(),
                secrets=tuple(self._sealed(epoch, shared, raw, before)),
                by=self._name,
            )
        )

    def _sealed(
        self,
        epoch: int,
        shared: dict[str, Any],
        raw: Mapping[str, Any],
        before: Mapping[str, Any] | None,
    ) -> list[SealedSecret]:
        kept = {each.path: each for each in self._newest.secrets} if self._newest else {}
        key = self._key
        found: list[SealedSecret] = []
        for place in secret_places(shared):
            value = value_at(raw, place)
            if before is not None and value_at(before, place) != value and not _is_named(value):
                if key is None:
                    raise Invalid(
                        f"{dotted(place)} is a secret, and travels to the other gateways only encrypted: {HOW}. "
                        "Nothing was changed"
                    )
                sealed = key.seal(msgspec.json.encode(value).decode(), _about(place))
                found.append(SealedSecret(place, epoch, sealed))
            elif place in kept and key is not None and _is_same(key, kept[place], value):
                found.append(kept[place])
        return found


def _is_named(value: Any) -> bool:
    """Whether a secret is written as a variable or as a reference to a place: each machine has its
    own."""
    return isinstance(value, dict) or bool(_REFERENCE.fullmatch(str(value)))


def _about(place: Sequence[str | int]) -> str:
    return f"config {dotted(tuple(place))}"


def _open(key: LedgerKey, secret: SealedSecret) -> Any:
    return msgspec.json.decode(key.unseal(secret.sealed, _about(secret.path)))


def _is_same(key: LedgerKey, secret: SealedSecret, value: Any) -> bool:
    try:
        return bool(_open(key, secret) == value)
    except NotOpened:
        return False


def _read_mark(path: Path) -> int:
    try:
        return int(path.read_text("utf-8"))
    except (OSError, ValueError):
        return 0

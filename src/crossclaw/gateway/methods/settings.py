"""config.*: the config file read, changed and described; `config/changing.py` does the work."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from crossclaw import __version__
from crossclaw.config.changing import ConfigChanges, EditedConfig, key_dropped
from crossclaw.config.schema import config_schema
from crossclaw.domain.aliases import Filled
from crossclaw.domain.clock import Clock
from crossclaw.door.registry import Caller, NoParams, Params, Result, method

ConfigText = Annotated[str, msgspec.Meta(min_length=1, max_length=2**20)]


class ConfigSetParams(Params, frozen=True):
    raw: ConfigText
    base_hash: Filled | None = None


class ConfigPatchParams(ConfigSetParams, frozen=True):
    """Parameters of config.patch. What OpenClaw's clients add about the restart that follows is accepted, and
    not used: a gateway that reopens continues with everything, so nobody has to be notified."""

    replace_paths: tuple[Filled, ...] = ()
    session_key: str | None = None
    delivery_context: dict[str, Any] | None = None
    note: str | None = None
    restart_delay_ms: int | None = None


class ConfigEditParams(ConfigSetParams, frozen=True):
    """`raw` is the text that config.get gave as `written`, changed."""

    dry_run: bool = False


class EditFault(Result, frozen=True):
    line: int
    key: str
    message: str


class EditResult(Result, frozen=True):
    ok: bool
    stale: bool = False
    """Whether somebody else has changed the file since: get it again. Nothing was written."""
    problems: tuple[EditFault, ...] = ()
    changed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hash: str | None = None
    restart: dict[str, Any] | None = None

    @classmethod
    def of(cls, edited: EditedConfig) -> "EditResult":
        if edited.done is None:
            return cls(ok=False, stale=True, hash=edited.hash)
        return cls(
            ok=edited.is_accepted,
            problems=tuple(EditFault(**each._asdict()) for each in edited.done.faults),
            changed=edited.done.keys,
            warnings=(*edited.done.warnings, *map(key_dropped, edited.dropped)),
            hash=edited.hash,
            restart=edited.restart,
        )


class Settings:
    def __init__(self, changes: ConfigChanges, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock

    @method("config.get", "operator.read", "read", "The config file, without secrets.")
    async def get(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        return await self._changes.snapshot()

    @method("config.set", "operator.admin", "change", "Another text in place of the config file.")
    async def set(self, caller: Caller, params: ConfigSetParams) -> dict[str, Any]:
        return await self._changes.set(params.raw, params.base_hash)

    @method(
        "config.patch",
        "operator.admin",
        "change",
        "Change some of the config file; null takes a key out.",
    )
    async def patch(self, caller: Caller, params: ConfigPatchParams) -> dict[str, Any]:
        replaced = frozenset(params.replace_paths)
        return await self._changes.patch(params.raw, params.base_hash, replaced)

    @method(
        "config.edit",
        "operator.admin",
        "change",
        "The config file as a person edited it; tells what is wrong by line, and keeps comments and secrets.",
    )
    async def edit(self, caller: Caller, params: ConfigEditParams) -> EditResult:
        return EditResult.of(
            await self._changes.edit(params.raw, params.base_hash, save=not params.dry_run)
        )

    @method(
        "config.schema",
        "operator.read",
        "read",
        "What may stand in the config file, as JSON Schema.",
    )
    async def schema(self, caller: Caller, params: NoParams) -> dict[str, Any]:
        made = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return {
            "schema": config_schema(),
            "uiHints": {},
            "version": __version__,
            "generatedAt": made.isoformat(),
        }

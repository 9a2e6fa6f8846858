"""sessions.compact and sessions.pin: what a model remembers of a session."""

from typing import Annotated

import msgspec

from crossclaw.domain.aliases import Filled
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.door.resolver import Resolver
from crossclaw.gateway.publisher import shown_key
from crossclaw.sessions.compacting import Compacting

MESSAGES_MAX = 1_000_000


class CompactParams(Params, frozen=True):
    """`maxLines`: how many of the newest messages stay as they are, instead of a share of them."""

    key: Filled
    max_lines: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] | None = None
    instructions: Annotated[str, msgspec.Meta(max_length=4_000)] | None = None


class CompactResult(Result, frozen=True):
    ok: bool
    key: str
    compacted: bool
    kept: int | None = None
    reason: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    run_id: str | None = None


class PinParams(Params, frozen=True):
    """Parameters of sessions.pin. By default it pins the newest message of a person."""

    key: Filled
    entry_id: Filled | None = None
    pinned: bool = True


class PinResult(Result, frozen=True):
    ok: bool
    key: str
    entry_id: str
    pinned: bool


class MemoryMethods:
    def __init__(self, resolver: Resolver, compacting: Compacting) -> None:
        self._resolver = resolver
        self._compacting = compacting

    @method(
        "sessions.compact",
        "operator.admin",
        "run",
        "Summarise older turns for the model; the history stays whole.",
    )
    async def compact(self, caller: Caller, params: CompactParams) -> CompactResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "talk")
        done = await self._compacting.compact(
            caller, handle, instructions=params.instructions, keep_messages=params.max_lines
        )
        fields = msgspec.structs.asdict(done)
        kept = fields.pop("kept")
        return CompactResult(ok=True, key=shown_key(handle.key), kept=kept or None, **fields)

    @method(
        "sessions.pin",
        "operator.write",
        "change",
        "Keep a message in the model's view whatever is compacted, or no longer.",
    )
    async def pin(self, caller: Caller, params: PinParams) -> PinResult:
        handle = await self._resolver.resolve(caller.principal, params.key, "change")
        entry = await self._compacting.pin(handle, params.entry_id, pinned=params.pinned)
        key = shown_key(handle.key)
        return PinResult(ok=True, key=key, entry_id=entry.entry_id, pinned=params.pinned)

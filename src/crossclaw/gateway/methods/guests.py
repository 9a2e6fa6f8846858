"""guests.*: which MCP clients may come in under which name, decided by the owner. Ours."""

from typing import Annotated, Any

import msgspec

from crossclaw.door.registry import Caller, NoParams, Params, Result, method
from crossclaw.gateway.methods.devices import EndRuns
from crossclaw.sessions.guest_names import NAME_CHARS_MAX, GuestNames, described, guest_name

GuestNameText = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX)]


class NameParams(Params, frozen=True):
    name: GuestNameText


class GuestList(Result, frozen=True):
    guests: list[dict[str, Any]]


class GuestAdded(Result, frozen=True):
    name: str
    token: str
    """The guest's token, shown once; only its digest is kept."""
    ended_runs: tuple[str, ...] = ()


class GuestRemoved(Result, frozen=True):
    name: str
    ended_runs: tuple[str, ...] = ()


class GuestMethods:
    def __init__(self, names: GuestNames, end_runs: EndRuns) -> None:
        self._names = names
        self._end_runs = end_runs

    @method(
        "guests.list", "operator.read", "read", "Ours: the names of MCP guests, and who holds each."
    )
    async def list(self, caller: Caller, params: NoParams) -> GuestList:
        return GuestList(guests=[dict(described(each)) for each in self._names.all])

    @method(
        "guests.add",
        "operator.admin",
        "change",
        "Ours: a token for an MCP guest of this name, in place of any before.",
    )
    async def add(self, caller: Caller, params: NameParams) -> GuestAdded:
        token = await self._names.add(params.name)
        ended = tuple(await self._end_runs())
        return GuestAdded(name=guest_name(params.name), token=token.reveal(), ended_runs=ended)

    @method(
        "guests.remove",
        "operator.admin",
        "change",
        "Ours: take a guest's token and name away; what it began ends.",
    )
    async def remove(self, caller: Caller, params: NameParams) -> GuestRemoved:
        await self._names.remove(params.name)
        ended = tuple(await self._end_runs())
        return GuestRemoved(name=guest_name(params.name), ended_runs=ended)

"""Guests that call another gateway than the one that holds their message: it is fetched from there, and
answered there."""

import logging
from typing import Any

import msgspec

from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey, key_of
from crossclaw.runs.neighbours import NeighbourRefused, Neighbours, answers
from crossclaw.sessions.guests import SETTLE_S, Guests, GuestWaitResult, ReplyResult

log = logging.getLogger(__name__)

LOOK_S = 5.0


class NeighboursGuests:
    """Asks the other gateways, one after the other: they are few, and a guest has one message at a time."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def tell_of_coming(self) -> None:
        self._neighbours.own_changed()

    async def look(self, key: SessionKey) -> GuestWaitResult | None:
        for each in self._neighbours:
            try:
                found = await self._neighbours.ask(
                    each, "guest.look", _names_of(key), list[GuestWaitResult], LOOK_S
                )
            except CrossclawError as error:
                log.info("gateway %s does not tell what it has for a guest: %s", each.name, error)
                continue
            if found:
                return found[0]
        return None

    async def reply(self, key: SessionKey, run_id: str, text: str) -> ReplyResult | None:
        failed: CrossclawError | None = None
        for each in self._neighbours:
            try:
                answer = await self._neighbours.ask(
                    each,
                    "guest.reply",
                    [*_names_of(key), run_id, text],
                    list[ReplyResult],
                    SETTLE_S,
                )
            except NeighbourRefused:
                raise  # it has the message, and says why not
            except CrossclawError as error:
                failed = error
                continue
            if answer:
                return answer[0]
        if failed is not None:
            raise failed
        return None


class GuestsForNeighbours:
    """Answers the other gateways: what this one has in hand for a guest that called there."""

    def __init__(self, guests: Guests) -> None:
        self._guests = guests

    @answers("guest.look")
    async def look(self, body: Any) -> list[GuestWaitResult]:
        found = self._guests.look(key_of(*msgspec.convert(body, tuple[str, str])))
        return [] if found is None else [found]

    @answers("guest.reply")
    async def reply(self, body: Any) -> list[ReplyResult]:
        text, agent_id, run_id, reply = msgspec.convert(body, tuple[str, str, str, str])
        answer = await self._guests.take_reply(key_of(text, agent_id), run_id, reply)
        return [] if answer is None else [answer]


def _names_of(key: SessionKey) -> list[str]:
    return [key.text, key.agent_id]

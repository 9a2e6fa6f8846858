"""Exchanges: what follows a send. Requester and target speak in turn, then the target announces.

    send ── ok ──▶ round 1 (requester) ──▶ round 2 (target) ──▶ … ──▶ announce (target) ──▶ over
      └─ not ok ─▶ over

A reply that is exactly REPLY_SKIP, an empty one and a run that fails end the rounds; the announce
follows all the same. `next_step` is the whole rule; every step is a run of its own, so at most
1 + turns + 1 runs belong to one send.
"""

from typing import Literal

import msgspec

from crossclaw.domain.jobs import HEARTBEAT_OK
from crossclaw.domain.runs import Outcome, Run

REPLY_SKIP = "REPLY_SKIP"
ANNOUNCE_SKIP = "ANNOUNCE_SKIP"
NO_REPLY = (
    "NO_REPLY"  # OpenClaw's word for nothing to say; workspaces that come from there ask for it
)
CONTROL_TOKENS = frozenset({REPLY_SKIP, ANNOUNCE_SKIP, NO_REPLY, HEARTBEAT_OK})
"""Replies that are shown to nobody. Only REPLY_SKIP ends the rounds of an exchange."""
ANNOUNCE_STEP = "The exchange with the other agent is over: this is your announce step."

ExchangeState = Literal["open", "announcing", "over"]
Announced = Literal["delivered", "silent", "no address", "failed"]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    exchange_id: str
    agent_id: str
    requester_key: str
    target_key: str
    run_id: str
    request: str
    turns_max: int
    created_at: int
    state: ExchangeState = "open"
    turn: int = 0
    """The last round that was begun; odd ones are the requester's."""
    first_reply: str | None = None
    latest_reply: str | None = None
    announce: Announced | None = None
    ended_at: int | None = None
    root: str | None = None
    """The run that began the whole chain; the rounds and the announce are reserved on its count."""

    def speaker(self, turn: int) -> str:
        return self.requester_key if turn % 2 else self.target_key

    def listener(self, turn: int) -> str:
        return self.target_key if turn % 2 else self.requester_key


class Round(msgspec.Struct, frozen=True):
    """The next round: who speaks, and the words that it answers."""

    turn: int
    words: str


class Announce(msgspec.Struct, frozen=True):
    pass


class ExchangeOver(msgspec.Struct, frozen=True):
    words: str | None = None
    """The words that the target wants posted in its chat."""


ExchangeStep = Round | Announce | ExchangeOver


def is_silent(reply: str | None) -> bool:
    """Whether a reply has no words for a person: empty, or exactly one of the control tokens."""
    words = (reply or "").strip()
    return not words or words in CONTROL_TOKENS


def next_step(exchange: Exchange, run: Run, outcome: Outcome) -> tuple[Exchange, ExchangeStep]:
    """What follows from the end of one of its runs, and the exchange as it is then."""
    reply = (outcome.reply or "").strip() if outcome.status == "ok" else ""
    if outcome.status == "aborted":
        return _over(exchange), ExchangeOver()  # whoever stopped it wants silence
    if run.kind == "announce":
        return _over(exchange), ExchangeOver(None if is_silent(reply) else reply)
    if run.kind == "send":
        if outcome.status != "ok":
            return _over(exchange), ExchangeOver()
        exchange = msgspec.structs.replace(exchange, first_reply=reply, latest_reply=reply)
    elif reply and reply != REPLY_SKIP:
        exchange = msgspec.structs.replace(exchange, latest_reply=reply)
    if reply and reply != REPLY_SKIP and exchange.turn < exchange.turns_max:
        turn = exchange.turn + 1
        return msgspec.structs.replace(exchange, turn=turn), Round(turn, reply)
    return msgspec.structs.replace(exchange, state="announcing"), Announce()


def _over(exchange: Exchange) -> Exchange:
    return msgspec.structs.replace(exchange, state="over")

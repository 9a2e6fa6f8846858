"""Exchanges at work: the runs that follow a send, each written by the step that ended the one before."""

from typing import Any

import msgspec

from crossclaw.domain.addresses import WEBCHAT, Address
from crossclaw.domain.exchanges import (
    ANNOUNCE_SKIP,
    ANNOUNCE_STEP,
    REPLY_SKIP,
    Announce,
    Announced,
    Exchange,
    ExchangeOver,
    Round,
    next_step,
)
from crossclaw.domain.ids import follower_id
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Text, UserBlock
from crossclaw.domain.runs import Outcome, Run, RunKind, RunPlan
from crossclaw.domain.sessions import NewEntry, Session
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Inject, NewDelivery, Op, PutDelivery, SetExchange, Submit
from crossclaw.sessions.origins import from_session
from crossclaw.sessions.run_builder import STEP_MS, RunBuilder
from crossclaw.sessions.where import address_of


class Exchanges:
    def __init__(self, ledger: Ledger, builder: RunBuilder) -> None:
        self._ledger = ledger
        self._builder = builder

    async def follow(self, run: Run, outcome: Outcome) -> list[Op[Any]]:
        """The operations that follow from the end of one of its runs, to be stored with that end."""
        exchange = await self._ledger.find_exchange(run.plan.exchange_id or "")
        if exchange is None or exchange.state == "over":
            return []
        moved, step = next_step(exchange, run, outcome)
        if isinstance(step, Round) and await self._find(moved.speaker(step.turn)) is None:
            moved, step = msgspec.structs.replace(moved, state="announcing"), Announce()
        target = await self._find(moved.target_key)
        if isinstance(step, Announce) and target is None:
            moved, step = msgspec.structs.replace(moved, state="over"), ExchangeOver()
        match step:
            case Round():
                return [SetExchange(exchange=moved), await self._round(moved, step, run)]
            case Announce():
                return [SetExchange(exchange=moved), await self._announce(moved, run)]
            case ExchangeOver():
                return self._end(moved, step, run, outcome, target)

    async def _find(self, key: str) -> Session | None:
        found = await self._ledger.find_session(SessionKey.stored(key))
        return None if found is None or found.archived_at is not None else found

    async def _round(self, exchange: Exchange, step: Round, run: Run) -> Submit:
        speaker, listener = exchange.speaker(step.turn), exchange.listener(step.turn)
        return await self._follow(
            exchange,
            run,
            kind="round",
            run_id=follower_id(exchange.exchange_id, f"round-{step.turn}"),
            key=SessionKey.stored(speaker),
            source=listener,
            words=step.words,
            context=_round_context(exchange, step.turn),
        )

    async def _announce(self, exchange: Exchange, run: Run) -> Submit:
        return await self._follow(
            exchange,
            run,
            kind="announce",
            run_id=follower_id(exchange.exchange_id, "announce"),
            key=SessionKey.stored(exchange.target_key),
            source=exchange.requester_key,
            words=_announce_words(exchange),
            context=_announce_context(exchange),
        )

    async def _follow(
        self,
        exchange: Exchange,
        run: Run,
        *,
        kind: RunKind,
        run_id: str,
        key: SessionKey,
        source: str,
        words: str | list[UserBlock],
        context: str,
    ) -> Submit:
        from_key = SessionKey.stored(source)
        asker = await self._ledger.find_session(from_key)
        return self._builder.following(
            run,
            kind,
            key,
            words,
            from_session(from_key, asker, "sessions_send"),
            run_id=run_id,
            plan=RunPlan(
                deliver=False,
                context=context,
                timeout_ms=STEP_MS,
                exchange_id=exchange.exchange_id,
            ),
        )

    def _end(
        self,
        exchange: Exchange,
        step: ExchangeOver,
        run: Run,
        outcome: Outcome,
        target: Session | None,
    ) -> list[Op[Any]]:
        at = self._builder.clock.now_ms()
        where = address_of(target) if step.words else None
        announced = _announced(run, outcome, step, target, where)
        ended = msgspec.structs.replace(exchange, announce=announced, ended_at=at)
        ops: list[Op[Any]] = [SetExchange(exchange=ended)]
        if step.words and where is not None:
            delivery = NewDelivery.of_run(
                run, f"announce:{exchange.exchange_id}", run.key, where, step.words
            )
            ops.append(PutDelivery(new=delivery, at=at))
        if announced == "no address":
            note = {"about": "announce", "delivered": False, "reason": "the session has no address"}
            entry = NewEntry(entry_id=self._builder.ids.short(), type="note", note=dict(note))
            ops.append(Inject(key=run.key, entries=[entry], at=at))
        return ops


def _announced(
    run: Run, outcome: Outcome, step: ExchangeOver, target: Session | None, where: Address | None
) -> Announced | None:
    if run.kind != "announce":
        return None
    if outcome.status != "ok":
        return "failed"
    if step.words is None:
        return "silent"
    on_page = target is not None and target.channel == WEBCHAT
    return "delivered" if where is not None or on_page else "no address"


def _round_context(exchange: Exchange, turn: int) -> str:
    role = "requester" if turn % 2 else "target"
    return "\n".join(
        [
            f"You are in an exchange with another agent. You are the {role}; this is turn {turn} of "
            f"{exchange.turns_max}.",
            f"Requester: session {_shown(exchange.requester_key)}. Target: session {_shown(exchange.target_key)}.",
            "The message you are answering is the other agent's last reply.",
            f"If nothing is left to say, answer with exactly {REPLY_SKIP} and nothing else.",
        ]
    )


def _announce_context(exchange: Exchange) -> str:
    return "\n".join(
        [
            "The exchange with the other agent is over. You may now tell your own chat about it.",
            f"Requester: session {_shown(exchange.requester_key)}. Your session: {_shown(exchange.target_key)}.",
            "The message you are answering repeats the request, your first reply and the latest one.",
            f"To stay silent, answer with exactly {ANNOUNCE_SKIP} and nothing else.",
            "Any other answer is posted to your chat.",
        ]
    )


def _announce_words(exchange: Exchange) -> list[UserBlock]:
    """The message of an announce. What agents said stands in it, marked as theirs, and never in the system prompt."""
    said = [
        f"The request was:\n{exchange.request}",
        f"Your first reply was:\n{exchange.first_reply or '(none)'}",
        f"The latest reply was:\n{exchange.latest_reply or '(none)'}",
    ]
    return [Text("\n\n".join([*said, ""])), Text(ANNOUNCE_STEP)]


def _shown(key: str) -> str:
    return SessionKey.stored(key).shown

"""Endings: what follows from the end of a run, stored together with it."""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.clock import Clock
from crossclaw.domain.exchanges import is_silent
from crossclaw.domain.jobs import beyond_heartbeat
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import SAID_IN_CHAT, Outcome, Run
from crossclaw.domain.sessions import Session
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import NewDelivery, Op, PutDelivery
from crossclaw.policy.send import decide_send
from crossclaw.runs.run_store import FollowUps
from crossclaw.sessions.exchange import Exchanges
from crossclaw.sessions.spawn_report import SpawnReports

NO_ANSWER = "⚠️ No answer this time"


class Endings:
    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        exchanges: Exchanges,
        spawn_reports: SpawnReports,
        clock: Clock,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._exchanges = exchanges
        self._spawn_reports = spawn_reports
        self._clock = clock

    async def finished(self, run: Run, outcome: Outcome) -> FollowUps:
        """The next step of an exchange or of a spawn, or the reply on its way to its chat."""
        session = await self._ledger.find_session(run.key) if run.kind in SAID_IN_CHAT else None
        withheld = self.is_withheld(run, session)
        if run.plan.exchange_id is not None:
            return FollowUps(await self._exchanges.follow(run, outcome), withheld)
        if run.plan.spawned:
            return FollowUps(await self._spawn_reports.follow(run, outcome), withheld)
        return FollowUps(self._reply(run, outcome), withheld)

    def is_withheld(self, run: Run, session: Session | None) -> bool:
        """Whether the send policy keeps the run's words from the chats of its session, now."""
        return run.kind in SAID_IN_CHAT and not self.may_say(run.key, session)

    def may_say(self, key: SessionKey, session: Session | None) -> bool:
        """Whether the send policy allows a reply now, at the moment of delivery; the outbox asks for the
        chats of other channels."""
        return decide_send(self._config.session.send_policy, key, session).allowed

    def _reply(self, run: Run, outcome: Outcome) -> list[Op[Any]]:
        address = run.plan.reply_to
        if address is None or not run.plan.deliver:
            return []
        text = _words_for_the_chat(run, outcome)
        if not text:
            return []
        delivery = NewDelivery.of_run(run, f"reply:{run.run_id}", run.key, address, text)
        return [PutDelivery(new=delivery, at=self._clock.now_ms())]


def _words_for_the_chat(run: Run, outcome: Outcome) -> str:
    if outcome.status == "ok":
        words, ack_chars_max = (outcome.reply or "").strip(), run.plan.ack_chars_max
        words = words if ack_chars_max is None else beyond_heartbeat(words, ack_chars_max)
        return "" if is_silent(words) else words
    if outcome.status == "aborted":
        return ""  # whoever stopped it knows
    return f"{NO_ANSWER}: {outcome.error}" if _is_private(run) else f"{NO_ANSWER}."


def _is_private(run: Run) -> bool:
    """Whether one person reads the reply. What a job or a hook names may be a group."""
    address = run.plan.reply_to
    return run.key.chat_type == "direct" and address is not None and not address.named

"""The desk: messages come in and become runs; a run that ends says what follows from it."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from crossclaw.config import Config
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.jobs import beyond_heartbeat
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import NewRun, Outcome, Run, RunPlan
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.contract import Dedupe, NewDelivery, Op, PutDelivery, Submitted
from crossclaw.runs.book import Book
from crossclaw.sessions.exchange import Exchanges


class Desk:
    def __init__(
        self, config: Config, book: Book, exchanges: Exchanges, clock: Clock, ids: Ids
    ) -> None:
        self._config = config
        self._book = book
        self._exchanges = exchanges
        self._clock = clock
        self._ids = ids

    async def receive(self, inbound: Inbound) -> str:
        """A message from a channel becomes a run. The same platform message twice is one run."""
        key = self.route(inbound)
        provenance = Provenance(
            "person", source_channel=inbound.address.channel, sender=inbound.sender
        )
        new = NewRun(
            run_id=self._ids.new(),
            key=key,
            kind="chat",
            message=UserMessage(inbound.text, self._clock.now_ms(), provenance),
            authority=self._authority(),
            plan=RunPlan(
                reply_to=inbound.address, timeout_ms=self._config.agents.defaults.timeout_ms
            ),
        )
        session = NewSession(
            key=key,
            session_id=self._ids.new(),
            channel=inbound.address.channel,
            display_name=inbound.chat_name,
            address=inbound.address,
        )
        # The platform's id says that it is the same message; its words may have been edited since.
        dedupe = Dedupe("inbound", inbound.dedupe_key, "")
        return (await self._book.submit(new, session, dedupe=dedupe)).run_id

    async def submit(
        self, key: SessionKey, text: str, *, run_id: str | None = None, plan: RunPlan | None = None
    ) -> Submitted:
        """A message from inside the house. With a run id of the caller's, the same call twice is
        one run, and another message under that id is refused."""
        new = NewRun(
            run_id=run_id or self._ids.new(),
            key=key,
            kind="agent",
            message=UserMessage(text, self._clock.now_ms(), Provenance("person")),
            authority=self._authority(),
            plan=plan or RunPlan(timeout_ms=self._config.agents.defaults.timeout_ms),
        )
        dedupe = None if run_id is None else Dedupe("run", run_id, digest(key.text, text))
        return await self._book.submit(
            new, NewSession(key=key, session_id=self._ids.new()), dedupe=dedupe
        )

    def _authority(self) -> Authority:
        return Authority(hops_left=self._config.session.agent_to_agent.max_hops)

    def route(self, inbound: Inbound) -> SessionKey:
        """Which session a message belongs to."""
        agent_id, where, session = (
            self._config.agents.default_id,
            inbound.address,
            self._config.session,
        )
        if inbound.chat_type in ("group", "channel"):
            return SessionKey.group(
                agent_id,
                where.channel,
                inbound.chat_id or where.to,
                chat_type="group" if inbound.chat_type == "group" else "channel",
                thread_id=where.thread_id,
            )
        return SessionKey.direct(
            agent_id,
            where.channel,
            inbound.sender,
            scope=session.dm_scope,
            account_id=where.account_id or "default",
            links=session.identity_links,
        )

    async def finished(self, run: Run, outcome: Outcome) -> Sequence[Op[Any]]:
        """What follows from an end, to be stored with it: the next step of an exchange, or the reply
        on its way to its chat."""
        if run.plan.exchange_id is not None:
            return await self._exchanges.follow(run, outcome)
        address = run.plan.reply_to
        text = _words_for_the_chat(run, outcome)
        if address is None or not run.plan.deliver or not text:
            return []
        delivery = NewDelivery(
            delivery_key=f"reply:{run.run_id}",
            key=run.key,
            address=address,
            text=text,
            run_id=run.run_id,
            authority=run.authority,
        )
        return [PutDelivery(new=delivery, at=self._clock.now_ms())]


def _words_for_the_chat(run: Run, outcome: Outcome) -> str:
    if outcome.status == "ok":
        words, ack_chars_max = (outcome.reply or "").strip(), run.plan.ack_chars_max
        return words if ack_chars_max is None else beyond_heartbeat(words, ack_chars_max)
    if outcome.status == "aborted":
        return ""  # whoever stopped it knows
    return f"⚠️ No answer this time: {outcome.error}"


def digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode()).hexdigest()

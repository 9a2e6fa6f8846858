"""The desk: messages come in and become runs."""

from hashlib import sha256

from crossclaw.config import Config
from crossclaw.domain.addresses import Inbound
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.ids import Ids
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import NewRun, RunPlan
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.contract import Dedupe, Submitted
from crossclaw.runs.book import Book


class Desk:
    def __init__(self, config: Config, book: Book, clock: Clock, ids: Ids) -> None:
        self._config = config
        self._book = book
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


def digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode()).hexdigest()

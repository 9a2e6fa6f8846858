"""Notices: words for an agent's main session, read at once or by whichever run comes next.

A notice that waits is a run that ends in the step that accepts it: its words enter the transcript, and
the same notice twice is one.
"""

from typing import Any

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import Invalid
from crossclaw.domain.ids import Ids
from crossclaw.domain.jobs import ACK_CHARS_MAX, TickId, WakeMode
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import NewRun, Outcome, RunKind, RunPlan
from crossclaw.domain.sessions import NewSession
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Dedupe, EndOpenRun, EnsureSession, Op, Submit
from crossclaw.runs.run_store import RunStore
from crossclaw.schedule.lengths import WORDS_CHARS_MAX

NOTICE_CHARS_MAX = 2_000  # of a run's reply, told to the main session; the whole is in its own


class Notices:
    def __init__(
        self, config: Config, ledger: Ledger, run_store: RunStore, clock: Clock, ids: Ids
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._run_store = run_store
        self._clock = clock
        self._ids = ids

    def main_of(self, agent_id: str) -> SessionKey:
        if self._config.session.scope == "global":
            return SessionKey.shared(self._config.agents.default_id)
        return SessionKey.main(agent_id)

    async def give(
        self,
        agent_id: str,
        text: str,
        mode: WakeMode,
        kind: RunKind,
        provenance: Provenance,
        authority: Authority,
        dedupe: Dedupe | None = None,
    ) -> str:
        """Durable on return. Answers the run that carries it."""
        if len(text) > WORDS_CHARS_MAX:
            raise Invalid(f"text has at most {WORDS_CHARS_MAX} characters, not {len(text)}")
        run_id = self._ids.new()
        new = await self.waking(agent_id, text, kind, provenance, authority, run_id)
        if mode == "now":
            return (await self._run_store.submit(new, self.session(new.key), dedupe=dedupe)).run_id
        _, submitted, *_ = await self._ledger.commit(*self.waiting(new, dedupe))
        known: str = submitted.run_id
        return known

    async def waking(
        self,
        agent_id: str,
        text: str,
        kind: RunKind,
        provenance: Provenance,
        authority: Authority,
        run_id: str,
        *,
        tick: TickId | None = None,
        model: str | None = None,
        ack_chars_max: int = ACK_CHARS_MAX,
    ) -> NewRun:
        """A run in the main session; its reply goes where that session was last talked to."""
        key = self.main_of(agent_id)
        session = await self._ledger.find_session(key)
        return NewRun(
            run_id=run_id,
            key=key,
            kind=kind,
            message=UserMessage(text, self._clock.now_ms(), provenance),
            plan=RunPlan(
                reply_to=session.last_address if session else None,
                model=model,
                timeout_ms=self._config.agents.defaults.timeout_ms,
                tick=tick,
                ack_chars_max=ack_chars_max,
            ),
            authority=authority,
        )

    def waiting(self, new: NewRun, dedupe: Dedupe | None = None) -> list[Op[Any]]:
        at = self._clock.now_ms()
        return [
            EnsureSession(new=self.session(new.key), at=at),
            Submit(new=new, at=at, dedupe=dedupe),
            EndOpenRun(run_id=new.run_id, outcome=Outcome("ok"), at=at),
        ]

    def session(self, key: SessionKey, name: str | None = None) -> NewSession:
        return NewSession(key=key, session_id=self._ids.new(), display_name=name)

"""Approvals: a tool call waits for a person's yes, durably, and is answered once.

The question is a row of the ledger: a run that is resumed finds it there, with its answer if
somebody has given one meanwhile. Whoever waits is woken by a hint and looks by itself as well.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import anyio
import msgspec

from crossclaw.domain.aliases import Hints, Tell
from crossclaw.domain.approvals import (
    Approval,
    ApprovalAnswer,
    NewApproval,
    ProposedCall,
    StandingGrant,
)
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.errors import NotFound
from crossclaw.domain.events import ApprovalAsked, ApprovalSettled, FeedEvent, RunEnded
from crossclaw.domain.runs import Run
from crossclaw.ledger.approvals import AnswerApproval, AskApproval, ExpireApproval, RevokeGrant
from crossclaw.ledger.operations import Op
from crossclaw.runs.context import ServiceContext
from crossclaw.runs.slots import Slots

LOOK_AGAIN_S = 5.0  # should a hint be missed: another gateway may have taken the answer
WATCH_S = 0.5  # for those who look on; the run itself is woken at once
GRANTS_MAX = 2_000  # of all agents; a list that long is no list any more
PREFIX_MIN = 4  # characters of an id that are enough, where they mean one only

Pause = Callable[[str], AbstractContextManager[None]]
"""A context in which the run's own time does not pass."""
TellChats = Callable[[Run, NewApproval], Sequence[Op[Any]]]
"""The deliveries to the owner's chats, stored in the same step as the question."""


class Approvals:
    def __init__(
        self, context: ServiceContext, slots: Slots, pause: Pause, tell_chats: TellChats
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._feed = context.feed
        self._clock = context.clock
        self._ids = context.ids
        self._credentials = context.credentials
        self._slots = slots
        self._pause = pause
        self._tell_chats = tell_chats
        self._hints: dict[str, anyio.Event] = {}
        self._waiting_here: dict[str, dict[str, Approval]] = {}
        """The approvals that wait in this process, by run."""
        context.feed.subscribe(self.on_event, RunEnded)

    # ── asking ─────────────────────────────────────────────────────────────────────────────────

    async def ask(
        self, run: Run, tool_use_id: str, wish: ProposedCall, agents: Sequence[str], tell: Tell
    ) -> Approval:
        """Asks for approval and waits for the answer, however long that takes. Meanwhile others may
        use the run's slot, and its own time does not pass."""
        at = self._clock.now_ms()
        new = NewApproval(
            approval_id=self._ids.short(),
            tool_use_id=tool_use_id,
            wish=wish,
            agents=tuple(agents),
            expires_at=at + self._config.approvals.timeout_seconds * 1000,
        )
        approval: Approval
        approval, *_ = await self._ledger.commit(
            AskApproval(fence=run.fence, new=new, at=at), *self._tell_chats(run, new)
        )
        if approval.status != "waiting":
            return approval
        with self._waiting(approval) as hint, self._pause(run.run_id):
            self._feed.publish(ApprovalAsked(approval))
            tell(f"waits for a yes: crossclaw approvals allow {approval.approval_id[:8]}")
            async with self._slots.given_back(run.key):
                return await self._answered(approval, hint)

    async def _answered(self, approval: Approval, hint: anyio.Event) -> Approval:
        while True:
            left_s = (approval.expires_at - self._clock.now_ms()) / 1000
            with anyio.move_on_after(max(0.0, min(LOOK_AGAIN_S, left_s))):
                await hint.wait()
            now = self._clock.now_ms()
            if now >= approval.expires_at:
                expire = ExpireApproval(approval_id=approval.approval_id, at=now)
                if (expired := await self._ledger.do(expire)) is not None:
                    self._settle(expired)
                    return expired
            found = await self._ledger.find_approval(approval.approval_id)
            if found is None or found.status != "waiting":
                self._waiting_here.get(approval.run_id, {}).pop(approval.approval_id, None)
                return found or msgspec.structs.replace(approval, status="withdrawn")

    @contextmanager
    def _waiting(self, approval: Approval) -> Generator[anyio.Event]:
        hint = self._hints[approval.approval_id] = anyio.Event()
        of_run = self._waiting_here.setdefault(approval.run_id, {})
        of_run[approval.approval_id] = approval
        try:
            yield hint
        finally:
            del self._hints[approval.approval_id]

    def on_event(self, event: FeedEvent) -> None:
        """A run that ended has withdrawn, in the step that ended it, what nobody had answered."""
        if not isinstance(event, RunEnded):
            return
        for approval in self._waiting_here.pop(event.run.run_id, {}).values():
            self._feed.publish(
                ApprovalSettled(
                    msgspec.structs.replace(
                        approval, status="withdrawn", answered_at=event.run.ended_at
                    )
                )
            )

    # ── answering ──────────────────────────────────────────────────────────────────────────────

    async def answer(
        self, named: str, answer: ApprovalAnswer, by: str, makers: Sequence[CredentialRef]
    ) -> Approval:
        """Stores an answer, then publishes it. `named` is the approval's id, or the beginning of
        it."""
        found = await self.find(named)
        at = self._clock.now_ms()
        grants = [self._grant(found, agent_id, by, makers, at) for agent_id in found.agents]
        settled = await self._ledger.do(
            AnswerApproval(
                approval_id=found.approval_id,
                answer=answer,
                by=by,
                makers=tuple(makers),
                grants=tuple(grants) if answer == "allow-always" else (),
                at=at,
            )
        )
        self._settle(settled)
        return settled

    def _settle(self, settled: Approval) -> None:
        self._waiting_here.get(settled.run_id, {}).pop(settled.approval_id, None)
        if (hint := self._hints.get(settled.approval_id)) is not None:
            hint.set()
        self._feed.publish(ApprovalSettled(settled))

    def on_approval_hint(self, approval_ids: Hints | None) -> None:
        """Wakes those who wait for answers given on other gateways. They also look by
        themselves."""
        for approval_id in approval_ids or ():
            if (hint := self._hints.get(approval_id)) is not None:
                hint.set()

    def _grant(
        self, approval: Approval, agent_id: str, by: str, makers: Sequence[CredentialRef], at: int
    ) -> StandingGrant:
        """A standing grant from an answered question. It outlives a change of the token it was
        given with, but not the removal of its credential."""
        wish = approval.wish
        return StandingGrant(
            grant_id=self._ids.short(),
            agent_id=agent_id,
            tool=wish.tool,
            created_at=at,
            program=wish.program,
            arguments=wish.arguments if wish.program is not None else None,
            digest=wish.digest,
            folder=wish.folder,
            sandboxed=wish.sandboxed,
            granted_by=by,
            makers=tuple(CredentialRef(each.credential_id) for each in makers),
        )

    def counts(self, approval: Approval) -> bool:
        """Whether a yes still counts when it is used: not if its credential was removed
        meanwhile."""
        return approval.allowed and self._credentials.stands(approval.makers)

    # ── looking ────────────────────────────────────────────────────────────────────────────────

    async def waiting(self) -> list[Approval]:
        """The approvals that can be answered now."""
        now = self._clock.now_ms()
        return [
            each for each in await self._ledger.list_waiting_approvals() if each.expires_at > now
        ]

    async def find(self, named: str) -> Approval:
        """A waiting approval, by its id or by the beginning of it."""
        waiting = await self.waiting()
        exact = [each for each in waiting if each.approval_id == named]
        near = [each for each in waiting if each.approval_id.startswith(named)]
        found = exact or (near if len(named) >= PREFIX_MIN else [])
        if len(found) > 1:
            raise NotFound("ambiguous approval id prefix; use the full id")
        if not found:
            raise NotFound("unknown or expired approval id")
        return found[0]

    async def wait(self, approval_id: str) -> Approval:
        """Waits until it was answered or has expired, for somebody who watches."""
        approval = await self._ledger.find_approval(approval_id)
        if approval is None:
            raise NotFound("approval expired or not found")
        while approval is not None and approval.status == "waiting":
            if approval.expires_at + LOOK_AGAIN_S * 1000 < self._clock.now_ms():
                break  # nobody carries its run out now; it will be settled when somebody does
            await anyio.sleep(WATCH_S)
            approval = await self._ledger.find_approval(approval_id)
        if approval is None:
            raise NotFound("approval expired or not found")
        return approval

    async def grants(self, agent_ids: Sequence[str] | None = None) -> list[StandingGrant]:
        """The standing grants, also those by credentials that are gone."""
        return await self._ledger.list_grants(agent_ids=agent_ids, limit=GRANTS_MAX)

    def lasts(self, grant: StandingGrant) -> bool:
        """Whether a grant still counts: its credential still exists. An imported rule always
        does."""
        return self._credentials.lasts(grant.makers)

    async def revoke(self, grant_id: str) -> StandingGrant:
        found = await self._ledger.do(RevokeGrant(grant_id=grant_id))
        if found is None:
            raise NotFound(f"nothing is allowed for good under the id {grant_id}")
        return found

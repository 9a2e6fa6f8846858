"""The run handler: executes a run that its lane has claimed, and collects what follows from its
end.

Every turn passes here twice. It is above the lanes, because it knows rooms that do not know each
other: agents inside and outside, the send policy, exchanges and spawns, jobs and hooks.
"""

from crossclaw.agent.execute import RunExecutor
from crossclaw.app.parts import Schedule
from crossclaw.domain.events import SpeechAllowed
from crossclaw.domain.runs import Outcome, Run
from crossclaw.ledger.contract import Ledger
from crossclaw.runs.feed import Feed
from crossclaw.runs.handling import Ending, PartialReply
from crossclaw.runs.run_store import FollowUps
from crossclaw.sessions.ending import Endings
from crossclaw.sessions.guests import Guests


class AgentRunHandler:
    def __init__(
        self,
        ledger: Ledger,
        feed: Feed,
        agent: RunExecutor,
        guests: Guests,
        endings: Endings,
        schedule: Schedule,
    ) -> None:
        self._ledger = ledger
        self._feed = feed
        self._agent = agent
        self._guests = guests
        self._endings = endings
        self._schedule = schedule

    async def execute(self, run: Run, words: PartialReply) -> Ending:
        """Executes a run: by the agent loop, or by the guest whose session it is. If the send
        policy keeps its words from the chat, subscribers are told first."""
        session = await self._ledger.find_session(run.key)
        if self._endings.is_withheld(run, session):
            self._feed.publish(SpeechAllowed(run.key, False))
        if run.key.is_guest:
            return await self._guests.execute(run, words)
        return await self._agent.execute(run, session, words)

    async def follow(self, run: Run, outcome: Outcome) -> FollowUps:
        """All operations that follow from a run's end: of sessions, of the schedule, of hooks."""
        follow = await self._endings.finished(run, outcome)
        ops = [
            *follow.ops,
            *await self._schedule.job_runs.follow(run, outcome),
            *await self._schedule.hooks.follow(run, outcome),
        ]
        return FollowUps(ops, follow.withheld)

"""Job runs: what a tick begins, and what follows from the end of its run."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from crossclaw.channels.registry import channel_name, named_address
from crossclaw.config import Config
from crossclaw.domain.addresses import Address
from crossclaw.domain.agents import normalize_agent_id
from crossclaw.domain.jobs import (
    ACK_CHARS_MAX,
    AgentTurn,
    At,
    Job,
    JobDelivery,
    JobSpec,
    SystemEvent,
    TickId,
    beyond_heartbeat,
)
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Provenance, UserMessage
from crossclaw.domain.runs import Outcome, Run, RunPlan
from crossclaw.domain.sessions import NewEntry, Session, SessionFacts
from crossclaw.ledger.jobs import DeleteJob, SettleTick
from crossclaw.ledger.operations import Inject, Op
from crossclaw.runs.context import ServiceContext
from crossclaw.schedule.heartbeats import Heartbeats
from crossclaw.schedule.notices import NOTICE_CHARS_MAX
from crossclaw.sessions.arrivals import Arrival

NO_ADDRESS = (
    "the run is done, but its reply has no address: set delivery.channel and delivery.to, "
    "or delivery.bestEffort to do without"
)


class JobRuns:
    def __init__(
        self,
        context: ServiceContext,
        heartbeats: Heartbeats,
        channels: Collection[str],
    ) -> None:
        self._config = context.config
        self._ledger = context.ledger
        self._heartbeats = heartbeats
        self._channels = channels
        self._clock = context.clock
        self._ids = context.ids

    async def begin(self, job: Job, tick: TickId) -> Arrival:
        """The arrival of a tick. One that waits for the next heartbeat ends in the step that accepts it."""
        run_id = f"{job.job_id if job.built_in else f'cron:{job.job_id}'}:{tick.at}"
        match job.spec.payload:
            case AgentTurn() as turn:
                return await self._isolated(job, turn, tick, run_id)
            case SystemEvent(text=text):
                return Arrival(
                    road="cron",
                    to=self._config.main_key(job.agent_id),
                    text=text,
                    origin=_provenance(job),
                    run_id=run_id,
                    plan=RunPlan(tick=tick, ack_chars_max=ACK_CHARS_MAX),
                    job=job,
                    replies_to_last=True,
                    waits=job.spec.wake_mode == "next-heartbeat",
                )
            case _:
                return await self._heartbeats.beat(job, tick, run_id)

    async def _isolated(self, job: Job, turn: AgentTurn, tick: TickId, run_id: str) -> Arrival:
        """The arrival of an isolated run: under the job's own key, as in OpenClaw."""
        address = await self._address(job)
        return Arrival(
            road="isolated job",
            to=SessionKey.cron(job.agent_id, job.job_id),
            text=turn.message,
            origin=_provenance(job),
            run_id=run_id,
            plan=RunPlan(
                deliver=address is not None,
                reply_to=address,
                model=turn.model or None,
                thinking=turn.thinking,
                timeout_ms=turn.timeout_seconds * 1000 if turn.timeout_seconds else None,
                tick=tick,
                ack_chars_max=ACK_CHARS_MAX,
            ),
            job=job,
            facts=SessionFacts(display_name=job.spec.name),
        )

    async def _address(self, job: Job) -> Address | None:
        """The address for its reply; None when the channel is not set up (any more)."""
        wanted = wanted_delivery(job.spec)
        if wanted is None:
            return None
        main = await self._ledger.find_session(self._config.main_key(job.agent_id))
        named = (wanted.channel, wanted.to, wanted.account_id, wanted.thread)
        bound = bound_accounts(self._config, job.agent_id)
        address = find_address(*named, main=main, bound=bound)
        return address if address and address.channel in self._channels else None

    async def follow(self, run: Run, outcome: Outcome) -> list[Op[Any]]:
        """The operations that follow from the end of a tick's run, to be stored with that end."""
        tick = run.plan.tick
        if tick is None:
            return []
        at, job = self._clock.now_ms(), await self._ledger.find_job(tick.job_id)
        ok, summary = (
            outcome.status == "ok",
            outcome.reply if outcome.status == "ok" else outcome.error,
        )
        wanted = wanted_delivery(job.spec) if job else None
        if ok and wanted and run.plan.reply_to is None and _must_arrive(wanted):
            ok, summary = False, self._why_nowhere(wanted)
        settled = SettleTick(
            tick=tick,
            status="ok" if ok else "error",
            at=at,
            summary=(summary or "")[-NOTICE_CHARS_MAX:],
        )
        done = [DeleteJob(job_id=tick.job_id)] if job and ok and _used_up(job) else []
        notices = await self._tell_main(run, job, outcome) if job and wanted else []
        return [settled, *done, *notices]

    def _why_nowhere(self, wanted: JobDelivery) -> str:
        if wanted.channel in (None, "last") or channel_name(wanted.channel) in self._channels:
            return NO_ADDRESS
        return f"the run is done, but its reply went nowhere: {no_channel(wanted.channel, self._channels)}"

    async def _tell_main(self, run: Run, job: Job, outcome: Outcome) -> list[Op[Any]]:
        """The operations that put what was posted to the chat into the main session as well."""
        key = self._config.main_key(job.agent_id)
        words = beyond_heartbeat(outcome.reply or outcome.error or "", ACK_CHARS_MAX)
        if not words or await self._ledger.find_session(key) is None:
            return []
        note = report_of_run(f"Cron {job.spec.name}", run.key, outcome, words, self._clock.now_ms())
        entry = NewEntry(entry_id=self._ids.short(), message=note)
        return [Inject(key=key, entries=[entry], at=self._clock.now_ms())]


def report_of_run(name: str, key: SessionKey, outcome: Outcome, words: str, at: int) -> UserMessage:
    """A run's words as a message to the main session: another run's words, not the owner's."""
    state = "" if outcome.status == "ok" else f" ({outcome.status})"
    text = f"{name}{state}: {words[-NOTICE_CHARS_MAX:]}"
    origin = Provenance("announce", source_session_key=key.text, source_channel="internal")
    return UserMessage(text, at, origin)


def no_channel(name: str | None, known: Collection[str]) -> str:
    return f"no channel {name!r} is set up; set up: {', '.join(sorted(known)) or 'none'}"


def wanted_delivery(spec: JobSpec) -> JobDelivery | None:
    """The delivery of a job's reply; the older way to say it stands in the payload."""
    if spec.delivery is not None:
        return spec.delivery if spec.delivery.mode == "announce" else None
    turn = spec.payload
    if not isinstance(turn, AgentTurn) or turn.deliver is False or not (turn.deliver or turn.to):
        return None
    return JobDelivery(
        mode="announce", channel=turn.channel, to=turn.to, best_effort=turn.best_effort_deliver
    )


def find_address(
    channel: str | None,
    to: str | None,
    account_id: str | None = None,
    thread_id: str | None = None,
    *,
    main: Session | None,
    bound: Mapping[str, str],
) -> Address | None:
    """The address of a reply. What is not named is that of the last chat, as far as it is the same channel
    and chat; an account that neither says is the one that the agent is bound to."""
    last = main.last_address if main else None
    where = None if channel in (None, "last") else channel_name(channel or "")
    if last is not None and where in (None, last.channel):
        account_id = account_id or last.account_id
        if not to:
            thread_id = thread_id or last.thread_id
            return msgspec.structs.replace(last, account_id=account_id, thread_id=thread_id)
        where = last.channel
    if not where or not to:
        return None
    found = named_address(where, to, account_id or bound.get(where), thread_id)
    same_chat = last is not None and (found.channel, found.to) == (last.channel, last.to)
    if last is None or not same_chat or found.thread_id or found.account_id != last.account_id:
        return found
    return msgspec.structs.replace(found, thread_id=last.thread_id)


def bound_accounts(config: Config, agent_id: str) -> dict[str, str]:
    """The accounts that the config binds to an agent, by channel; the first if there are several."""
    found: dict[str, str] = {}
    for each in config.bindings:
        account_id = (each.match.account_id or "").strip()
        if normalize_agent_id(each.agent_id) == agent_id and account_id not in ("", "*"):
            found.setdefault(channel_name(each.match.channel), account_id)
    return found


def _must_arrive(wanted: JobDelivery) -> bool:
    """Whether a failed delivery is a fault. If nobody has ever talked to the agent from a chat, `last` is
    nowhere, and that is none."""
    return not wanted.best_effort and (
        wanted.to is not None or wanted.channel not in (None, "last")
    )


def _used_up(job: Job) -> bool:
    return isinstance(job.spec.schedule, At) and bool(job.spec.delete_after_run) and job.next_at is None  # fmt: skip


def _provenance(job: Job) -> Provenance:
    return Provenance("cron", sender=job.spec.name)

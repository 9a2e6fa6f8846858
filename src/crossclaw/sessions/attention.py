"""What needs attention according to the ledger: runs, deliveries, waits, jobs, budgets, approvals.

What the gateway and the channels know is added where the parts are put together (`app/attention.py`).
"""

from collections.abc import Sequence

from crossclaw.domain.approvals import Approval
from crossclaw.domain.attention import AttentionAction, AttentionRow, AttentionSource
from crossclaw.domain.clock import Clock
from crossclaw.domain.jobs import Job, Tick
from crossclaw.domain.sessions import Session
from crossclaw.domain.states import delivery_state, end_state, tick_state
from crossclaw.ledger.attention import TightBudget, TroubledDelivery
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.monitoring import WaitRow

ROWS_MAX = 200  # of one source: whoever has more trouble begins somewhere
LONG_WAIT_MS = 60_000  # as the map draws a wait in red
DELIVERIES_MS = 7 * 24 * 3600 * 1000  # a reply that is older helps nobody
ANSWER_LABELS = {"allow-once": "Allow once", "allow-always": "Always allow", "deny": "Deny"}
NEARLY = 0.8  # of a budget


class LedgerAttention:
    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._watching = ledger.monitoring
        self._clock = clock

    def sources(self) -> list[AttentionSource]:
        return [
            self.runs,
            self.deliveries,
            self.waits,
            self.jobs,
            self.budgets,
            self.tools,
            self.approvals,
        ]

    async def runs(self) -> list[AttentionRow]:
        """Sessions whose last run failed. One that has answered since is not listed any more; a job has a row
        of its own."""
        found = await self._watching.troubled_sessions(limit=ROWS_MAX)
        return [_run_row(each) for each in found if each.last_run_id and each.key.kind != "cron"]

    async def deliveries(self) -> list[AttentionRow]:
        since = self._clock.now_ms() - DELIVERIES_MS
        found = await self._watching.troubled_deliveries(since=since, limit=ROWS_MAX)
        return [_delivery_row(each) for each in found]

    async def waits(self) -> list[AttentionRow]:
        now = self._clock.now_ms()
        waits = await self._watching.waits(limit=ROWS_MAX)
        return [_wait_row(each, now) for each in waits if now - each.since > LONG_WAIT_MS]

    async def jobs(self) -> list[AttentionRow]:
        rows = []
        for job in (await self._ledger.list_jobs())[:ROWS_MAX]:
            ticks = await self._ledger.list_ticks(job.job_id, limit=2)
            ended = next((each for each in ticks if each.status != "running"), None)
            if row := _job_row(job, ended):
                rows.append(row)
        return rows

    async def budgets(self) -> list[AttentionRow]:
        found = await self._watching.tight_budgets(share=NEARLY, limit=ROWS_MAX)
        return [_budget_row(each) for each in found]

    async def tools(self) -> list[AttentionRow]:
        held = await self._ledger.list_held_tools()
        now = self._clock.now_ms()
        return [
            AttentionRow(
                id=f"tool:{each.tool}:{each.digest}",
                kind="tool",
                subject=f"The tool {each.tool}",
                what=f"of the MCP server {each.server} {'is new' if each.is_new else 'has changed'}, and waits for your yes",
                why="agents use a tool only as you know it; crossclaw mcp held shows both texts",
                since=now,
                actions=(
                    AttentionAction(
                        "Allow", "mcp.agree", {"tool": each.tool, "digest": each.digest}
                    ),
                ),
            )
            for each in held[:ROWS_MAX]
        ]

    async def approvals(self) -> list[AttentionRow]:
        now = self._clock.now_ms()
        waiting = await self._ledger.list_waiting_approvals()
        return [_approval_row(each) for each in waiting[:ROWS_MAX] if each.expires_at > now]


def _approval_row(approval: Approval) -> AttentionRow:
    wish, minutes = approval.wish, (approval.expires_at - approval.asked_at) // 60_000
    about = [f"Program: {wish.program}." if wish.program else ""]
    about.append(
        f"In {wish.folder}{', sandboxed' if wish.sandboxed else ''}." if wish.folder else ""
    )
    about.append(f"{wish.warning[0].upper()}{wish.warning[1:]}." if wish.warning else "")
    about.append(f"Only once: it has {wish.why_unlisted}." if wish.why_unlisted else "")
    about.append(f"Without an answer it is a no after {minutes} minutes.")
    return AttentionRow(
        id=f"approval:{approval.approval_id}",
        kind="approval",
        key=approval.key.shown,
        what="asks: may it run this?",
        why=wish.shown,
        helps=" ".join(filter(None, about)),
        since=approval.asked_at,
        run_id=approval.run_id,
        actions=tuple(
            AttentionAction(
                ANSWER_LABELS[each],
                "exec.approval.resolve",
                {"id": approval.approval_id, "decision": each},
            )
            for each in approval.answers
        ),
    )


def _run_row(session: Session) -> AttentionRow:
    assert session.last_run_id is not None
    state = end_state(session.last_status or "error", session.last_error)
    retry = AttentionAction("Retry", "runs.retry", {"runId": session.last_run_id})
    return AttentionRow(
        id=f"run:{session.last_run_id}",
        kind="run",
        key=session.key.shown,
        what={"timed out": "ran out of time", "over budget": "is over its budget"}.get(
            state.name, "failed"
        ),
        why=state.why,
        since=session.updated_at,
        run_id=session.last_run_id,
        actions=(retry,),
    )


def _delivery_actions(each: TroubledDelivery) -> tuple[AttentionAction, ...]:
    params = {"id": each.delivery_id}
    again = AttentionAction("Send again", "deliveries.resend", params)
    if each.state != "uncertain":
        return (again,)
    return again, AttentionAction("It has arrived", "deliveries.delivered", params)


def _delivery_row(each: TroubledDelivery) -> AttentionRow:
    state = delivery_state(each.state, each.error, each.attempt)
    uncertain = state.name == "uncertain"
    return AttentionRow(
        id=f"delivery:{each.delivery_id}:{each.updated_at}",
        kind="delivery",
        key=each.key,
        what=f"has a reply for {each.channel} {each.to} "
        + ("that may have arrived or not" if uncertain else "that did not arrive"),
        why=state.why,
        helps="Look in the chat whether it is there; sent again it may stand there twice."
        if uncertain
        else None,
        since=each.updated_at,
        run_id=each.run_id,
        actions=_delivery_actions(each),
    )


def _wait_row(wait: WaitRow, now: int) -> AttentionRow:
    minutes = (now - wait.since) // 60_000
    return AttentionRow(
        id=f"wait:{wait.run_id}:{wait.target_run_id}",
        kind="wait",
        key=wait.key,
        other=wait.target_key,
        what=f"has waited {minutes} min for",
        since=wait.since,
        run_id=wait.run_id,
        actions=(
            AttentionAction("Stop what it waits for", "sessions.abort", {"key": wait.target_key}),
        ),
    )


def _job_row(job: Job, tick: Tick | None) -> AttentionRow | None:
    run_now = AttentionAction("Run now", "cron.run", {"id": job.job_id, "mode": "force"})
    name = f"The job {job.spec.name or job.job_id}"
    if job.off_because:
        on = AttentionAction(
            "Switch on", "cron.update", {"id": job.job_id, "patch": {"enabled": True}}
        )
        return AttentionRow(
            id=f"job:{job.job_id}:off:{job.updated_at}",
            kind="job",
            subject=name,
            what="was switched off by the gateway",
            why=job.off_because,
            since=job.updated_at,
            actions=(on,),
        )
    state = tick_state(tick.status, tick.summary) if tick is not None else None
    if tick is None or state is None or state.name not in ("failed", "over budget"):
        return None
    return AttentionRow(
        id=f"job:{job.job_id}:{tick.at}",
        kind="job",
        subject=name,
        what="failed" if state.name == "failed" else "is over its budget",
        why=state.why,
        since=tick.ended_at or tick.at,
        run_id=tick.run_id,
        actions=(run_now,),
    )


def _budget_row(each: TightBudget) -> AttentionRow:
    spent = []
    if each.tokens_max is not None:
        spent.append(f"{each.tokens_spent:,} of {each.tokens_max:,} tokens")
    if each.cost_max is not None:
        spent.append(f"${each.cost_spent:.4f} of ${each.cost_max:.4f}")
    return AttentionRow(
        id=f"budget:{each.run_id}",
        kind="budget",
        key=each.key,
        what="has spent most of its budget",
        why=" and ".join(spent),
        helps="It ends when nothing is left; agents.list[].budget raises it for the next one.",
        since=each.created_at,
        run_id=each.run_id,
        actions=(AttentionAction("Stop", "sessions.abort", {"key": each.key}),),
    )


def newest_first(rows: Sequence[AttentionRow]) -> list[AttentionRow]:
    return sorted(rows, key=lambda each: -each.since)

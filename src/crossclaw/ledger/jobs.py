"""Operations on cron jobs and their ticks."""

from crossclaw.domain.jobs import Job, Tick, TickId, TickStatus
from crossclaw.ledger.operations import Op

TICKS_KEPT = 1_000  # of one job; its log is for people, who look at the last few


class PutJob(Op[None], frozen=True):
    """Store a job, new or changed."""

    job: Job


class SwitchOffJobs(Op[list[str]], frozen=True):
    """Switch off the jobs made with a credential; the result is which. Put it into the step that
    ends the credential."""

    credential_ids: tuple[str, ...]
    reason: str
    at: int


class SwitchOffJob(Op[None], frozen=True):
    """Switch off one job, which cannot go on. Fenced if it has changed since it was read."""

    job: Job
    reason: str
    at: int


class DeleteJob(Op[bool], frozen=True):
    """Delete a job. Its ticks stay readable."""

    job_id: str


class TakeTick(Op[None], frozen=True):
    """Begin a due tick; put what it causes into the same step. Fenced if the job has changed since
    it was read; TickTaken if this tick was taken before. Either makes the step void."""

    job: Job
    tick: Tick
    next_at: int | None
    moves: bool = True
    """Whether the schedule moves on; False for a tick by hand."""
    missed: tuple[Tick, ...] = ()


class MoveJob(Op[None], frozen=True):
    """Move the schedule on without a tick. Fenced if the job has changed since it was read."""

    job: Job
    next_at: int | None


class SettleTick(Op[bool], frozen=True):
    """Store how a tick ended; False if it had ended before. A job that has no further tick is
    switched off."""

    tick: TickId
    status: TickStatus
    at: int
    summary: str | None = None

"""Operations on cron jobs and their ticks, as data."""

from crossclaw.domain.jobs import Job, Tick, TickId, TickStatus
from crossclaw.ledger.operations import Op

TICKS_KEPT = 1_000  # of one job; its log is for people, who look at the last few


class PutJob(Op[None], frozen=True):
    """Make a job, or change it."""

    job: Job


class SwitchOffJobs(Op[list[str]], frozen=True):
    """The jobs that go back to a credential stop; answers which. Put it into the step that ends the
    credential."""

    credential_ids: tuple[str, ...]
    reason: str
    at: int


class SwitchOffJob(Op[None], frozen=True):
    """This one, which cannot go on. Fenced when it is no longer as it was read."""

    job: Job
    reason: str
    at: int


class DeleteJob(Op[bool], frozen=True):
    """Its ticks stay readable."""

    job_id: str


class TakeTick(Op[None], frozen=True):
    """A due tick begins: put what it brings about into the same step. Fenced when the job is no longer
    as it was read; TickTaken when this tick was taken before. Either voids the step."""

    job: Job
    tick: Tick
    next_at: int | None
    moves: bool = True
    """False for one by hand: the schedule stays as it is."""
    missed: tuple[Tick, ...] = ()


class MoveJob(Op[None], frozen=True):
    """The schedule goes on without a tick. Fenced when the job is no longer as it was read."""

    job: Job
    next_at: int | None


class SettleTick(Op[bool], frozen=True):
    """How a tick ended; False when it had before. A job that has no further tick is switched off."""

    tick: TickId
    status: TickStatus
    at: int
    summary: str | None = None

"""Tool calls that need a person's yes, and what was allowed for good: operations of their own."""

from crossclaw.domain.approvals import Approval, ApprovalAnswer, NewApproval, StandingGrant
from crossclaw.domain.authority import Maker
from crossclaw.domain.runs import Fence
from crossclaw.ledger.operations import Op

WAITING_MAX = 500  # of one gateway; a person looks at each, and beyond that nobody does


class AskApproval(Op[Approval], frozen=True):
    """The call waits for a yes from now on, and its run with it. A call that has been asked about before, before
    a restart, is answered as it stands now. Busy when too many wait."""

    fence: Fence
    new: NewApproval
    at: int


class AnswerApproval(Op[Approval], frozen=True):
    """The one answer. What is answered, over or unknown already is NotFound; what cannot be allowed for good is
    Invalid then. `grants` become true with `allow-always`."""

    approval_id: str
    answer: ApprovalAnswer
    by: str
    makers: tuple[Maker, ...]
    at: int
    grants: tuple[StandingGrant, ...] = ()


class ExpireApproval(Op[Approval | None], frozen=True):
    """Nobody has answered in time. None when somebody has, or it is not yet time."""

    approval_id: str
    at: int


class PutGrants(Op[int], frozen=True):
    """What was allowed for good; answers how many are new. The same agent, tool, program and arguments are one:
    it stays as it is, or with `anew` is given anew by whoever gives it now."""

    grants: tuple[StandingGrant, ...]
    anew: bool = False


class RevokeGrant(Op[StandingGrant | None], frozen=True):
    """It is not allowed any more. None when it was not."""

    grant_id: str

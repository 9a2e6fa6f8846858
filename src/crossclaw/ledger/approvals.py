"""Operations on tool calls that need a person's yes, and on standing grants."""

from crossclaw.domain.approvals import Approval, ApprovalAnswer, NewApproval, StandingGrant
from crossclaw.domain.authority import CredentialRef
from crossclaw.domain.runs import Fence
from crossclaw.ledger.operations import Op

WAITING_MAX = 500  # of one gateway; a person looks at each, and beyond that nobody does


class AskApproval(Op[Approval], frozen=True):
    """Let a call wait for approval, and its run with it. For a call that was asked about before, as
    before a restart, the result is its current state. Busy if too many wait."""

    fence: Fence
    new: NewApproval
    at: int


class AnswerApproval(Op[Approval], frozen=True):
    """Store the one answer. NotFound if it is answered, expired or unknown; Invalid if the call
    cannot be allowed for good. `grants` are stored with `allow-always`."""

    approval_id: str
    answer: ApprovalAnswer
    by: str
    makers: tuple[CredentialRef, ...]
    at: int
    grants: tuple[StandingGrant, ...] = ()


class ExpireApproval(Op[Approval | None], frozen=True):
    """Expire an approval that nobody has answered in time. None if somebody has, or it is not yet
    time."""

    approval_id: str
    at: int


class PutGrants(Op[int], frozen=True):
    """Store standing grants; the result is how many are new. The same agent, tool, program and
    arguments are one grant: it stays unchanged, or with `anew` is replaced by the one given now."""

    grants: tuple[StandingGrant, ...]
    anew: bool = False


class RevokeGrant(Op[StandingGrant | None], frozen=True):
    """Remove a standing grant; None if there is none."""

    grant_id: str

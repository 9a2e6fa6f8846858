"""What can go wrong between a client and its gateway.

    ClientError
    ├── GatewayDown     nobody answers there, or the connection was lost and did not come back
    │   └── NobodyListens   the connection was refused: no gateway runs at that address
    ├── CallRefused     the gateway answered no: `code`, the message, and `details`
    │   └── NotLetIn    already at the door: the token, the password or the device
    ├── WaitTimeout     the wait is over; what was begun goes on in the gateway
    ├── ReplyFailed     the run ended without a reply; `reply` has what there was of one
    └── BadAddress      the address, or which token belongs to it, cannot be used as given

Every error has a message for a person and, where something can be done, a `hint` that says what.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossclaw.client.replies import RunReply


class ClientError(Exception):
    """The root of this tree."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class GatewayDown(ClientError):
    """No gateway answers. `may_have_arrived`: a request was on its way, and its outcome is unknown."""

    def __init__(
        self, message: str, *, hint: str | None = None, may_have_arrived: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.may_have_arrived = may_have_arrived


class NobodyListens(GatewayDown):
    """The connection was refused: no gateway runs at that address."""


class CallRefused(ClientError):
    """The gateway refused. `code` is one of the protocol's, such as INVALID_REQUEST or FORBIDDEN."""

    def __init__(
        self, message: str, code: str = "", details: Any = None, *, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.details = details

    @property
    def is_forbidden(self) -> bool:
        """Whether another token, or a wider scope, would help."""
        return self.code in ("FORBIDDEN", "NOT_PAIRED") or str(self).startswith("missing scope")


class NotLetIn(CallRefused):
    """The gateway did not accept the token, the password or the device."""


class WaitTimeout(ClientError):
    """The wait is over, and only the wait: a run that was begun goes on in the gateway, its reply will be in
    the transcript, and `client.wait(run)` waits for it further."""

    def __init__(self, message: str, *, run_id: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.run_id = run_id


class ReplyFailed(ClientError):
    """The run ended without success; `reply` says how, and has the text that there was."""

    def __init__(self, reply: "RunReply") -> None:
        super().__init__(reply.error or f"the run ended: {reply.status}")
        self.reply = reply


class BadAddress(ClientError):
    """The address is invalid, or no token was given that may be sent there."""


@contextmanager
def plain_errors() -> Generator[None]:
    """Raises the first error inside of a task group, which wraps it: that is the one for a person."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first

"""All errors that callers and users see, as one tree with their wire codes.

CrossclawError                UNAVAILABLE       something failed inside; the text says what
├── Invalid                   INVALID_REQUEST   the caller asked for something that cannot be
│   ├── InvalidKey            INVALID_REQUEST   a text that is no session key
│   ├── ConfigInvalid         INVALID_REQUEST   openclaw.json needs fixing
│   ├── KeyReused             INVALID_REQUEST   an idempotency key came back with another payload
│   └── TooMuchFollows        INVALID_REQUEST   a send or a spawn beyond what one cause may bring about
│       ├── TooManyRuns       INVALID_REQUEST   … counted in runs
│       └── TooManyChildren   INVALID_REQUEST   … counted in sub-agents at work
├── NotFound                  INVALID_REQUEST   no such session, run, agent: also "not for you to see"
├── Forbidden                 FORBIDDEN         known and refused; names the setting that would allow it
│   └── CredentialEnded       FORBIDDEN         the credential that it was begun with was revoked or changed
├── Busy                      UNAVAILABLE       a limit is reached; the same call works later
├── Fenced                    UNAVAILABLE       a write by a run that no longer owns its work
│   └── TickTaken             UNAVAILABLE       this tick of a job was taken before
├── Stopped                   UNAVAILABLE       this part of the gateway is closed
├── StoreError                UNAVAILABLE       the ledger cannot be opened or written
│   ├── StoreDamaged          UNAVAILABLE       a row of it cannot be read; trying again does not help
│   ├── StoreFenced           UNAVAILABLE       this gateway has lost its place among those that share the ledger
│   ├── StoreFull             UNAVAILABLE       the disk has no room; the same works when it has
│   ├── StoreLocked           UNAVAILABLE       another gateway has this state folder
│   └── StoreTooNew           UNAVAILABLE       written by a newer Crossclaw
├── ProviderError             UNAVAILABLE       the model could not answer
│   ├── ProviderMissing       UNAVAILABLE       its package is not installed, or it is not configured
│   ├── ProviderRefused       UNAVAILABLE       key or request refused; trying again does not help
│   │   ├── KeyRefused        UNAVAILABLE       this key is wrong or has no credit; another one may work
│   │   ├── ThinkingRefused   UNAVAILABLE       the thinking that was sent back no longer fits its conversation
│   │   ├── LevelRefused      UNAVAILABLE       the model does not think as it was asked to
│   │   └── ModelDeclined     UNAVAILABLE       the model will not answer this; another one may
│   ├── ProviderOverloaded    UNAVAILABLE       rate limit or outage; trying later helps
│   │   └── RateLimited       UNAVAILABLE       this key has used up its share for now; another has its own
│   ├── AnswerCut             UNAVAILABLE       the limit of the answer cut it off where it is of no use
│   └── ContextOverflow       UNAVAILABLE       the input does not fit the model's window
├── TurnsExhausted            UNAVAILABLE       a run asked the model too often
├── OverBudget                UNAVAILABLE       what a run and all it belongs to may spend is spent
├── ToolFailed                UNAVAILABLE       a tool did not come to its end; the text has what there is
├── SandboxMissing            UNAVAILABLE       a sandbox is wanted and cannot be had; nothing runs without
├── ChannelDown               UNAVAILABLE       a chat platform cannot be reached now; trying later helps
│   └── ChatRefused           UNAVAILABLE       the platform answers, and does not show this one chat to us
├── AccountBroken             UNAVAILABLE       a chat account cannot work before a person has done something
├── MediaRefused              UNAVAILABLE       a file of a chat is too large, of the wrong kind or not to be had
└── DeliveryError             UNAVAILABLE       a channel did not take a message
    ├── PlatformUnreachable   UNAVAILABLE       the platform is not there, and nothing has left
    └── DeliveryUncertain     UNAVAILABLE       nobody knows whether it did

A text is written for its reader: it says what would work. `code` is what goes on the wire.
"""

from typing import ClassVar


class CrossclawError(Exception):
    code = "UNAVAILABLE"
    retryable = False

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


def first_of(error: Exception) -> Exception:
    """The first error inside of task groups, which wrap it."""
    return first_of(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error


class Invalid(CrossclawError):
    code = "INVALID_REQUEST"


class InvalidKey(Invalid):
    pass


class ConfigInvalid(Invalid):
    excerpt = ""
    """The line at fault with a mark below. Only for the terminal of somebody who may read the file: other
    things stand on that line too."""


class KeyReused(Invalid):
    pass


class TooMuchFollows(Invalid):
    pass


class TooManyRuns(TooMuchFollows):
    pass


class TooManyChildren(TooMuchFollows):
    pass


class NotFound(CrossclawError):
    code = "INVALID_REQUEST"


class Forbidden(CrossclawError):
    code = "FORBIDDEN"


class CredentialEnded(Forbidden):
    """The run may not go on: the credential that began it was revoked, removed or changed."""


class Busy(CrossclawError):
    retryable = True


class Fenced(CrossclawError):
    pass


class TickTaken(Fenced):
    pass


class Stopped(CrossclawError):
    retryable = True


class StoreError(CrossclawError):
    pass


class StoreDamaged(StoreError):
    """A row of the ledger cannot be read. Trying again does not help."""


class StoreFull(StoreError):
    pass


class StoreLocked(StoreError):
    pass


class StoreTooNew(StoreError):
    pass


class StoreFenced(StoreError):
    """This gateway has lost its place among those that share the ledger: nothing was stored."""

    retryable = True


class ProviderError(CrossclawError):
    in_short: ClassVar[str] = "failed"
    """A short form for the log, which holds no words of messages; the text itself may quote some."""


class ProviderMissing(ProviderError):
    in_short = "not set up"


class ProviderRefused(ProviderError):
    in_short = "request refused"
    place: str | None = None
    """The part of the request that the service has named, in its own spelling: `messages.3.content.1.image`."""
    part: object = None
    """The same part as it was sent."""


class KeyRefused(ProviderRefused):
    in_short = "key refused"


class ThinkingRefused(ProviderRefused):
    in_short = "thinking refused"


class LevelRefused(ProviderRefused):
    in_short = "thinking level refused"


class ModelDeclined(ProviderRefused):
    in_short = "declined to answer"


class AnswerCut(ProviderError):
    in_short = "answer cut off"


class ProviderOverloaded(ProviderError):
    in_short = "overloaded or away"
    retryable = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(ProviderOverloaded):
    in_short = "rate limit"


class ContextOverflow(ProviderError):
    in_short = "input too long"


class TurnsExhausted(CrossclawError):
    pass


class OverBudget(CrossclawError):
    pass


class ToolFailed(CrossclawError):
    pass


class SandboxMissing(CrossclawError):
    pass


class ChannelDown(CrossclawError):
    """The platform or the way to it is away. The account is started again, after `retry_after_s` if the
    platform said so."""

    retryable = True

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ChatRefused(ChannelDown):
    """A chat that we may not read, or that is gone. The account goes on without it: asking again brings the same."""


class AccountBroken(CrossclawError):
    """The account cannot work until a person acts: the token is wrong or was taken back, or something else.
    It stays off until its config changes or somebody starts it again."""


class MediaRefused(CrossclawError):
    pass


class DeliveryError(CrossclawError):
    """The channel refused a message. Its fields say what that means; with none of them it is never tried again."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after_s: float | None = None,
        stops_account: bool = False,
        chat_gone: bool = False,
        moved_to: str | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether the same message may be tried again."""
        self.retry_after_s = retry_after_s
        """The shortest time until the next attempt."""
        self.stops_account = stops_account
        """Whether all messages of this account would be refused as well: for `retry_after_s`, or (without)
        until a person has done something."""
        self.chat_gone = chat_gone
        """Whether the person or chat cannot be reached any more: blocked, left, deleted."""
        self.moved_to = moved_to
        """The chat's new id; the message is sent there."""


class PlatformUnreachable(DeliveryError):
    """Nothing has left, because the platform, or our connection to it, is not there. That says nothing of the
    message: it waits as for an account that is not open, and it does not count as an attempt."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class DeliveryUncertain(DeliveryError):
    """The outcome is unknown: the message may or may not be there (a connection cut after sending)."""


def is_of_the_ledger(error: BaseException, kind: type[StoreError] = StoreError) -> bool:
    """Whether an error of the ledger is among those that ended several tasks."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_of_the_ledger(each, kind) for each in error.exceptions)
    return isinstance(error, kind)

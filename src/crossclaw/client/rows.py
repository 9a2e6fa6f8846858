"""The gateway's answers as Python types. Fields that a newer gateway adds are ignored."""

from typing import Any, TypeVar

import msgspec

from crossclaw.client.errors import ClientError
from crossclaw.display.conversation import message_text

_Answer = TypeVar("_Answer")


class _Row(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pass


class SessionInfo(_Row, frozen=True, kw_only=True):
    """A session as `sessions.list` has it."""

    key: str
    session_id: str
    updated_at: int
    """The time of the last change, in milliseconds since 1970."""
    kind: str = "unknown"
    channel: str = "unknown"
    label: str | None = None
    display_name: str | None = None
    model: str | None = None
    total_tokens: int = 0
    spawned_by: str | None = None


class SpawnedChild(_Row, frozen=True, kw_only=True):
    """An accepted spawn. The child's report comes into its parent's transcript."""

    run_id: str
    child_session_key: str


class HistoryMessage(msgspec.Struct, frozen=True, kw_only=True):
    role: str
    content: Any
    """A text, or blocks such as `{"type": "text", "text": …}`."""
    timestamp: int | None = None

    @property
    def text(self) -> str:
        return message_text({"role": self.role, "content": self.content})


class EntryCursor(msgspec.Struct, frozen=True):
    """A place in a session's history: keep it, and `subscribe(after=…)` continues behind it."""

    session_id: str
    seq: int


class SessionEntry(_Row, frozen=True, kw_only=True):
    """One line of a transcript, as `sessions.entries` has it: a message, or a note of the gateway."""

    seq: int
    entry_id: str
    at: int
    type: str
    session_id: str
    run_id: str | None = None
    message: dict[str, Any] | None = None
    note: dict[str, Any] | None = None

    @property
    def cursor(self) -> EntryCursor:
        return EntryCursor(self.session_id, self.seq)

    @property
    def role(self) -> str:
        return str((self.message or {}).get("role") or "")

    @property
    def text(self) -> str:
        return message_text(self.message) if self.message else ""


def read_row(answer: Any, row: type[_Answer]) -> _Answer:
    """An answer as its type; a gateway that answers otherwise is not one that we understand."""
    try:
        return msgspec.convert(answer, row)
    except msgspec.ValidationError as error:
        raise ClientError(f"the gateway's answer is not as expected: {error}") from None

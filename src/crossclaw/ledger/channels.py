"""What chat channels keep in the ledger: operations of their own."""

import msgspec

from crossclaw.domain.authority import Authority
from crossclaw.domain.messages import UserBlock
from crossclaw.domain.runs import Run
from crossclaw.ledger.operations import Dedupe, NewDelivery, Op


class SaveCursor(Op[None], frozen=True):
    """How far an account has read of its platform. Saved after what was read is stored."""

    channel: str
    account_id: str
    name: str
    value: str
    at: int


class LearnFate(Op[bool], frozen=True):
    """The platform says what became of a message: later, or before it answers the one who sends it. One that is uncertain
    or being sent has arrived or not, whatever the answer says; one that was taken may still have failed on the way. Answers
    whether there was something to learn."""

    delivery_key: str
    arrived: bool
    at: int
    platform_id: str | None = None
    error: str | None = None


# ── who may talk ───────────────────────────────────────────────────────────────────────────────


class ChatPairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger who asks to talk to an account directly."""

    channel: str
    account_id: str
    sender: str
    code: str
    sender_name: str | None = None
    created_at: int
    last_seen_at: int
    expires_at: int


class PairedSender(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may write to an account directly."""

    channel: str
    account_id: str
    sender: str
    sender_name: str | None = None
    approved_at: int
    approved_by: str


class RequestPairing(Op[ChatPairingRequest | None], frozen=True):
    """Remember that somebody asks. Who has asked before and not in vain yet keeps the code; of a new one the
    deliveries go out: the answer to the stranger, and word to the owner. Where too many ask already, the oldest of
    before `gives_way_at` gives way; None: there is none so old."""

    request: ChatPairingRequest
    pending_max: int
    gives_way_at: int = 0
    deliveries: tuple[NewDelivery, ...] = ()


class DecidePairing(Op[ChatPairingRequest | None], frozen=True):
    """Approve or deny what was asked for, by its code. None: there is no such code, or it is too old."""

    channel: str
    code: str
    approve: bool
    at: int
    by: str
    account_id: str | None = None
    """Only of this account."""


class RemovePaired(Op[bool], frozen=True):
    """Somebody may not talk any more; False when that was so before. Sessions that were last written to from a direct chat with
    that person forget it: nothing that comes later goes there."""

    channel: str
    account_id: str
    sender: str
    chats: tuple[str, ...] = ()
    """How a direct chat with that person is spelled, beside those from which messages came."""
    forgets_chats: bool = True


# ── what was said in groups ────────────────────────────────────────────────────────────────────


class HeardMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a group that was not meant for us: context of the next one that is."""

    channel: str
    account_id: str
    chat: str
    thread_id: str = ""
    message_id: str
    sender: str
    sender_name: str | None = None
    text: str
    at: int


class RememberHeard(Op[None], frozen=True):
    """Keep it, and at most `keep` of its chat. One that was kept before is not kept again when its platform brings it again,
    though it was told to an agent meanwhile, changed or deleted; nor is one that was accepted."""

    heard: HeardMessage
    keep: int
    dedupe: Dedupe
    """The message, as it would have been accepted."""
    at: int


class ForgetHeard(Op[None], frozen=True):
    """They were told to an agent: in the step that accepts the message which they came before."""

    channel: str
    account_id: str
    chat: str
    thread_id: str
    message_ids: tuple[str, ...]


class ChangeHeard(Op[bool], frozen=True):
    """Its sender has changed or deleted a message that is remembered as context. False: it is not remembered, or was
    told to an agent before. `dedupe` is the change itself, which may come twice."""

    channel: str
    account_id: str
    chat: str
    message_id: str
    senders: tuple[str, ...]
    """All ids of the one who changes it: only who wrote it does."""
    text: str | None
    """None: it was deleted."""
    dedupe: Dedupe
    at: int


# ── messages that wait for their run ───────────────────────────────────────────────────────────


class EditWaiting(Op[str | None], frozen=True):
    """Put other words in the place of a message whose run has not begun. Answers the run, also when the same edit comes again;
    None: there is no such message, or it has entered a transcript (then the edit is a note)."""

    of: tuple[Dedupe, ...]
    """The message, as it was accepted; one for each id of its sender."""
    dedupe: Dedupe
    """The edit itself."""
    text: str
    files: tuple[UserBlock, ...] | None
    """What comes along now; None: the edit does not say, and what came along stays."""
    authority: Authority
    """What its sender may now: the run may do no more, and no more than before."""
    at: int


class WithdrawWaiting(Op[list[Run]], frozen=True):
    """A message whose run has not begun is deleted by its sender: its run ends, and its words are not kept. Answers
    the run; empty: there is none, or it has entered a transcript."""

    of: tuple[Dedupe, ...]
    dedupe: Dedupe
    at: int
    why: str

"""Operations on what chat channels store."""

import msgspec

from crossclaw.domain.authority import Authority
from crossclaw.domain.messages import UserBlock
from crossclaw.domain.runs import Run
from crossclaw.ledger.operations import Dedupe, NewDelivery, Op


class SaveCursor(Op[None], frozen=True):
    """Save how far an account has read of its platform, after what was read is stored."""

    channel: str
    account_id: str
    name: str
    value: str
    at: int


class LearnFate(Op[bool], frozen=True):
    """Store what the platform says became of a message: later, or even before it answers the
    sender. A message that is uncertain or being sent has then arrived or not, whatever the answer
    says; one that was accepted may still have failed on the way. The result is whether that was
    news."""

    delivery_key: str
    arrived: bool
    at: int
    platform_id: str | None = None
    error: str | None = None


# ── who may talk ───────────────────────────────────────────────────────────────────────────────


class ChatPairingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A stranger's request to talk to an account directly."""

    channel: str
    account_id: str
    sender: str
    code: str
    sender_name: str | None = None
    created_at: int
    last_seen_at: int
    expires_at: int


class PairedSender(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may write to an account directly."""

    channel: str
    account_id: str
    sender: str
    sender_name: str | None = None
    approved_at: int
    approved_by: str


class RequestPairing(Op[ChatPairingRequest | None], frozen=True):
    """Store a request for pairing. Who asks again while the request is open keeps the code; only
    for a new one the deliveries go out: the answer to the stranger, and a message to the owner. If
    too many are open, the oldest from before `gives_way_at` is removed; None if none is that
    old."""

    request: ChatPairingRequest
    pending_max: int
    gives_way_at: int = 0
    deliveries: tuple[NewDelivery, ...] = ()


class DecidePairing(Op[ChatPairingRequest | None], frozen=True):
    """Approve or deny a request by its code. None if there is no such code, or it has expired."""

    channel: str
    code: str
    approve: bool
    at: int
    by: str
    account_id: str | None = None
    """The account whose requests are meant; None: any."""


class RemovePaired(Op[bool], frozen=True):
    """Remove a paired sender; False if there was none. Sessions that were last written to from a
    direct chat with that person forget it: nothing that comes later goes there."""

    channel: str
    account_id: str
    sender: str
    chats: tuple[str, ...] = ()
    """Names of a direct chat with that person, in addition to those from which messages came."""
    forgets_chats: bool = True


# ── what was said in groups ────────────────────────────────────────────────────────────────────


class HeardMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A group message that was not meant for the agent, kept as context for the next one that
    is."""

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
    """Keep a group message, and at most `keep` of its chat. One that was kept before is not kept
    again when its platform sends it again, even if it was shown to an agent, changed or deleted
    meanwhile; nor is one that was accepted."""

    heard: HeardMessage
    keep: int
    dedupe: Dedupe
    """The key of the message if it were accepted."""
    at: int


class ForgetHeard(Op[None], frozen=True):
    """Remove group messages that were shown to an agent, in the step that accepts the message which
    they came before."""

    channel: str
    account_id: str
    chat: str
    thread_id: str
    message_ids: tuple[str, ...]


class ChangeHeard(Op[bool], frozen=True):
    """Change or delete a group message that is kept as context, because its sender did. False if it
    is not kept, or was shown to an agent before. `dedupe` is the change itself, which may come
    twice."""

    channel: str
    account_id: str
    chat: str
    message_id: str
    senders: tuple[str, ...]
    """All ids of whoever changes it: only its sender may."""
    text: str | None
    """The new text; None if it was deleted."""
    dedupe: Dedupe
    at: int


# ── messages that wait for their run ───────────────────────────────────────────────────────────


class EditWaiting(Op[str | None], frozen=True):
    """Replace the text of a message whose run has not begun. The result is the run, also when the
    same edit comes again; None if there is no such message, or it has entered a transcript (then
    the edit is a note)."""

    of: tuple[Dedupe, ...]
    """The keys of the accepted message, one for each id of its sender."""
    dedupe: Dedupe
    """The key of the edit itself."""
    text: str
    files: tuple[UserBlock, ...] | None
    """The files with it now; None if the edit does not say, and the files stay."""
    authority: Authority
    """The sender's rights now: the run gets no more than these, and no more than before."""
    at: int


class WithdrawWaiting(Op[list[Run]], frozen=True):
    """Delete a message whose run has not begun, because its sender did: its run ends, and its text
    is not kept. The result is the run; empty if there is none, or it has entered a transcript."""

    of: tuple[Dedupe, ...]
    dedupe: Dedupe
    at: int
    why: str

"""Addresses: where a reply goes."""

import msgspec

from crossclaw.domain.messages import UserBlock


class Address(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One chat on one account of one channel; on the wire it is called deliveryContext."""

    channel: str
    to: str
    account_id: str | None = None
    thread_id: str | None = None
    named: bool = False
    """Somebody named it; what came from a chat says what kind of chat it is, a name may not."""

    @property
    def chat(self) -> "Address":
        """The same chat has the same one, however its address came about."""
        return msgspec.structs.replace(self, named=False) if self.named else self


class Inbound(msgspec.Struct, frozen=True, kw_only=True):
    """A message that arrived on a channel and is not yet in a session."""

    address: Address
    sender: str
    text: str
    message_id: str
    """The platform's own id: the same message twice is stored once."""
    chat_type: str = "direct"
    chat_name: str | None = None
    chat_id: str | None = None
    """The group's id, when it is a group."""
    sender_name: str | None = None
    attachments: tuple[UserBlock, ...] = ()
    """Beside the text: what a model can look at."""

    @property
    def dedupe_key(self) -> str:
        where = self.address
        parts = (where.channel, where.account_id or "", where.to, self.sender, self.message_id)
        return "\x1f".join(parts)

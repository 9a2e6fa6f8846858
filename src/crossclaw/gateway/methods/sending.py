"""send: a message to a chat."""

from crossclaw.domain.aliases import Filled
from crossclaw.door.registry import Caller, Params, Result, method
from crossclaw.gateway.methods.chat import RequestKey
from crossclaw.sessions.outgoing import OutgoingMessage, OutgoingMessages


class MessageSendParams(Params, frozen=True):
    to: Filled
    idempotency_key: RequestKey
    message: str = ""
    channel: str | None = None
    account_id: str | None = None
    thread_id: str | None = None
    session_key: str | None = None
    media_url: str | None = None
    media_urls: list[str] | None = None
    gif_playback: bool | None = None

    def as_outgoing(self) -> OutgoingMessage:
        return OutgoingMessage(
            request_id=self.idempotency_key,
            to=self.to,
            text=self.message,
            channel=self.channel,
            account_id=self.account_id,
            thread_id=self.thread_id,
            session_key=self.session_key,
            media_urls=[*filter(None, [self.media_url]), *(self.media_urls or [])],
        )


class MessageSendResult(Result, frozen=True):
    run_id: str
    message_id: str
    channel: str


class Sending:
    def __init__(self, outgoing: OutgoingMessages) -> None:
        self._outgoing = outgoing

    @method(
        "send",
        "operator.write",
        "change",
        "Send a message to a chat of a channel, through the outbox.",
    )
    async def send(self, caller: Caller, params: MessageSendParams) -> MessageSendResult:
        sent = await self._outgoing.send(caller.principal, params.as_outgoing())
        return MessageSendResult(
            run_id=params.idempotency_key, message_id=sent.delivery_key, channel=sent.channel
        )

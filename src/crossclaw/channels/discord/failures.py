"""What a refusal of Discord means, by its number: never by its words.

Codes from https://discord.com/developers/docs/topics/opcodes-and-status-codes (August 2026).
"""

import msgspec

from crossclaw.channels.discord.payloads import DiscordError
from crossclaw.channels.http import HttpAnswer, seconds_in
from crossclaw.domain.errors import ChannelDown, ChatRefused, DeliveryError, DeliveryUncertain

AGAIN_LATER = {
    20016,  # slow mode of the channel
    20028,  # write limit of the channel
    20029,  # write limit of the server
    40003,  # direct messages are opened too fast
    40004,  # sending is switched off for a while
    40006,  # switched off for a while
    40062,  # the service is limited
    130000,  # overloaded
}
GONE = {
    10003: "there is no such channel",
    10004: "there is no such server",
    10013: "there is no such user",
    40007: "the user is banned there",
    50001: "the bot may not see this channel",
    50007: "this person takes no direct messages from the bot",
    50009: "the channel asks for more verification than the bot has",
    50013: "the bot may not write in this channel",
    50083: "the thread is archived",
    50278: "the bot and this person share no server",
    160005: "the thread is locked",
}
TOKEN_REFUSED = {40001, 50014}


def error_in(answer: HttpAnswer) -> DiscordError:
    """The error in an answer. One that is not Discord's (a proxy's page) has only its status."""
    try:
        return msgspec.json.decode(answer.body, type=DiscordError)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return DiscordError(message=f"status {answer.status}")


def is_token_refused(answer: HttpAnswer) -> bool:
    return answer.status == 401 or error_in(answer).code in TOKEN_REFUSED


def delivery_error(answer: HttpAnswer) -> DeliveryError:
    error = error_in(answer)
    words = f"Discord refused: {error.message or 'no reason given'} ({error.code or answer.status})"
    if answer.status == 429 or error.code in AGAIN_LATER:
        wait_s = seconds_in(error.retry_after)
        wait_s = answer.retry_after_s if wait_s is None else wait_s
        return DeliveryError(
            words, retryable=True, retry_after_s=wait_s, stops_account=_is_global(answer, error)
        )
    if answer.status >= 500:
        return DeliveryUncertain(f"Discord failed with status {answer.status}")
    if is_token_refused(answer):
        return DeliveryError(f"{words}: the token is not valid any more", stops_account=True)
    if why := GONE.get(error.code):
        return DeliveryError(f"{words}: {why}", chat_gone=True)
    return DeliveryError(words)


def asking_error(answer: HttpAnswer) -> ChannelDown:
    """The error for a request without an effect that people see. A refusal has a number of Discord's; a page
    of a proxy has none, and says nothing of the chat."""
    error = error_in(answer)
    words = f"Discord refused: {error.message} ({error.code or answer.status})"
    is_refusal = 400 <= answer.status < 500 and answer.status not in (408, 429)
    if is_refusal and error.code and error.code not in AGAIN_LATER:
        return ChatRefused(words)
    wait_s = seconds_in(error.retry_after)
    return ChannelDown(words, answer.retry_after_s if wait_s is None else wait_s)


def _is_global(answer: HttpAnswer, error: DiscordError) -> bool:
    return error.global_ or answer.headers.get("x-ratelimit-scope") == "global"

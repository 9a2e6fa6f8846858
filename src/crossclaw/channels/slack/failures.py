"""What a refusal of Slack means, by its code. Slack answers most of them with status 200 and `ok: false`.

Codes from https://docs.slack.dev/reference/methods/chat.postMessage and the lists of errors of every method, October 2026.
"""

from typing import Any

from crossclaw.channels.http import HttpAnswer
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    ChatRefused,
    DeliveryError,
    DeliveryUncertain,
)

AGAIN_LATER = {"ratelimited", "rate_limited", "message_limit_exceeded"}
NOBODY_KNOWS = {"internal_error", "fatal_error", "service_unavailable", "request_timeout"}
GONE = {
    "channel_not_found": "there is no such channel, or the app is not in it",
    "not_in_channel": "the app is not in this channel: invite it with /invite",
    "is_archived": "the channel is archived",
    "cannot_dm_bot": "bots cannot write to bots",
    "user_disabled": "the account of this person is deactivated",
    "user_not_found": "there is no such user",
    "users_not_found": "there is no such user",
    "restricted_action": "the workspace does not allow it in this channel",
    "restricted_action_read_only_channel": "the channel is read-only",
    "messages_tab_disabled": "the app's Messages tab is off: switch it on at its page App Home",
    "thread_not_found": "the thread is gone",
}
ACCOUNT = {
    "invalid_auth",
    "not_authed",
    "token_revoked",
    "token_expired",
    "account_inactive",
    "missing_scope",
    "org_login_required",
    "access_denied",
    "not_allowed_token_type",
    "no_permission",
    "ekm_access_denied",
    "team_access_not_granted",
}


def answer_in(answer: HttpAnswer) -> dict[str, Any]:
    found = answer.json()
    return found if isinstance(found, dict) else {}


def error_in(answer: HttpAnswer) -> str | None:
    """The error in an answer; None: it went well. An answer that is not Slack's has only its status."""
    found = answer_in(answer)
    if answer.is_ok and found.get("ok") is True:
        return None
    if answer.status == 429:
        return "ratelimited"
    return str(found.get("error") or f"status {answer.status}")


def _words(error: str, answer: HttpAnswer) -> str:
    needed = answer_in(answer).get("needed")
    scope = f"; the app needs the scope {needed}" if error == "missing_scope" and needed else ""
    why = f": {GONE[error]}" if error in GONE else ""
    return f"Slack refused: {error}{why}{scope}"


def delivery_error(error: str, answer: HttpAnswer) -> DeliveryError:
    words = _words(error, answer)
    if error in AGAIN_LATER:
        return DeliveryError(words, retryable=True, retry_after_s=answer.retry_after_s)
    if answer.status >= 500 or error in NOBODY_KNOWS:
        return DeliveryUncertain(f"Slack failed: {error}")
    if error in ACCOUNT:
        return DeliveryError(words, stops_account=True)
    return DeliveryError(words, chat_gone=error in GONE)


def asking_error(error: str, answer: HttpAnswer) -> AccountBroken | ChannelDown:
    """The error for a request without an effect that people see."""
    words = _words(error, answer)
    if error in ACCOUNT:
        return AccountBroken(f"{words}. Copy the tokens anew from https://api.slack.com/apps")
    is_known = "error" in answer_in(answer) and answer.status < 500
    if is_known and error not in AGAIN_LATER | NOBODY_KNOWS:
        return ChatRefused(words)
    return ChannelDown(words, answer.retry_after_s)

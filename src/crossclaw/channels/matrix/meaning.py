"""The meaning of a homeserver's refusal: for a message that goes out, and for the account. Decided by status
and code, never by the words beside them."""

from crossclaw.channels.matrix.client import MatrixRefusal
from crossclaw.domain.errors import (
    AccountBroken,
    ChannelDown,
    CrossclawError,
    DeliveryError,
    DeliveryUncertain,
)

BROKEN = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_SUSPENDED")


def of_delivery(refusal: MatrixRefusal) -> DeliveryError:
    if refusal.status == 429:
        return DeliveryError(
            str(refusal), retryable=True, retry_after_s=refusal.retry_after_s or 1.0
        )
    if refusal.status == 401 or refusal.errcode in BROKEN:
        return DeliveryError(str(refusal), retryable=refusal.soft, stops_account=True)
    if refusal.status >= 500:
        return DeliveryUncertain(str(refusal))  # tried again: the same key is shown once
    return DeliveryError(str(refusal), chat_gone=refusal.status in (403, 404))


def of_account(refusal: MatrixRefusal, *, may_log_in: bool) -> CrossclawError:
    if refusal.status == 401 or refusal.errcode in BROKEN:
        if may_log_in or refusal.soft:
            return ChannelDown(str(refusal))
        return AccountBroken(f"{refusal}; a new access token is needed")
    if refusal.status == 403:
        return AccountBroken(str(refusal))
    return ChannelDown(str(refusal), refusal.retry_after_s)

"""The meaning of signal-cli's refusals for a message. Decided by numbers and kinds, never by words."""

from typing import Any

from crossclaw.channels.signal.client import SignalRefusal
from crossclaw.domain.errors import DeliveryError, DeliveryUncertain

IO, UNTRUSTED, RATE_LIMITED, BAD_PARAMETER = -3, -4, -5, -32602
RATE_LIMIT_S = 60.0  # Signal does not always say how long


def of_refusal(refusal: SignalRefusal) -> DeliveryError:
    kinds, wait_s = _results(refusal.data)
    if refusal.number == RATE_LIMITED or "RATE_LIMIT_FAILURE" in kinds:
        return DeliveryError(str(refusal), retryable=True, retry_after_s=wait_s or RATE_LIMIT_S)
    if "UNREGISTERED_FAILURE" in kinds or "IDENTITY_FAILURE" in kinds:
        return DeliveryError(str(refusal), chat_gone=True)
    if refusal.number == UNTRUSTED:
        return DeliveryError(str(refusal), chat_gone=True)
    if refusal.number == IO or "NETWORK_FAILURE" in kinds:
        return DeliveryUncertain(
            str(refusal)
        )  # it was on its way to Signal, and Signal has no keys of ours
    return DeliveryError(str(refusal))


def _results(data: Any) -> tuple[set[str], float | None]:
    """The kinds of failure, one for each recipient, and the longest wait among them."""
    response = data.get("response") if isinstance(data, dict) else None
    results = response.get("results") if isinstance(response, dict) else None
    found = (
        [each for each in results if isinstance(each, dict)] if isinstance(results, list) else []
    )
    waits = [each.get("retryAfterSeconds") for each in found]
    seconds = [float(wait) for wait in waits if isinstance(wait, (int, float))]
    return {str(each.get("type")) for each in found}, max(seconds, default=None)

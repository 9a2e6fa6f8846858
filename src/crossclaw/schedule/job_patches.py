"""Job patches: some fields of a job, and what it becomes by them. What a patch leaves out stays as it is."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Filled, Positive
from crossclaw.domain.errors import Invalid
from crossclaw.domain.jobs import (
    AgentTurn,
    Job,
    JobDelivery,
    JobSchedule,
    Payload,
    SessionTarget,
    SystemEvent,
    WakeMode,
)
from crossclaw.door.registry import Params


class SystemEventPatch(Params, frozen=True, tag_field="kind", tag="systemEvent"):
    text: Filled | UnsetType = UNSET


class AgentTurnPatch(Params, frozen=True, tag_field="kind", tag="agentTurn"):
    message: Filled | UnsetType = UNSET
    model: str | UnsetType | None = UNSET
    thinking: ThinkingLevel | UnsetType | None = UNSET
    timeout_seconds: Positive | UnsetType | None = UNSET
    allow_unsafe_external_content: bool | UnsetType | None = UNSET
    deliver: bool | UnsetType | None = UNSET
    channel: str | UnsetType | None = UNSET
    to: str | UnsetType | None = UNSET
    best_effort_deliver: bool | UnsetType | None = UNSET


class DeliveryPatch(Params, frozen=True):
    mode: Literal["none", "announce"] | UnsetType = UNSET
    channel: Filled | UnsetType | None = UNSET
    to: str | UnsetType | None = UNSET
    account_id: Filled | UnsetType | None = UNSET
    thread_id: str | int | UnsetType | None = UNSET
    best_effort: bool | UnsetType | None = UNSET


class JobPatch(Params, frozen=True):
    name: Filled | UnsetType = UNSET
    agent_id: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    delete_after_run: bool | UnsetType | None = UNSET
    schedule: JobSchedule | UnsetType = UNSET
    session_target: SessionTarget | UnsetType = UNSET
    wake_mode: WakeMode | UnsetType = UNSET
    payload: SystemEventPatch | AgentTurnPatch | UnsetType = UNSET
    delivery: DeliveryPatch | UnsetType = UNSET


def patched_fields(job: Job, patch: JobPatch) -> dict[str, Any]:
    """The fields of its spec that change, and `enabled`."""
    changes = _given(patch)
    if isinstance(patch.payload, SystemEventPatch | AgentTurnPatch):
        changes["payload"] = _patched_payload(job, patch.payload)
    if isinstance(patch.delivery, DeliveryPatch):
        before = job.spec.delivery or JobDelivery(mode="announce")
        changes["delivery"] = msgspec.structs.replace(before, **_given(patch.delivery))
    elif patch.session_target == "main":
        changes["delivery"] = None
    return changes


def _given(patch: msgspec.Struct) -> dict[str, Any]:
    return {name: v for name, v in msgspec.structs.asdict(patch).items() if v is not UNSET}


def _patched_payload(job: Job, patch: SystemEventPatch | AgentTurnPatch) -> Payload:
    kind = SystemEvent if isinstance(patch, SystemEventPatch) else AgentTurn
    if isinstance(job.spec.payload, kind):
        return msgspec.structs.replace(job.spec.payload, **_given(patch))
    try:
        return kind(**_given(patch))
    except TypeError:
        needed = "text" if kind is SystemEvent else "message"
        raise Invalid(f"cron.update: another payload.kind needs payload.{needed} as well") from None

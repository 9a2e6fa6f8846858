"""The payloads of events and of hello-ok as types: what clients are promised, exported by
`crossclaw protocol schema`.

Events are written where they happen, as plain objects for speed; a test holds what is really sent
against these types.
"""

from typing import Any, Literal

import msgspec

from crossclaw.domain.events import HeartbeatNews, JobNews


class EventPayload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A closed object with OpenClaw's names."""


class Server(EventPayload, frozen=True):
    version: str
    conn_id: str


class Features(EventPayload, frozen=True):
    methods: list[str]
    events: list[str]
    capabilities: list[str] | None = None


class SessionDefaults(EventPayload, frozen=True):
    default_agent_id: str
    main_key: str
    main_session_key: str
    scope: str


class StateVersion(EventPayload, frozen=True):
    presence: int
    health: int


class Snapshot(EventPayload, frozen=True):
    presence: list[dict[str, Any]]
    health: dict[str, Any]
    state_version: StateVersion
    uptime_ms: int
    session_defaults: SessionDefaults


class Granted(EventPayload, frozen=True):
    role: str
    scopes: list[str]
    method: str | None = None
    device_token: str | None = None
    issued_at_ms: int | None = None


class ConnectionPolicy(EventPayload, frozen=True):
    max_payload: int
    max_buffered_bytes: int
    tick_interval_ms: int


class HelloOk(EventPayload, frozen=True):
    """The answer to `connect`. `auth` comes on protocol 4, and on 3 with a device's new token."""

    type: Literal["hello-ok"]
    protocol: int
    server: Server
    features: Features
    snapshot: Snapshot
    policy: ConnectionPolicy
    auth: Granted | None = None


class Challenge(EventPayload, frozen=True):
    nonce: str
    ts: int


class AgentEvent(EventPayload, frozen=True):
    """`data` by `stream`: lifecycle `{phase: start | end | error}`, assistant `{text, delta}` with the
    text so far, tool (for clients with the cap `tool-events`) `{phase: start | update | result, name,
    toolCallId}`, compaction `{phase}`, model `{phase: retry | fallback}`."""

    run_id: str
    seq: int
    stream: Literal["lifecycle", "assistant", "tool", "compaction", "model"]
    ts: int
    data: dict[str, Any]
    session_key: str


class ChatEvent(EventPayload, frozen=True):
    """`message` is the text so far; `deltaText` (protocol 4) the new piece, or all with `replace`."""

    run_id: str
    session_key: str
    seq: int
    state: Literal["delta", "final", "aborted", "error"]
    message: dict[str, Any] | None = None
    delta_text: str | None = None
    replace: bool | None = None
    error_message: str | None = None
    stop_reason: str | None = None


class SessionMessage(EventPayload, frozen=True):
    session_key: str
    agent_id: str
    message: dict[str, Any]
    message_id: str
    message_seq: int
    seq: int
    run_id: str | None = None


class SessionsChanged(EventPayload, frozen=True):
    session_key: str
    agent_id: str
    reason: str
    ts: int


class PresenceEvent(EventPayload, frozen=True):
    presence: list[dict[str, Any]]


class TickEvent(EventPayload, frozen=True):
    ts: int


class NodeRequest(EventPayload, frozen=True):
    id: str
    node_id: str
    command: str
    timeout_ms: int
    idempotency_key: str
    params_json: str | None = msgspec.field(default=None, name="paramsJSON")


class PairRequested(EventPayload, frozen=True):
    request_id: str
    device_id: str
    public_key: str
    role: str
    roles: list[str]
    scopes: list[str]
    ts: int
    display_name: str | None = None
    platform: str | None = None
    device_family: str | None = None
    client_id: str | None = None
    client_mode: str | None = None
    remote_ip: str | None = None


class PairResolved(EventPayload, frozen=True):
    request_id: str
    device_id: str
    decision: Literal["approved", "rejected"]
    ts: int


class ApprovalRequested(EventPayload, frozen=True):
    """`request` says what is to be run: `command`, `commandArgv` where it is one program, `cwd`, `agentId`,
    `sessionKey`, `allowedDecisions`, and more."""

    id: str
    request: dict[str, Any]
    created_at_ms: int
    expires_at_ms: int
    approval_kind: str


class ApprovalResolved(EventPayload, frozen=True):
    """`decision` is the result; `outcome` distinguishes a denial from no answer in time and from a run that ended."""

    id: str
    decision: Literal["allow-once", "allow-always", "deny"]
    outcome: str
    request: dict[str, Any]
    resolved_by: str | None = None
    ts: int | None = None


class Shutdown(EventPayload, frozen=True):
    reason: str


EVENT_TYPES: dict[str, tuple[Any, str]] = {
    "connect.challenge": (Challenge, "The first thing on a connection: what a device signs."),
    "agent": (AgentEvent, "Something happened in a run."),
    "chat": (ChatEvent, "The reply of a run, as it grows and when it is whole."),
    "session.message": (SessionMessage, "A message entered a transcript."),
    "sessions.changed": (SessionsChanged, "A session is not as it was."),
    "presence": (PresenceEvent, "Who is connected."),
    "tick": (TickEvent, "The gateway lives."),
    "health": (dict[str, Any], "How the gateway is; the answer of the method `health`."),
    "cron": (JobNews, "Something happened to a job."),
    "heartbeat": (HeartbeatNews, "An agent looked around, or did not."),
    "node.invoke.request": (NodeRequest, "A node is asked to do something."),
    "device.pair.requested": (PairRequested, "A device wants to come in."),
    "device.pair.resolved": (PairResolved, "It was decided about."),
    "exec.approval.requested": (
        ApprovalRequested,
        "A call waits for a person's yes; for those who may answer.",
    ),
    "exec.approval.resolved": (ApprovalResolved, "It was answered, or is over."),
    "shutdown": (Shutdown, "The gateway closes."),
}

"""Hooks: programs elsewhere that may send something to an agent over HTTP."""

from typing import Literal

from crossclaw.config.section import Section, names
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.aliases import Positive
from crossclaw.domain.jobs import WakeMode
from crossclaw.domain.secret import Secret


class HookMatch(Section, frozen=True):
    path: str | None = None
    """The path below `hooks.path`."""
    source: str | None = None
    """A value that the body's own `source` must have."""


class HookTransform(Section, frozen=True):
    """A module of Node.js, which cannot run here: requests to its mapping are refused."""

    module: str
    """The module; it is not run."""
    export: str | None = None
    """The module's export; it is not run."""
    local = names("module export")


class HookMapping(Section, frozen=True):
    """A path below the hooks' own, and what its body becomes. Texts may hold `{{payload.field}}`."""

    id: str | None = None
    """A name for the mapping."""
    match: HookMatch = HookMatch()
    """Which requests it is for."""
    action: Literal["wake", "agent"] = "agent"
    """`agent`: a run; `wake`: words for the main session."""
    wake_mode: WakeMode = "now"
    """Whether the words are read at once or by the next run."""
    name: str | None = None
    """The name of the sender in the message."""
    agent_id: str | None = None
    """The agent that answers."""
    session_key: str | None = None
    """The session of the run. Without `{{…}}` it holds as it is; with it, it must begin with `hook:` or is
    checked like a request's own."""
    message_template: str | None = None
    """The message, for `agent`."""
    text_template: str | None = None
    """The text of the notice, for `wake`."""
    deliver: bool | None = None
    """Whether the reply goes to a chat."""
    allow_unsafe_external_content: bool | None = None
    """No effect: what comes from elsewhere is always fenced."""
    channel: str | None = None
    """The channel of that chat."""
    to: str | None = None
    """The chat."""
    account_id: str | None = None
    """The account that posts it; OpenClaw does not know this key."""
    thread_id: str | None = None
    """The thread or topic of the chat; OpenClaw does not know this key."""
    model: str | None = None
    """The model of the run."""
    thinking: ThinkingLevel | None = None
    """How much the model thinks."""
    timeout_seconds: Positive | None = None
    """How long the run may take."""
    transform: HookTransform | None = None
    """A module of Node.js. It cannot run here, so requests to its mapping are refused (501), and the start says so."""
    idle = names("allowUnsafeExternalContent")
    unused = names("comment")


class HooksConfig(Section, frozen=True):
    enabled: bool = False
    """Whether hooks are served."""
    token: Secret | None = None
    """The hooks' own secret, other than the gateway's."""
    path: str = "/hooks"
    """The path at which hooks are served."""
    max_body_bytes: Positive = 262_144
    """The largest request."""
    default_session_key: str | None = None
    """The session of requests that name none."""
    allow_request_session_key: bool = False
    """Whether a request, or what a mapping takes out of it, may name its session."""
    allowed_session_key_prefixes: tuple[str, ...] = ()
    """How such a name must begin."""
    allowed_agent_ids: tuple[str, ...] | None = None
    """Which agents may be asked; unset: all."""
    mappings: tuple[HookMapping, ...] = ()
    """Further paths, and what their bodies become; the first that fits counts."""
    presets: tuple[str, ...] = ()
    """Mappings that come with the gateway: `gmail`."""
    local = names("transformsDir")
    unused = names("transformsDir gmail internal")

    @property
    def base_path(self) -> str:
        return "/" + self.path.strip("/ ")

    def all_mappings(self) -> tuple[HookMapping, ...]:
        return self.mappings + tuple(PRESETS[name] for name in self.presets if name in PRESETS)


PRESETS = {
    "gmail": HookMapping(
        id="gmail",
        match=HookMatch(path="gmail"),
        name="Gmail",
        session_key="hook:gmail:{{messages[0].id}}",
        message_template="A mail from {{messages[0].from}}: {{messages[0].subject}}\n"
        "{{messages[0].snippet}}\n{{messages[0].body}}",
    )
}

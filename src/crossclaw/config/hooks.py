"""Hooks: programs elsewhere that may say something to an agent over HTTP."""

from typing import Literal

from crossclaw.config.section import Positive, Section, names
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.jobs import WakeMode
from crossclaw.domain.secret import Secret


class HookMatch(Section, frozen=True):
    path: str | None = None
    source: str | None = None
    """Equal to the body's own `source`."""


class HookTransform(Section, frozen=True):
    """A module of Node.js. It is read so that it can be refused by name."""

    module: str
    export: str | None = None


class HookMapping(Section, frozen=True):
    """A path below the hooks' own, and what its body becomes. Texts may hold `{{payload.field}}`."""

    id: str | None = None
    match: HookMatch = HookMatch()
    action: Literal["wake", "agent"] = "agent"
    wake_mode: WakeMode = "now"
    name: str | None = None
    agent_id: str | None = None
    session_key: str | None = None
    message_template: str | None = None
    text_template: str | None = None
    deliver: bool | None = None
    allow_unsafe_external_content: bool | None = None
    channel: str | None = None
    to: str | None = None
    model: str | None = None
    thinking: ThinkingLevel | None = None
    timeout_seconds: Positive | None = None
    transform: HookTransform | None = None
    unused = names("comment")


class Hooks(Section, frozen=True):
    enabled: bool = False
    token: Secret | None = None
    path: str = "/hooks"
    max_body_bytes: Positive = 262_144
    default_session_key: str | None = None
    allow_request_session_key: bool = True
    allowed_session_key_prefixes: tuple[str, ...] = ()
    allowed_agent_ids: tuple[str, ...] | None = None
    mappings: tuple[HookMapping, ...] = ()
    presets: tuple[str, ...] = ()
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

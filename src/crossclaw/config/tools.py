"""Tools: which ones an agent gets, and whom the session tools may reach."""

from typing import Annotated, Literal

import msgspec

from crossclaw.config.section import Loose, Positive, Section, names

HISTORY_BYTES = 80 * 1024  # to a model: about 20,000 tokens
HISTORY_BYTES_MIN = 4 * 1024  # below, hardly a message fits

Profile = Literal["minimal", "coding", "messaging", "full"]
Visibility = Literal["self", "tree", "agent", "all"]

_FOREIGN_TOOLS = names("toolsBySender codeMode swarm loopDetection message elevated")


class ToolPolicy(Section, frozen=True):
    """`allow`, when given, is the whole list; `deny` is taken away from it."""

    allow: tuple[str, ...] | None = None
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    profile: Profile | None = None


class AgentToAgent(Section, frozen=True):
    enabled: bool = True
    allow: tuple[str, ...] = ("*",)


class SessionTools(Section, frozen=True):
    visibility: Visibility = "all"
    history_bytes: Annotated[int, msgspec.Meta(ge=HISTORY_BYTES_MIN)] = HISTORY_BYTES
    """How much sessions_history answers at once."""


class SubagentTools(Section, frozen=True):
    tools: ToolPolicy = ToolPolicy()
    unused = names("model")


class SandboxTools(Section, frozen=True):
    """What a sandboxed session gets, beyond the other policies."""

    tools: ToolPolicy = ToolPolicy()


class ExecTool(Section, frozen=True):
    """`host: sandbox` keeps commands in the sandbox: a session without one cannot run any."""

    host: Literal["auto", "sandbox", "gateway", "node"] | None = None
    security: Literal["deny", "allowlist", "full"] | None = None
    ask: Literal["off", "on-miss", "always"] | None = None
    mode: Literal["deny", "allowlist", "ask", "auto", "full"] | None = None
    """The newer spelling of `security` and `ask` together."""
    timeout_sec: Positive | None = None
    pass_env: tuple[str, ...] | None = None
    """Variables of the gateway that commands get beside the harmless ones."""
    unused = names(
        "node backgroundMs cleanupMs notifyOnExit notifyOnExitEmptySuccess applyPatch pathPrepend"
        " safeBins safeBinTrustedDirs safeBinProfiles strictInlineEval approvalRunningNoticeMs"
    )


class WebFetchTool(Section, frozen=True):
    enabled: bool = True
    max_chars: Positive = 50_000
    timeout_seconds: Positive = 30
    max_redirects: Positive = 5
    unused = names(
        "maxCharsCap maxResponseBytes cacheTtlMinutes userAgent readability firecrawl provider"
        " ssrfPolicy useTrustedEnvProxy"
    )


class WebTools(Section, frozen=True):
    fetch: WebFetchTool = WebFetchTool()
    search: Loose = msgspec.field(default_factory=Loose)


class AgentTools(Section, frozen=True):
    profile: Profile | None = None
    allow: tuple[str, ...] | None = None
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    by_provider: dict[str, ToolPolicy] = msgspec.field(default_factory=dict)
    exec: ExecTool = ExecTool()
    sandbox: SandboxTools = SandboxTools()
    fs: Loose = msgspec.field(default_factory=Loose)
    unused = _FOREIGN_TOOLS


class Tools(AgentTools, frozen=True):
    agent_to_agent: AgentToAgent = AgentToAgent()
    sessions: SessionTools = SessionTools()
    subagents: SubagentTools = SubagentTools()
    web: WebTools = WebTools()
    unused = _FOREIGN_TOOLS | names(
        "media links toolSearch sessions_spawn sessionsSpawn bash experimental"
    )

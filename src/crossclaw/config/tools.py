"""Tools: which ones an agent gets, and which sessions the session tools may reach."""

from typing import Annotated, Literal

import msgspec

from crossclaw.config.media import MediaTools
from crossclaw.config.section import Loose, Section, names
from crossclaw.domain.aliases import Positive
from crossclaw.domain.approvals import AskMode, ExecRule, Security

HISTORY_BYTES = 80 * 1024  # to a model: about 20,000 tokens
HISTORY_BYTES_MIN = 4 * 1024  # below, hardly a message fits

ToolProfile = Literal["minimal", "coding", "messaging", "full"]
Visibility = Literal["self", "tree", "agent", "all"]

MODES = {
    "deny": ExecRule("deny", "off"),
    "allowlist": ExecRule("allowlist", "off"),
    "ask": ExecRule("allowlist", "on-miss"),
    "auto": ExecRule("allowlist", "on-miss"),
    "full": ExecRule("full", "off"),
}

_FOREIGN_TOOLS = names("toolsBySender codeMode swarm loopDetection message elevated")


class ToolPolicy(Section, frozen=True):
    """A tool policy: `allow`, when given, is the whole list; `deny` is taken away from it."""

    allow: tuple[str, ...] | None = None
    """The whole list of tools, if it is set."""
    also_allow: tuple[str, ...] = ()
    """Tools added to the list or the profile."""
    deny: tuple[str, ...] = ()
    """Tools taken away from it; this wins."""
    profile: ToolProfile | None = None
    """A list that is ready made."""


class AgentToAgent(Section, frozen=True):
    enabled: bool = True
    """Whether agents reach sessions of other agents."""
    allow: tuple[str, ...] = ("*",)
    """The agents that may, both sides; `*`: all."""


class SessionTools(Section, frozen=True):
    visibility: Visibility = "all"
    """Which sessions the session tools see; see [visibility](visibility.md)."""
    history_bytes: Annotated[int, msgspec.Meta(ge=HISTORY_BYTES_MIN)] = HISTORY_BYTES
    """How much sessions_history answers at once."""


class SubagentTools(Section, frozen=True):
    tools: ToolPolicy = ToolPolicy()
    """The tools of children."""
    unused = names("model")


class SandboxTools(Section, frozen=True):
    """The tools of a sandboxed session, limited beyond the other policies."""

    tools: ToolPolicy = ToolPolicy()
    """The policy of a sandboxed session."""


class ExecTool(Section, frozen=True):
    """Commands. `host: sandbox` keeps them in the sandbox: a session without one cannot run any."""

    host: Literal["auto", "sandbox", "gateway", "node"] | None = None
    """The place where commands run; with `node` none do, there are no commands on nodes yet."""
    security: Security | None = None
    """Which commands may run: `deny`: none; `allowlist`: those that were allowed for good, see
    [approvals](approvals.md); `full`: all."""
    ask: AskMode | None = None
    """Whether a person is asked first: never, for what is not in the list, or always. With `security`
    `allowlist` the default is `on-miss`."""
    mode: Literal["deny", "allowlist", "ask", "auto", "full"] | None = None
    """The newer spelling of `security` and `ask` together. If both are written the stricter holds; `auto` is
    `ask`: no model decides here."""
    timeout_sec: Positive | None = None
    """How long a command may take."""
    timeout_seconds: Positive | None = None
    """The newer spelling of `timeoutSec`; it wins."""
    pass_env: tuple[str, ...] | None = None
    """Variables of the gateway that commands get beside the harmless ones."""

    @property
    def rule(self) -> ExecRule:
        """The rule that `security`, `ask` and `mode` make together."""
        security = self.security or ("allowlist" if self.ask == "on-miss" else "full")
        ask = self.ask or ("on-miss" if security == "allowlist" else "off")
        written = ExecRule(security, ask)
        return written if self.mode is None else written.stricter(MODES[self.mode])

    local = names("passEnv pathPrepend safeBins safeBinTrustedDirs")
    unused = names(
        "node backgroundMs cleanupMs notifyOnExit notifyOnExitEmptySuccess applyPatch pathPrepend"
        " safeBins safeBinTrustedDirs safeBinProfiles strictInlineEval approvalRunningNoticeMs"
    )


class WebFetchTool(Section, frozen=True):
    enabled: bool = True
    """Whether agents may read web pages."""
    max_chars: Positive = 50_000
    """The most of one page."""
    timeout_seconds: Positive = 30
    """How long a page may take."""
    max_redirects: Positive = 5
    """How many redirects are followed."""
    unused = names(
        "maxCharsCap maxResponseBytes cacheTtlMinutes userAgent readability firecrawl provider"
        " ssrfPolicy useTrustedEnvProxy"
    )


class WebTools(Section, frozen=True):
    fetch: WebFetchTool = WebFetchTool()
    """Reading web pages."""
    search: Loose = msgspec.field(default_factory=Loose)
    """No effect yet."""
    idle = names("search")


class AgentTools(Section, frozen=True):
    profile: ToolProfile | None = None
    """A list that is ready made: `minimal`, `coding`, `messaging`, or all."""
    allow: tuple[str, ...] | None = None
    """The whole list of tools, if it is set."""
    also_allow: tuple[str, ...] = ()
    """Tools added to the list or the profile."""
    deny: tuple[str, ...] = ()
    """Tools taken away from it; this wins."""
    by_provider: dict[str, ToolPolicy] = msgspec.field(default_factory=dict)
    """Another policy for one provider or one `provider/model`."""
    ask: tuple[str, ...] = ()
    """Tools whose calls need a person's approval: names, globs, groups, `mcp:*`, `mcp:server`. An agent's own
    list is added to the shared one."""
    exec: ExecTool = ExecTool()
    """Commands."""
    sandbox: SandboxTools = SandboxTools()
    """The tools of a sandboxed session."""
    fs: Loose = msgspec.field(default_factory=Loose)
    """No effect: files are always those of the workspace."""
    idle = names("fs")
    unused = _FOREIGN_TOOLS


class ToolsConfig(AgentTools, frozen=True):
    agent_to_agent: AgentToAgent = AgentToAgent()
    """Sessions of other agents."""
    sessions: SessionTools = SessionTools()
    """The sessions that the session tools reach."""
    subagents: SubagentTools = SubagentTools()
    """The tools of children."""
    web: WebTools = WebTools()
    """The web."""
    media: MediaTools = MediaTools()
    """Media that people send."""
    unused = _FOREIGN_TOOLS | names(
        "links toolSearch sessions_spawn sessionsSpawn bash experimental"
    )

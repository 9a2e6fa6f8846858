"""Agents: which there are, and what each of them may use."""

import re
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from crossclaw.config.channels import GroupChat
from crossclaw.config.heartbeat import HeartbeatConfig
from crossclaw.config.providers import REHEARSAL_MODEL
from crossclaw.config.section import Count, Fraction, Loose, Section, names
from crossclaw.config.session import TypingMode
from crossclaw.config.tools import AgentTools, ExecTool
from crossclaw.domain.agents import DEFAULT_AGENT_ID, ThinkingLevel, normalize_agent_id
from crossclaw.domain.aliases import Positive
from crossclaw.domain.authority import WorkspaceAccess
from crossclaw.domain.budgets import Allowance
from crossclaw.domain.errors import NotFound

ThinkingName = Literal[
    "off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"
]
VerboseLevel = Literal["off", "on", "full"]
SandboxMode = Literal["off", "non-main", "all"]
SpawnedVisibility = Literal["spawned", "all"]
SandboxNetwork = Literal["none", "host"]

_NEAREST_LEVEL: dict[ThinkingName, ThinkingLevel] = {
    "adaptive": "medium",
    "max": "xhigh",
    "ultra": "xhigh",
}


class ModelChoice(Section, frozen=True):
    primary: str | None = None
    """The model, as `provider/model` or by its alias."""
    fallbacks: tuple[str, ...] | None = None
    """The models to try, in this order, when the first cannot answer."""
    unused = names("timeoutMs")


Model = str | ModelChoice


class ModelUse(Section, frozen=True):
    """Settings of a model, by its reference, `provider/model`."""

    alias: str | None = None
    """A short name for the model, for people and `/model`."""
    params: Loose = msgspec.field(default_factory=Loose)
    """Fields of the requests to this model, as the service names them, such as `temperature`."""
    unused = names("streaming agentRuntime")


class SubagentDefaults(Section, frozen=True):
    archive_after_minutes: Annotated[float, msgspec.Meta(ge=0)] = 60
    """The minutes after its report at which a child is archived; 0: never."""
    model: Model | None = None
    """The model of children; unset: that of their agent."""
    thinking: ThinkingName | None = None
    """How much children think."""
    wake_parent: bool = False
    """Whether a report begins a run of the parent, instead of being posted as it is."""
    max_concurrent: Positive | None = None
    """No effect: use `agents.defaults.maxConcurrent`."""
    allow_agents: tuple[str, ...] | None = None
    """Which other agents may be spawned; `*`: any."""
    run_timeout_seconds: Count = 0
    """The longest run of a child, in seconds; 0: as for every other run."""
    max_children_per_agent: Positive = 50
    """How many children of one session may be at work at once."""
    idle = names("maxConcurrent")
    unused = names("maxSpawnDepth announceTimeoutMs requireAgentId delegationMode")


class AgentSubagents(Section, frozen=True):
    allow_agents: tuple[str, ...] | None = None
    """Overrides `agents.defaults.subagents.allowAgents`."""
    model: Model | None = None
    """Overrides `agents.defaults.subagents.model`."""
    thinking: ThinkingName | None = None
    """Overrides `agents.defaults.subagents.thinking`."""
    unused = names("requireAgentId delegationMode archiveAfterMinutes maxConcurrent")


_FOREIGN_SANDBOX = names("ssh browser prune backend workspaceRoot perSession")


class SandboxLimits(Section, frozen=True):
    """What one command in the sandbox, with all that it starts, may take of the machine."""

    memory_mb: Positive = 4_096
    """Memory of one command with all that it starts."""
    processes: Positive = 512
    """How many processes one command may have."""
    file_mb: Positive = 4_096
    """How large a file one command may write."""
    keep_free_mb: Count = 512
    """The space that must stay free on the workspace's disk: a command is ended before it takes that, so that
    the gateway can go on writing."""
    workspace_mb: Count = 20_480
    """How much the workspace may hold: a command that goes on writing beyond it is ended. The kernel's quota
    is used if there is one. 0: no limit."""
    workspace_files: Count = 1_000_000
    """How many files and folders the workspace may hold: a command that makes more is ended. 0: no limit."""


class SandboxConfig(Section, frozen=True):
    mode: SandboxMode = "off"
    """Which sessions work in a sandbox: none, all but main ones, or all."""
    workspace_access: WorkspaceAccess = "rw"
    """What the sandbox sees of the agent's workspace."""
    session_tools_visibility: SpawnedVisibility = "spawned"
    """The sessions that a sandboxed session reaches: its own children, or as without a sandbox."""
    network: SandboxNetwork = "none"
    """`host` lets commands out to the network."""
    scope: Literal["session", "agent", "shared"] = "agent"
    """Who shares one sandbox folder: one session, one agent, or all."""
    limits: SandboxLimits = SandboxLimits()
    """What one command may take of the machine."""
    docker: Loose = msgspec.field(default_factory=Loose)
    """OpenClaw's own section; `network`, `memory` and `pidsLimit` are understood."""
    local = names("docker workspaceRoot ssh")
    unused = _FOREIGN_SANDBOX

    @property
    def allows_network(self) -> bool:
        """`network: host`, or OpenClaw's way to say it: a docker network other than none."""
        return self.network == "host" or self.docker.get("network", "none") != "none"

    @property
    def bounds(self) -> SandboxLimits:
        """The limits of `limits`, or of OpenClaw's docker `memory` and `pidsLimit`, where those are less."""
        memory_mb = _megabytes(self.docker.get("memory")) or self.limits.memory_mb
        processes = self.docker.get("pidsLimit")
        if not isinstance(processes, int) or processes < 1:
            processes = self.limits.processes
        return msgspec.structs.replace(
            self.limits,
            memory_mb=min(memory_mb, self.limits.memory_mb),
            processes=min(processes, self.limits.processes),
        )


def _megabytes(written: object) -> int | None:
    """The megabytes of `512m`, `2g`, or a number of bytes; None for anything else."""
    found = re.fullmatch(r"(\d+)([bkmg]?)b?", str(written).strip().lower())
    units = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
    return max(1, int(found[1]) * units[found[2]] // 2**20) if found else None


class AgentSandbox(Section, frozen=True):
    """One agent's differences from `agents.defaults.sandbox`; what is not set is inherited."""

    mode: SandboxMode | None = None
    """Overrides `agents.defaults.sandbox.mode`."""
    workspace_access: WorkspaceAccess | None = None
    """Overrides `agents.defaults.sandbox.workspaceAccess`."""
    session_tools_visibility: SpawnedVisibility | None = None
    """Overrides `agents.defaults.sandbox.sessionToolsVisibility`."""
    network: SandboxNetwork | None = None
    """Overrides `agents.defaults.sandbox.network`."""
    scope: Literal["session", "agent", "shared"] | None = None
    """Overrides `agents.defaults.sandbox.scope`."""
    limits: SandboxLimits | None = None
    """Overrides `agents.defaults.sandbox.limits`."""
    docker: Loose | None = None
    """Overrides `agents.defaults.sandbox.docker`."""
    local = names("docker workspaceRoot ssh")
    unused = _FOREIGN_SANDBOX


class MemoryFlush(Section, frozen=True):
    enabled: bool = True
    """Whether the model may write down what should last, in one silent turn before a summary."""
    prompt: str | None = None
    """The message to the model in that turn; unset: our own words."""
    unused = names("softThresholdTokens forceFlushTranscriptBytes systemPrompt model")


class CompactionConfig(Section, frozen=True):
    mode: Literal["default", "safeguard"] = "safeguard"
    """Accepted for OpenClaw; both modes mean the same here."""
    reserve_tokens: Count | None = None
    """Tokens kept free in the window for the answer."""
    reserve_tokens_floor: Count = 20_000
    """The least of `reserveTokens`, whatever it says."""
    keep_recent_tokens: Positive = 20_000
    """The newest turns that are not summarised."""
    max_history_share: Fraction | None = None
    """The share of the window that history may fill."""
    custom_instructions: str | None = None
    """Further instructions for the model that writes the summary."""
    model: str | None = None
    """The model that writes the summary; unset: the session's own."""
    timeout_seconds: Positive | None = None
    """How long the summary may take."""
    memory_flush: MemoryFlush = MemoryFlush()
    unused = names(
        "identifierPolicy identifierInstructions recentTurnsPreserve qualityGuard"
        " postIndexSync postCompactionSections notifyUser provider truncateAfterCompaction"
        " midTurnPrecheck maxActiveTranscriptBytes"
    )


class BudgetConfig(Section, frozen=True):
    """The budget of a run and everything it causes. What is not set has no limit."""

    tokens: Positive | None = None
    """Tokens, in and out."""
    cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """US dollars, by the model's prices."""
    minutes: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Minutes from the first run's begin."""


CacheRetention = Literal["auto", "short", "long"]


class AgentDefaults(Section, frozen=True, dict=True):
    model: Model | None = None
    """The model of every agent that names none."""
    image_model: Model | None = None
    """The model that describes pictures to a model that cannot look at them."""
    models: dict[str, ModelUse] = msgspec.field(default_factory=dict)
    """The only models that can be chosen, if given (and those that this file names elsewhere); `provider/*`:
    all of one."""
    workspace: str | None = None
    """The default agent's folder; the others have one each beside the state."""
    timeout_seconds: Positive = 600
    """How long one run may take."""
    max_concurrent: Positive | None = None
    """Runs under way at once, in all sessions."""
    context_tokens: Positive | None = None
    """The most of a model's window that is used."""
    params: Loose = msgspec.field(default_factory=Loose)
    """Fields of every request to a model, as the service names them."""
    user_timezone: str | None = None
    """The time zone that agents are given, such as Europe/Vienna."""
    thinking_default: ThinkingName | None = None
    """How much models think where a session does not say."""
    verbose_default: VerboseLevel | None = None
    """How much of the work clients show where a session does not say (`/verbose`)."""
    bootstrap_max_chars: Positive = 20_000
    """The most of one workspace file (AGENTS.md and the like) in the prompt."""
    bootstrap_total_max_chars: Positive = 60_000
    """The most of all workspace files together."""
    skip_bootstrap: bool = False
    """Always as if `true`: no file of a workspace is made from a template."""
    subagents: SubagentDefaults = SubagentDefaults()
    """Children that agents spawn."""
    sandbox: SandboxConfig = SandboxConfig()
    """The sandbox of tools."""
    compaction: CompactionConfig = CompactionConfig()
    """What happens when a conversation outgrows the window."""
    context_pruning: Loose = msgspec.field(default_factory=Loose)
    """No effect yet."""
    heartbeat: HeartbeatConfig | None = None
    """Regular runs without a message, in which an agent looks whether something needs its attention."""
    budget: BudgetConfig = BudgetConfig()
    """What a run and all it causes may spend."""
    typing_mode: TypingMode | None = None
    """The moment from which chats see that the agent is typing: never, at once, with its first thought, with
    its first word; unset: at once, in groups that it answers uncalled with its first word."""
    typing_interval_seconds: Positive | None = None
    """How often typing is shown again; unset: as often as the platform needs it."""
    block_streaming_default: Literal["on", "off"] = "off"
    """Whether replies are shown while they are written, for channels that do not set it (`streaming`)."""
    local = names("workspace")
    cache_retention: CacheRetention = "auto"
    """How long services keep prompts: `short` five minutes, `long` an hour, `auto` an hour where messages come slowly."""
    idle = names("contextPruning")
    unused = names(
        "imageGenerationModel videoGenerationModel musicGenerationModel pdfModel"
        " pdfMaxBytesMb pdfMaxPages utilityModel voiceModel modelPolicy skills skillsLimits"
        " repoRoot bootstrapPromptTruncationWarning timeFormat"
        " envelopeTimezone envelopeTimestamp envelopeElapsed cliBackends memorySearch memory"
        " embeddedPi embeddedAgent elevatedDefault reasoningDefault fastModeDefault"
        " blockStreamingBreak blockStreamingChunk blockStreamingCoalesce"
        " humanDelay mediaMaxMb imageMaxDimensionPx"
        " systemAgent additionalSystemPrompt systemPromptOverride contextLimits contextInjection runtime"
        " toolProgressDetail silentReply experimental tts groupChat tools runRetries"
    )

    @cached_property
    def timeout_ms(self) -> int | None:
        return int(self.timeout_seconds * 1000) if self.timeout_seconds else None


class Identity(Section, frozen=True):
    name: str | None = None
    """A name by which groups may call the agent; the agent's `name` is shown."""
    emoji: str | None = None
    """An emoji by which groups may call the agent, too."""
    theme: str | None = None
    """No effect yet."""
    avatar: str | None = None
    """No effect yet."""
    idle = names("theme avatar")
    unused = names("creature vibe")


class AgentConfig(Section, frozen=True):
    """One entry of `agents.list`. The id is normalised when the entry is made."""

    id: str = ""
    """The agent's id in keys and commands."""
    default: bool = False
    """Whether it gets messages for no agent in particular; if none is set, the first of the list does."""
    name: str | None = None
    """The agent's name for people."""
    description: str | None = None
    """The agent's purpose in one line: the agents that may reach it read it."""
    workspace: str | None = None
    """The agent's own folder."""
    model: Model | None = None
    """Overrides `agents.defaults.model`."""
    identity: Identity = Identity()
    """How the agent is shown."""
    tools: AgentTools = AgentTools()
    """Which tools the agent gets."""
    subagents: AgentSubagents = AgentSubagents()
    """Which agents it may spawn, and their settings."""
    sandbox: AgentSandbox = AgentSandbox()
    """The agent's differences from `agents.defaults.sandbox`."""
    thinking_default: ThinkingName | None = None
    """Overrides `agents.defaults.thinkingDefault`."""
    params: Loose = msgspec.field(default_factory=Loose)
    """Fields of this agent's requests to a model; they count more than the default's and the model's."""
    verbose_default: VerboseLevel | None = None
    """Overrides `agents.defaults.verboseDefault`."""
    context_tokens: Positive | None = None
    """Overrides `agents.defaults.contextTokens`."""
    group_chat: GroupChat = GroupChat()
    """The agent's own patterns in groups, even if there are none."""
    heartbeat: HeartbeatConfig | None = None
    """The agent's own heartbeat."""
    budget: BudgetConfig | None = None
    """The agent's own budget; what is not set is the default's."""
    typing_mode: TypingMode | None = None
    """Overrides `agents.defaults.typingMode`."""
    typing_interval_seconds: Positive | None = None
    """Overrides `agents.defaults.typingIntervalSeconds`."""
    local = names("workspace agentDir")
    unused = names(
        "agentDir utilityModel models modelPolicy reasoningDefault fastModeDefault skills"
        " skillsLimits memory memorySearch humanDelay tts"
        " contextLimits contextInjection bootstrapMaxChars bootstrapTotalMaxChars experimental"
        " embeddedPi embeddedAgent plugins runtime toolProgressDetail systemPromptOverride"
    )

    def __post_init__(self) -> None:
        if self.id:
            msgspec.structs.force_setattr(self, "id", normalize_agent_id(self.id))


class Agents(Section, frozen=True, dict=True):
    defaults: AgentDefaults = AgentDefaults()
    """The settings of every agent that does not override them."""
    listed: tuple[AgentConfig, ...] = msgspec.field(default=(), name="list")
    """The agents, one entry each."""
    named: dict[str, AgentConfig] = msgspec.field(default_factory=dict, name="entries")
    """The newer spelling: a map from id to agent. Both may be used side by side."""

    def all(self) -> tuple[AgentConfig, ...]:
        """All agents; never empty: without a list there is the agent `main`."""
        return self._all

    # Every turn asks for its agent some ten times, so these are made once.

    @cached_property
    def _all(self) -> tuple[AgentConfig, ...]:
        by_name = tuple(
            msgspec.structs.replace(agent, id=name) for name, agent in self.named.items()
        )
        return self.listed + by_name or (AgentConfig(id=DEFAULT_AGENT_ID),)

    @cached_property
    def by_id(self) -> dict[str, AgentConfig]:
        """The agents by id; of two with the same id the first counts."""
        return {agent.id: agent for agent in reversed(self._all)}

    def ids(self) -> tuple[str, ...]:
        return tuple(agent.id for agent in self.all())

    @cached_property
    def default_id(self) -> str:
        agents = self.all()
        return next((agent for agent in agents if agent.default), agents[0]).id

    def has(self, agent_id: str) -> bool:
        """Whether there is an agent with this id, spelled as in keys; asked for every row of a list."""
        return agent_id in self.by_id

    def find(self, agent_id: str) -> AgentConfig | None:
        return self.by_id.get(agent_id) or self.by_id.get(normalize_agent_id(agent_id))

    def get(self, agent_id: str) -> AgentConfig:
        agent = self.find(agent_id)
        if agent is None:
            wanted = normalize_agent_id(agent_id)
            raise NotFound(
                f'there is no agent "{wanted}"; configured: {", ".join(self.ids())}. '
                f'To add it, put {{ id: "{wanted}" }} into agents.list of openclaw.json.'
            )
        return agent

    def sandbox_for(self, agent_id: str) -> SandboxConfig:
        own = self.get(agent_id).sandbox
        changes = {
            name: value for name, value in msgspec.structs.asdict(own).items() if value is not None
        }
        return msgspec.structs.replace(self.defaults.sandbox, **changes)

    def exec_for(self, agent_id: str, shared: ExecTool) -> ExecTool:
        own = msgspec.structs.asdict(self.get(agent_id).tools.exec)
        changes = {name: value for name, value in own.items() if value is not None}
        return msgspec.structs.replace(shared, **changes)

    def budget_for(self, agent_id: str) -> Allowance | None:
        """The agent's budget; None if nothing is limited. What an agent does not set itself, the defaults do."""
        agent = self.find(agent_id)
        own = agent.budget if agent else None
        budget = own.over(self.defaults.budget) if own else self.defaults.budget
        if budget == BudgetConfig():
            return None
        return Allowance(budget.tokens, budget.cost_usd, budget.minutes, own=own is not None)

    def thinking_for(self, agent_id: str) -> ThinkingLevel | None:
        name = self.get(agent_id).thinking_default or self.defaults.thinking_default
        return thinking_level(name) if name else None

    def verbose_for(self, agent_id: str) -> VerboseLevel | None:
        """The verbosity of the agent's sessions that do not set it themselves."""
        agent = self.find(agent_id)
        return (agent and agent.verbose_default) or self.defaults.verbose_default

    def spawn_allowed(self, agent_id: str) -> tuple[str, ...]:
        """Which other agents this one may spawn, normalised; `*` stands for any."""
        own = self.get(agent_id).subagents.allow_agents
        allowed = self.defaults.subagents.allow_agents if own is None else own
        return tuple(
            name if name == "*" else normalize_agent_id(name)
            for name in map(str.strip, allowed or ())
        )

    def heartbeats(self) -> dict[str, HeartbeatConfig]:
        """The agents' heartbeats: of those that set one, or else of the default agent if the defaults set
        one. Without a setting no agent has one, and nothing is spent."""
        shared = self.defaults.heartbeat
        own = {each.id: each.heartbeat.over(shared) for each in self.all() if each.heartbeat}
        return own or ({self.default_id: shared} if shared is not None else {})

    def aliases(self) -> dict[str, str]:
        """Short names of models, lower-case, to `provider/model`."""
        return {
            use.alias.strip().lower(): reference
            for reference, use in self.defaults.models.items()
            if use.alias
        }

    def model_named(self, name: str) -> str:
        """`provider/model` for an alias and for `rehearsal`, anything else as it is."""
        short = name.strip().lower()
        return self.aliases().get(short, REHEARSAL_MODEL if short == "rehearsal" else name)


def thinking_level(name: ThinkingName) -> ThinkingLevel:
    """The level for a name; OpenClaw's newer names become the nearest level that we have."""
    return _NEAREST_LEVEL.get(name) or name  # type: ignore[return-value]


def primary_of(model: Model | None) -> str | None:
    return model.primary if isinstance(model, ModelChoice) else model or None


def fallbacks_of(model: Model | None) -> tuple[str, ...] | None:
    return model.fallbacks if isinstance(model, ModelChoice) else None

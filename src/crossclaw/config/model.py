"""Config: all settings of openclaw.json, complete without a file."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from crossclaw.config.agents import Agents, fallbacks_of, primary_of, thinking_level
from crossclaw.config.approvals import ApprovalsConfig
from crossclaw.config.catalogue import known_facts
from crossclaw.config.doors import (
    AuthProfiles,
    Binding,
    CommandsConfig,
    CronConfig,
    Env,
    Logging,
    Mcp,
    Messages,
)
from crossclaw.config.gateway import GatewayConfig
from crossclaw.config.hooks import HooksConfig
from crossclaw.config.ledger import LedgerConfig
from crossclaw.config.providers import (
    REHEARSAL_MODEL,
    Models,
    ProviderEntry,
    ProviderModel,
    spoken_api,
)
from crossclaw.config.section import Loose, Section, names
from crossclaw.config.session import SessionConfig
from crossclaw.config.tools import ToolsConfig
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.models import ListedModel, ModelFacts

ANTHROPIC_MODEL = "anthropic/claude-opus-5-5"
OPENAI_MODEL = "openai/gpt-6-astra"
OLLAMA_WINDOW = 32_768
"""The window of an Ollama model by default: it takes the machine's memory, and the largest that a model was
made for mostly more than there is."""


class ChosenModel(NamedTuple):
    """A chosen model and its fallbacks, as references `provider/model`."""

    primary: str
    fallbacks: tuple[str, ...]


class Config(Section, frozen=True):
    agents: Agents = Agents()
    """The agents and their settings."""
    auth: AuthProfiles = AuthProfiles()
    """Which of several keys of a provider is used first."""
    session: SessionConfig = SessionConfig()
    """Settings of sessions: how chats become sessions."""
    tools: ToolsConfig = ToolsConfig()
    """The tools that agents may use."""
    approvals: ApprovalsConfig = ApprovalsConfig()
    """How a person is asked before something is run."""
    models: Models = Models()
    """The providers of models."""
    gateway: GatewayConfig = GatewayConfig()
    """The gateway's address, and who may connect."""
    ledger: LedgerConfig = LedgerConfig()
    """The place of sessions, messages and runs."""
    messages: Messages = Messages()
    """The handling of messages."""
    bindings: tuple[Binding, ...] = ()
    """Which agent answers which chat; the closest fit counts."""
    hooks: HooksConfig = HooksConfig()
    """Programs elsewhere that may send messages."""
    cron: CronConfig = CronConfig()
    """Jobs."""
    commands: CommandsConfig = CommandsConfig()
    """Slash commands and who is the owner."""
    mcp: Mcp = Mcp()
    """Tools of other programs."""
    env: Env = Env()
    """Variables for `${NAME}`."""
    channels: Loose = msgspec.field(default_factory=Loose)
    """Chat platforms and their accounts; see [channels](channels.md)."""
    logging: Logging = Logging()
    """The gateway's own log."""
    diagnostics: Loose = msgspec.field(default_factory=Loose)
    """No effect yet."""
    local = names("env")
    idle = names("diagnostics")
    unused = names(
        "acp audio broadcast browser canvasHost crestodian discovery media memory"
        " nodeHost nodes plugins proxy secrets security skills talk tts ui web worktrees"
    )
    quiet = names("$schema meta wizard update cli")

    def main_key(self, agent_id: str) -> SessionKey:
        """The key of an agent's main session, which may be the one that all agents share."""
        return self.meant_key(SessionKey.main(agent_id))

    def meant_key(self, key: SessionKey) -> SessionKey:
        """The key of the session that is meant by a key: under `session.scope: global` every agent's main session is
        the shared one, which the default agent answers."""
        if key.kind == "main" and self.session.scope == "global":
            return SessionKey.shared(self.agents.default_id)
        return key

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment as this config sees it: `env.vars` count where nothing else is set."""
        written = {name: secret.reveal() for name, secret in self.env.vars.items()}
        return written | {name: value for name, value in environ.items() if value}

    def model_for(self, agent_id: str, environ: Mapping[str, str]) -> ChosenModel:
        own, shared = self.agents.get(agent_id).model, self.agents.defaults.model
        fallbacks = fallbacks_of(own)
        if fallbacks is None:
            fallbacks = fallbacks_of(shared) or ()
        primary = primary_of(own)
        chosen = self.agents.model_named(primary) if primary else default_model(self, environ)
        return ChosenModel(chosen, tuple(map(self.agents.model_named, fallbacks)))

    def shown_model_for(self, agent_id: str, environ: Mapping[str, str]) -> str:
        """The model that a row shows. A session may outlive its agent's place in the config; then the
        defaults hold."""
        known = self.agents.find(agent_id) is not None
        return self.model_for(agent_id, environ).primary if known else default_model(self, environ)

    def window_for(self, agent_id: str, model: str) -> int:
        """Tokens of a model's window that an agent may fill. `model` is `provider/model`."""
        window = self.facts_for(model).window
        agent = self.agents.find(agent_id)
        cap = (agent.context_tokens if agent else None) or self.agents.defaults.context_tokens
        return min(window, cap) if cap else window

    def facts_for(self, model: str) -> ModelFacts:
        """Facts of a model, named as `provider/model`: from the config first, then from the catalogue."""
        return self.facts_with(model, None)

    def facts_with(self, model: str, listed: ListedModel | None) -> ModelFacts:
        """Facts of a model with those from its server, which count more than the catalogue, and less than the
        config."""
        provider, _, model_id = model.partition("/")
        entry, written = self._written(model)
        known = known_facts(model_id)
        if listed is not None:
            known = _with_listed_facts(known, listed)
        if spoken_api(provider, entry.api if entry else None, None) == "ollama":
            given = (listed.given if listed else None) or OLLAMA_WINDOW
            known = msgspec.structs.replace(known, window=min(known.window, given))
        api = spoken_api(provider, entry.api if entry else None, entry.base_url if entry else None)
        if known.documents and api not in READS_DOCUMENTS:
            known = msgspec.structs.replace(known, documents=False)
        return _with_own_facts(known, written)

    def _written(self, model: str) -> tuple[ProviderEntry | None, ProviderModel | None]:
        """The config's entries for the model's provider, and for the model itself."""
        provider, _, model_id = model.partition("/")
        entry = self.models.providers.get(provider)
        return entry, entry.find_model(model_id) if entry else None

    def has_own_window(self, model: str) -> bool:
        """Whether the config says how large a model's window is."""
        _, written = self._written(model)
        return bool(written and (written.context_window or written.params.get("num_ctx")))

    def image_models(self) -> tuple[str, ...]:
        """The models that describe pictures to models that cannot look at them, the first choice first."""
        named = self.agents.defaults.image_model
        names = (primary_of(named), *(fallbacks_of(named) or ()))
        return tuple(self.agents.model_named(name) for name in names if name)

    def params_for(self, agent_id: str, model: str) -> dict[str, Any]:
        """The fields that are added to an agent's requests to a model: the defaults', the model's, then its
        own. Names that mean something to us, and nothing to a service, are left out."""
        agent = self.agents.find(agent_id)
        use = self.agents.defaults.models.get(model)
        layers = [self.agents.defaults.params, use.params if use else {}]
        merged = {
            name: v
            for layer in [*layers, agent.params if agent else {}]
            for name, v in layer.items()
        }
        return {name: value for name, value in merged.items() if name not in _OUR_PARAMS}

    def takes_tools(self, model: str) -> bool:
        """Whether a model, named as `provider/model`, can call tools at all: our own small one cannot."""
        return self.facts_for(model).tools

    def subagent_model_for(self, agent_id: str) -> str | None:
        """The model of this agent's children; None means the same as their agent."""
        own = self.agents.get(agent_id).subagents.model
        return primary_of(own) or primary_of(self.agents.defaults.subagents.model)

    def subagent_thinking_for(self, agent_id: str) -> ThinkingLevel | None:
        own = self.agents.get(agent_id).subagents.thinking
        name = own or self.agents.defaults.subagents.thinking
        return thinking_level(name) if name else None

    def redacted(self) -> dict[str, Any]:
        """The whole config as JSON values, with every secret left out: clients get it and send it back."""
        text = msgspec.json.encode(self, enc_hook=lambda _secret: "(hidden)")
        shown: dict[str, Any] = msgspec.json.decode(text)
        hidden: dict[str, Any] = without_credentials(shown)
        return hidden


READS_DOCUMENTS = ("anthropic-messages", "openai-responses", "google-generative-ai")
"""The protocols of services that are known to read PDFs. For others `input` of the model may say it."""
DOCUMENTS = frozenset({"pdf", "document", "file"})
_OUR_PARAMS = frozenset(
    {"maxTokens", "cacheRetention", "cacheControlTtl", "transport", "fastMode", "thinking"}
)


def _with_listed_facts(known: ModelFacts, listed: ListedModel) -> ModelFacts:
    facts: dict[str, Any] = {
        "window": listed.window,
        "output": listed.output,
        "pictures": listed.pictures,
        "tools": listed.tools,
    }
    if listed.thinks is False:
        facts |= {"thinking": "none", "thinks_unasked": False, "off": "omit"}
    return msgspec.structs.replace(known, **{n: v for n, v in facts.items() if v is not None})


def _with_own_facts(known: ModelFacts, written: ProviderModel | None) -> ModelFacts:
    if written is None:
        return known
    own: dict[str, Any] = {}
    size = written.context_window or written.params.get("num_ctx")
    if isinstance(size, int):
        own["window"] = size
    if written.input is not None:
        own["pictures"] = "image" in written.input
        listed = not DOCUMENTS.isdisjoint(written.input)
        own["documents"] = listed or (known.documents and "image" in written.input)
    if written.compat.get("supportsTools") is False:
        own["tools"] = False
    if written.reasoning is False:
        own |= {"thinking": "none", "thinks_unasked": False, "off": "omit"}
    elif written.reasoning and not known.thinks:
        own["thinking"] = "budget" if written.api == "anthropic-messages" else "effort"
    return msgspec.structs.replace(known, **own) if own else known


_IN_URL = re.compile(r"(?<=://)[^/@\s]+@|(?<=[?&])[^=&\s]+=[^&\s]+")


def without_credentials(value: Any) -> Any:
    """The value without credentials in addresses: user:password@ and ?key=… are left out of what is shown."""
    if isinstance(value, dict):
        return {name: without_credentials(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_credentials(part) for part in value]
    return _IN_URL.sub("", value) if isinstance(value, str) and "://" in value else value


def default_model(config: Config, environ: Mapping[str, str]) -> str:
    """The first model that can answer. With no key at all, the scripted model that needs none."""
    if chosen := primary_of(config.agents.defaults.model):
        return config.agents.model_named(chosen)
    variables = config.environment(environ)
    if variables.get("ANTHROPIC_API_KEY") or _has_key(config, "anthropic"):
        return ANTHROPIC_MODEL
    if variables.get("OPENAI_API_KEY") or _has_key(config, "openai"):
        return OPENAI_MODEL
    return REHEARSAL_MODEL


def _has_key(config: Config, provider: str) -> bool:
    entry = config.models.providers.get(provider)
    return entry is not None and bool(entry.api_key or entry.api_keys)

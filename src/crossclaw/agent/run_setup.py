"""Run setup: the model, system prompt and tools of a run, chosen anew for each run."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2s
from typing import Any, NamedTuple, Protocol

import msgspec

from crossclaw.agent.fitting import fitted
from crossclaw.agent.meter import Meter, Meters
from crossclaw.agent.permission import Permission, Permissions
from crossclaw.agent.pictures import in_words_only, without_pictures
from crossclaw.agent.prompt import Prompts
from crossclaw.agent.view import ThinkingOrigin
from crossclaw.config.current import CurrentConfig
from crossclaw.config.model import ChosenModel
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.budgets import Amount
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.models import LEVELS, ListedModel, ModelFacts
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.providers.contract import ModelRequest, Provider, ToolSpec
from crossclaw.providers.fallback import Choice, Fallbacks, Find, ModelCooldowns
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.tools.toolset import Toolset, Toolsets

DIGESTS_KEPT = 2_000  # of the sessions at work; some 300 bytes each
OUTPUT_TOKENS_MAX = 8_192  # where the model's own limit is not known
DESCRIPTION_TOKENS_MAX = 2_048  # of a picture: a page of small print
NO_TOOLS = Toolset({}, {})


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent uses a model: by the config, within what the model can do."""

    facts: ModelFacts
    output_tokens_max: int
    window: int
    """Tokens of the model's window that the agent may fill."""
    thinking: ThinkingLevel
    params: dict[str, Any]
    """Parameters added to the agent's requests."""


ProfileOf = Callable[[str, str, int, ListedModel | None], ModelProfile]
"""The profile of an agent and a model, named as `provider/model`, by the rules of an epoch and by
what the model's server reports."""


class ImageModel(NamedTuple):
    """The model that describes pictures to one that cannot see."""

    provider: Provider
    model: str
    address: str


class RunSetup(msgspec.Struct, frozen=True):
    provider: Provider
    model: str
    system: str
    """The system prompt, made once for the run."""
    tools: Toolset
    specs: list[ToolSpec]
    """The tools as the model is shown them, also made once. Whether a call is allowed is decided
    when it is made."""
    beginning: str
    """A digest of prompt and tools: thinking is valid only with the same digest."""
    thinking: ThinkingLevel = "off"
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    window: int = 200_000
    """Tokens that the model can read and write at once."""
    meter: Meter | None = None
    """The meter, if the run has a budget; the provider is wrapped in it then."""
    can_see: bool = True
    """Whether the model can look at pictures."""
    documents: bool = False
    """Whether the model reads PDFs directly."""
    image_model: ImageModel | None = None
    """The model that describes pictures, if this one cannot see and the config names one that
    can."""
    refused: str | None = None
    """Why another model answers than the one chosen for the run or its session."""
    permission: Permission | None = None
    """The permission asked before every model call; the provider does that already."""
    params: dict[str, Any] = {}
    """Parameters that the config adds to the agent's requests."""
    snapshot: str = ""
    """Which state of the workspace's files the system prompt contains."""

    @property
    def thinking_origin(self) -> ThinkingOrigin:
        return ThinkingOrigin(self.provider.name, self.model, self.beginning, self.snapshot)

    def tools_for(self, said: AssistantMessage) -> Toolset:
        """The tools for the calls of one answer. A fallback that gave it has rules of its own as
        well."""
        if said.provider is None or said.model is None:
            return self.tools
        return self.tools.for_calls_of(f"{said.provider}/{said.model}")

    def spent(self) -> Amount | None:
        """What the run has spent, for its next entry to store."""
        return self.meter.take() if self.meter else None


class FindProvider(Protocol):
    def get(self, address: str) -> tuple[Provider, str]: ...

    async def discover(self, addresses: Iterable[str]) -> None:
        """Asks the servers of these models what they can do, so that the known facts are true."""
        ...


class AgentModels(msgspec.Struct, frozen=True):
    """Which models an agent uses."""

    providers: FindProvider
    configured_for: Callable[[str], ChosenModel]
    """The agent's own model."""
    choices: ModelChoices
    """Which other models may be chosen."""
    profile_of: ProfileOf
    """How an agent uses a model."""


class RunSetups:
    def __init__(
        self,
        config: CurrentConfig,
        models: AgentModels,
        toolsets: Toolsets,
        prompts: Prompts,
        meters: Meters,
        permissions: Permissions,
    ) -> None:
        self._config = config
        self._models = models
        self._providers = models.providers
        self._choices = models.choices
        self._toolsets = toolsets
        self._prompts = prompts
        self._meters = meters
        self._permissions = permissions
        self._rests = ModelCooldowns()
        self._digests = _Digests()

    async def choose(self, run: Run, session: Session | None) -> RunSetup:
        configured = self._models.configured_for(run.key.agent_id)
        wished = run.plan.model or (session.model if session else None)
        refused = self._choices.fault(wished) if wished else None
        chosen = configured.primary if not wished or refused else self._choices.reference(wished)
        await self._providers.discover((chosen, *configured.fallbacks))
        profile = self._profile(run.key.agent_id, chosen)
        meter = self._meters.of(run)
        permission = self._permissions.of(run)
        find = permission.on(meter.on(self._providers.get) if meter else self._providers.get)
        allowed = NO_TOOLS  # those that a model cannot call would only fill its window
        if profile.facts.tools:
            allowed = await self._toolsets.of(run.key, run.authority, chosen)
        addresses = tuple(dict.fromkeys((chosen, *configured.fallbacks)))
        provider, model = self._provider(find, run.key.agent_id, addresses, allowed)
        files = await self._prompts.files.begin(run)
        system = await self._prompts.system(run, allowed.names, files)
        specs = list(allowed.specs)
        return RunSetup(
            provider,
            model,
            system,
            allowed,
            specs,
            self._digests.of(system, specs),
            _thinking(run, session, profile),
            profile.output_tokens_max,
            profile.window,
            meter,
            profile.facts.pictures,
            profile.facts.documents,
            None if profile.facts.pictures else self._image_model(find, run.key.agent_id),
            refused,
            permission,
            dict(profile.params),
            self._prompts.files.snapshot(run),
        )

    def _image_model(self, find: Find, agent_id: str) -> ImageModel | None:
        """The first configured model that can see, with the others as its fallbacks. Whether it is
        available is checked only when there is a picture."""
        known = self._config.image_models()
        able = [name for name in known if self._profile(agent_id, name).facts.pictures]
        if not able:
            return None
        choices = [self._described_by(agent_id, address) for address in able]
        provider = Fallbacks(find, choices, self._rests, partial(fit, NO_TOOLS))
        return ImageModel(provider, able[0].partition("/")[2], able[0])

    def _described_by(self, agent_id: str, address: str) -> Choice:
        choice = self._choice(agent_id, address)
        most = min(choice.output_tokens_max, DESCRIPTION_TOKENS_MAX)
        return msgspec.structs.replace(choice, output_tokens_max=most)

    def _provider(
        self, find: Find, agent_id: str, addresses: Sequence[str], tools: Toolset
    ) -> tuple[Provider, str]:
        """The chosen model, then its fallbacks. If there are fallbacks, a chosen model that is not
        even configured counts as one that failed."""
        chosen = addresses[0]
        if len(addresses) == 1:
            return find(chosen)
        choices = [self._choice(agent_id, address) for address in addresses]
        model = chosen.partition("/")[2]
        return Fallbacks(find, choices, self._rests, partial(fit, tools)), model

    def _profile(self, agent_id: str, model: str) -> ModelProfile:
        config = self._config
        return self._models.profile_of(agent_id, model, config.epoch, config.listed.get(model))

    def _choice(self, agent_id: str, address: str) -> Choice:
        profile = self._profile(agent_id, address)
        facts = profile.facts
        output = profile.output_tokens_max
        return Choice(address, output, facts.window, facts.pictures, facts.documents)


def _thinking(run: Run, session: Session | None, profile: ModelProfile) -> ThinkingLevel:
    """The thinking level: the message's, else the session's, else the agent's."""
    level = run.plan.thinking or (session.thinking if session else None)
    return level if level in LEVELS else profile.thinking


class _Digests:
    """Caches digests of beginnings (prompt and tools). Runs of a session mostly begin alike;
    entries are found by Python's own hash of the text, which costs a tenth and does not let other
    threads in."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[list[ToolSpec], str]] = {}

    def of(self, system: str, specs: list[ToolSpec]) -> str:
        name = hash(system), len(system)
        kept = self._kept.get(name)
        if kept is not None and kept[0] == specs:
            return kept[1]
        digest = blake2s(system.encode("utf-8", "replace"), digest_size=8)
        digest.update(msgspec.json.encode(specs))
        if len(self._kept) >= DIGESTS_KEPT:
            self._kept.clear()
        self._kept[name] = specs, digest.hexdigest()
        return self._kept[name][1]


def fit(tools: Toolset, request: ModelRequest, choice: Choice) -> ModelRequest:
    """A request for the first model, adapted to a fallback, with the tools that both may use."""
    its = tools.for_calls_of(choice.address)
    allowed = [spec for spec in request.tools if not its.is_taken_away(spec.name)]
    request = msgspec.structs.replace(request, tools=allowed)
    if not choice.pictures:
        turns = without_pictures(request.turns)
        request = msgspec.structs.replace(request, turns=turns)
    if not choice.documents:
        turns = in_words_only(request.turns)
        request = msgspec.structs.replace(request, turns=turns)
    return fitted(request, choice.window) if choice.window else request

"""What a run works with: model, system prompt and tools, chosen anew for each run."""

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
from crossclaw.agent.view import Thinker
from crossclaw.config.current import CurrentConfig
from crossclaw.config.model import ChosenModel
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.budgets import Amount
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.models import LEVELS, ListedModel, ModelFacts
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.providers.contract import ModelRequest, Provider, ToolSpec
from crossclaw.providers.fallback import Choice, Fallbacks, Find, Rests
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.tools.toolset import Toolset, Toolsets

DIGESTS_KEPT = 2_000  # of the sessions at work; some 300 bytes each
OUTPUT_TOKENS_MAX = 8_192  # where the model's own limit is not known
DESCRIPTION_TOKENS_MAX = 2_048  # of a picture: a page of small print
NO_TOOLS = Toolset({}, {})


class ModelProfile(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent uses a model, as the config says and as far as the model can."""

    facts: ModelFacts
    output_tokens_max: int
    window: int
    """Tokens of the model's window that the agent may fill."""
    thinking: ThinkingLevel
    params: dict[str, Any]
    """What is added to the agent's requests."""


ProfileOf = Callable[[str, str, int, ListedModel | None], ModelProfile]
"""Of an agent and a model, named as `provider/model`, by the rules of an epoch and by what the model's server has
told."""


class ImageModel(NamedTuple):
    """Who describes pictures to a model that cannot look at them."""

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
    """What the model is told of its tools, also made once. Whether a call is allowed is asked when it is
    made."""
    beginning: str
    """A digest of the two: thinking holds only behind the same."""
    thinking: ThinkingLevel = "off"
    output_tokens_max: int = OUTPUT_TOKENS_MAX
    window: int = 200_000
    """Tokens that the model can read and write at once."""
    meter: Meter | None = None
    """Where the run has a budget; the provider is metered then."""
    can_see: bool = True
    """Whether the model can look at pictures."""
    documents: bool = False
    """Whether it reads PDFs as they are."""
    image_model: ImageModel | None = None
    """Where the model cannot, and the config names one that can."""
    refused: str | None = None
    """Why the model that was chosen for the run or its session is not the one that answers."""
    permission: Permission | None = None
    """Asked for before every model call; the provider asks it already."""
    params: dict[str, Any] = {}
    """What the config adds to the agent's requests."""
    snapshot: str = ""
    """Which state of the workspace's files the system prompt has."""

    @property
    def thinker(self) -> Thinker:
        return Thinker(self.provider.name, self.model, self.beginning, self.snapshot)

    def tools_for(self, said: AssistantMessage) -> Toolset:
        """For the calls of one answer, which a fallback may have given: it has its own rules as well."""
        if said.provider is None or said.model is None:
            return self.tools
        return self.tools.asked_by(f"{said.provider}/{said.model}")

    def spent(self) -> Amount | None:
        """What the next entry of the run has to settle."""
        return self.meter.take() if self.meter else None


class FindProvider(Protocol):
    def get(self, address: str) -> tuple[Provider, str]: ...

    async def discover(self, addresses: Iterable[str]) -> None:
        """Afterwards what is known about these models is as true as their servers tell."""
        ...


class AgentModels(msgspec.Struct, frozen=True):
    """Which models answer for agents."""

    providers: FindProvider
    configured_for: Callable[[str], ChosenModel]
    """An agent's own."""
    choices: ModelChoices
    """Which others may be chosen."""
    profile_of: ProfileOf
    """How an agent uses one of them."""


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
        self._rests = Rests()
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
        """The first that can look at pictures, with the others as its fallbacks. Whether it can be had at all is asked
        when there is a picture: words need none."""
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
        """The chosen model, then its fallbacks. Where there are some, a first choice that is not even configured
        is one that failed."""
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
    """What the message says, else the session, else the agent."""
    level = run.plan.thinking or (session.thinking if session else None)
    return level if level in LEVELS else profile.thinking


class _Digests:
    """Of beginnings. Runs of a session mostly begin alike, so the newest are kept, by Python's own hash of the
    text: that costs a tenth, and lets no other thread in between."""

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
    """A request for the first model as a fallback can read it, with the tools that both may use."""
    its = tools.asked_by(choice.address)
    allowed = [spec for spec in request.tools if not its.is_taken_away(spec.name)]
    request = msgspec.structs.replace(request, tools=allowed)
    if not choice.pictures:
        turns = without_pictures(request.turns)
        request = msgspec.structs.replace(request, turns=turns)
    if not choice.documents:
        turns = in_words_only(request.turns)
        request = msgspec.structs.replace(request, turns=turns)
    return fitted(request, choice.window) if choice.window else request

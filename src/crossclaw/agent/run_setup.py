"""What a run works with: model, system prompt and tools, chosen anew for each run."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import blake2s
from typing import Any, NamedTuple, Protocol, get_args

import msgspec

from crossclaw.agent.fitting import fitted
from crossclaw.agent.meter import Meter, Meters
from crossclaw.agent.permission import Permission, Permissions
from crossclaw.agent.pictures import in_words_only, without_pictures
from crossclaw.agent.prompt import Prompts
from crossclaw.agent.view import Thinker
from crossclaw.config import Config
from crossclaw.config.model import ChosenModel
from crossclaw.domain.agents import ThinkingLevel
from crossclaw.domain.budgets import Amount
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import Run
from crossclaw.domain.sessions import Session
from crossclaw.providers.contract import ModelRequest, Provider, ToolSpec
from crossclaw.providers.fallback import Choice, Fallbacks, Find, Rests
from crossclaw.sessions.choosing import ModelChoices
from crossclaw.tools.toolset import Toolset, Toolsets

LEVELS = get_args(ThinkingLevel)
DIGESTS_KEPT = 2_000  # of the sessions at work; some 300 bytes each
OUTPUT_TOKENS_MAX = 8_192  # where the model's own limit is not known


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
    def get(self, ref: str) -> tuple[Provider, str]: ...

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
    output_tokens_of: Callable[[str], int | None]
    """How much a model, named as `provider/model`, says at most."""


class RunSetups:
    def __init__(
        self,
        config: Config,
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
        refused = self._choices.fault(wished)
        chosen = configured.primary if not wished or refused else self._choices.reference(wished)
        await self._providers.discover((chosen, *configured.fallbacks))
        meter = self._meters.of(run)
        permission = self._permissions.of(run)
        find = permission.on(meter.on(self._providers.get) if meter else self._providers.get)
        allowed = await self._tools(run, chosen)
        provider, model = self._provider(find, chosen, configured.fallbacks, allowed)
        files = await self._prompts.files.begin(run)
        system = await self._prompts.system(run, session, allowed, files)
        specs = [tool.spec for tool in allowed.values()]
        return RunSetup(
            provider,
            model,
            system,
            allowed,
            specs,
            self._digests.of(system, specs),
            self._thinking(run, session),
            self._output_tokens(chosen),
            self._config.window_for(run.key.agent_id, chosen),
            meter,
            self._config.facts_for(chosen).pictures,
            self._config.facts_for(chosen).documents,
            self._image_model(find, chosen),
            refused,
            permission,
            self._config.params_for(run.key.agent_id, chosen),
            self._prompts.files.snapshot(run),
        )

    def _image_model(self, find: Find, chosen: str) -> ImageModel | None:
        """The first that can look at pictures, with the others as its fallbacks."""
        if self._config.facts_for(chosen).pictures:
            return None
        able = [
            name for name in self._config.image_models() if self._config.facts_for(name).pictures
        ]
        if not able:
            return None
        provider, model = self._provider(find, able[0], able[1:], Toolset({}, {}))
        return ImageModel(provider, model, able[0])

    async def _tools(self, run: Run, chosen: str) -> Toolset:
        """Tools that a model cannot call would only fill its window."""
        if not self._config.facts_for(chosen).tools:
            return Toolset({}, {})
        return await self._toolsets.of(run.key, run.authority, chosen)

    def _provider(
        self, find: Find, chosen: str, fallbacks: Sequence[str], tools: Toolset
    ) -> tuple[Provider, str]:
        """Where there are fallbacks, a first choice that is not even configured is one that failed."""
        addresses = dict.fromkeys((chosen, *fallbacks))
        if len(addresses) == 1:
            return find(chosen)
        choices = [self._choice(address) for address in addresses]
        model = chosen.partition("/")[2]
        return Fallbacks(find, choices, self._rests, partial(fit, tools)), model

    def _choice(self, address: str) -> Choice:
        facts = self._config.facts_for(address)
        output = self._output_tokens(address)
        return Choice(address, output, facts.window, facts.pictures, facts.documents)

    def _output_tokens(self, address: str) -> int:
        return self._models.output_tokens_of(address) or OUTPUT_TOKENS_MAX

    def _thinking(self, run: Run, session: Session | None) -> ThinkingLevel:
        """What the message says, else the session, else the agent."""
        level = run.plan.thinking or (session.thinking if session else None)
        if level in LEVELS:
            return level  # type: ignore[return-value]
        return self._config.agents.thinking_for(run.key.agent_id) or "off"


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

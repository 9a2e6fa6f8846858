"""Models: which of them may be chosen, by a session, a spawn, a job, a hook or a request.

`agents.defaults.models`, if it is given, is the allow list (`provider/*` stands for all of one). A provider
that lists its models has no others. What the config itself names is always allowed.
"""

from collections.abc import Mapping
from functools import lru_cache

from crossclaw.config import Config
from crossclaw.config.agents import ModelUse
from crossclaw.config.current import CurrentConfig
from crossclaw.config.model import default_model
from crossclaw.config.named_models import named_models
from crossclaw.config.providers import ProviderEntry
from crossclaw.domain.agents import AGENTS_REMEMBERED
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Forbidden
from crossclaw.policy.decision import Decision

LISTED_MAX = 20  # in a refusal; a longer list helps nobody to choose


class ModelNotAllowed(Forbidden):
    pass


class ModelRules:
    """The rules of the config in force. What follows from them is computed once for each epoch: it is asked
    with every run and for every row of a list."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self._config = config
        self._environ = environ
        self._made_at: int | None = None

    def _refresh(self) -> None:
        epoch = self._config.epoch if isinstance(self._config, CurrentConfig) else 0
        if epoch == self._made_at:
            return
        config, environ, self._made_at = self._config, self._environ, epoch
        self._aliases_now = config.agents.aliases()
        written = [self._reference(name) for _path, name in named_models(config)]
        self._named_now = dict.fromkeys([*written, default_model(config, environ)])
        self._default_of = lru_cache(AGENTS_REMEMBERED)(
            lambda agent_id: config.shown_model_for(agent_id, environ)
        )

    @property
    def _providers(self) -> Mapping[str, ProviderEntry]:
        return self._config.models.providers

    @property
    def _listed(self) -> Mapping[str, ModelUse]:
        return self._config.agents.defaults.models

    @property
    def _named(self) -> Mapping[str, None]:
        self._refresh()
        return self._named_now

    def reference(self, name: str) -> str:
        """The reference `provider/model` for an alias, or for a model's own name that one provider lists."""
        self._refresh()
        return self._reference(name)

    def _reference(self, name: str) -> str:
        chosen = self._aliases_now.get(name.strip().lower(), name.strip())
        if "/" in chosen:
            return chosen
        found = [each for each, entry in self._providers.items() if entry.find_model(chosen)]
        return f"{found[0]}/{chosen}" if len(found) == 1 else chosen

    def decide(self, reference: str) -> Decision:
        if reference in self._named:
            return Decision(True, "the config names it")
        provider = reference.partition("/")[0]
        if self._listed and not {reference, f"{provider}/*"} & self._listed.keys():
            return _refused(reference, self.allowed(), "agents.defaults.models allows")
        if self._is_unlisted(reference):
            listed = [f"{provider}/{each.id}" for each in self._providers[provider].models]
            return _refused(reference, listed, f"models.providers.{provider}.models has")
        return Decision(True, "agents.defaults.models allows it" if self._listed else "any may be")

    def _is_unlisted(self, reference: str) -> bool:
        """Whether its provider lists models, and not this one."""
        provider, _, model = reference.partition("/")
        entry = self._providers.get(provider)
        return entry is not None and bool(entry.models) and entry.find_model(model) is None

    def require(self, reference: str) -> None:
        decision = self.decide(reference)
        if not decision.allowed:
            raise ModelNotAllowed(decision.reason)

    def require_for(self, authority: Authority, reference: str) -> None:
        """Raises if a model may not be used, by the config or by the authority of the run."""
        self.require(reference)
        if authority.models is not None and not authority.allows_model(reference):
            allowed = ", ".join(sorted(authority.models))
            raise ModelNotAllowed(f"model not allowed: {reference}; this run was given: {allowed}")

    def allowed(self) -> list[str]:
        """The models that may be chosen if there is an allow list; empty if there is none."""
        if not self._listed:
            return []
        usable = [each for each in self._listed if each[-2:] == "/*" or not self._is_unlisted(each)]
        return list(dict.fromkeys([*usable, *self._named]))

    def in_use(self, agent_id: str, chosen: str | None) -> str:
        """The model that a session uses. A choice that is no longer allowed counts as none."""
        if chosen and self.decide(reference := self.reference(chosen)).allowed:
            return reference
        self._refresh()
        return self._default_of(agent_id)

    def fault(self, chosen: str | None) -> str | None:
        """Why a stored choice does not count any more; None if it does."""
        if not chosen:
            return None
        decision = self.decide(self.reference(chosen))
        return None if decision.allowed else decision.reason


def _refused(reference: str, allowed: list[str], where: str) -> Decision:
    names = ", ".join(allowed[:LISTED_MAX])
    more = f" and {len(allowed) - LISTED_MAX} more" if len(allowed) > LISTED_MAX else ""
    return Decision(False, f"model not allowed: {reference}; {where}: {names}{more}")

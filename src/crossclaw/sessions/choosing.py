"""Choosing a model: a name becomes a reference that somebody here answers to and the config allows."""

from collections.abc import Callable

from crossclaw.domain.errors import Invalid, ProviderError
from crossclaw.policy.models import ModelRules


class ModelChoices:
    """The models that can be chosen. `find` raises for a reference that no provider answers; `key_fault` says
    why one lacks a key."""

    def __init__(
        self,
        rules: ModelRules,
        find: Callable[[str], object],
        key_fault: Callable[[str], str | None] = lambda reference: None,
    ) -> None:
        self.key_fault = key_fault
        self._rules = rules
        self._find = find
        self.reference = rules.reference
        self.in_use = rules.in_use
        self.fault = rules.fault
        self.require = rules.require
        self.require_for = rules.require_for
        self.allowed = rules.allowed

    def check(self, name: str, complaint: str = "invalid model") -> str:
        """The model reference that a name stands for. A wrong one is refused now, not with the next message."""
        reference = self._rules.reference(name)
        try:
            self._find(reference)
        except ProviderError as error:
            raise Invalid(f"{complaint} {name!r}: {error}") from None
        self._rules.require(reference)
        return reference

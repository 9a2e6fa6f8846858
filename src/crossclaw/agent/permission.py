"""Permission: no model is called for a run that may not go on, or that may no longer use this
model.

It is asked before every model call of the run, as the meter is: the chosen model, its fallbacks,
the one that writes summaries. The rules are those in force at the moment of each call.
"""

from collections.abc import Callable

from crossclaw.agent.wrapping import wrapped
from crossclaw.domain.authority import Authority
from crossclaw.domain.messages import AssistantMessage
from crossclaw.domain.runs import Run
from crossclaw.policy.credentials import Credentials
from crossclaw.providers.contract import ModelRequest, Provider, TellPiece
from crossclaw.providers.fallback import Find

RequireModel = Callable[[Authority, str], None]
"""Raises if a run with this authority may not use the model, named as `provider/model`."""


class Permissions:
    def __init__(self, credentials: Credentials, require_model: RequireModel) -> None:
        self._credentials = credentials
        self._require_model = require_model

    def of(self, run: Run) -> "Permission":
        return Permission(run, self)

    def check(self, run: Run, address: str) -> None:
        self._credentials.require(run.authority)
        self._require_model(run.authority, address)


class Permission:
    def __init__(self, run: Run, permissions: Permissions) -> None:
        self._run = run
        self._permissions = permissions

    def on(self, find: Find) -> Find:
        """Wraps each provider that `find` returns: it asks for permission first."""
        return wrapped(find, lambda provider, address: _Permitted(provider, address, self))

    def check(self, address: str) -> None:
        self._permissions.check(self._run, address)


class _Permitted:
    def __init__(self, provider: Provider, address: str, permission: Permission) -> None:
        self.name = provider.name
        self._provider = provider
        self._address = address
        self._permission = permission

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self._permission.check(self._address)
        return await self._provider.complete(request, tell)

    async def close(self) -> None:
        await self._provider.close()

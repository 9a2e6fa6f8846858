"""Dispatch: the one way in. Scope, then parameters, then the handler; refusals are remembered."""

import re
from contextvars import ContextVar
from typing import Any

import msgspec

from crossclaw.domain.agents import DEFAULT_AGENT_ID
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CredentialEnded, Forbidden, Invalid
from crossclaw.door.principal import Principal, Scope
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Audit
from crossclaw.policy.credentials import Credentials

REASON_CHARS_MAX = 500  # of a refusal in the audit; a caller's own words may be in it


class MissingScope(Forbidden):
    """On protocol 3 its code is INVALID_REQUEST; the frames know."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"missing scope: {scope}")
        self.scope = scope


class UnknownMethod(Invalid):
    pass


class Call:
    """A call under way."""

    def __init__(self, caller: Caller) -> None:
        self.listening = caller.listening
        self.ended_a_credential = False
        """One that ends the credential it came by still hears that it did."""


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def call_under_way() -> Call | None:
    """The call that what happens now is done for."""
    return _CALL.get()


class Door:
    def __init__(
        self, registry: Registry, ledger: Ledger, clock: Clock, credentials: Credentials
    ) -> None:
        self.registry = registry
        self.credentials = credentials
        self._ledger = ledger
        self._clock = clock
        credentials.listen(_remember_who_ended)

    async def dispatch(self, caller: Caller, name: str, params: Any) -> Any:
        authority = caller.principal.authority
        self.credentials.require(authority)
        method = self.registry.find(name)
        await self._check_scope(caller.principal, name, method)
        if method is None:
            raise UnknownMethod(f"unknown method: {name}")
        call = Call(caller)
        before = _CALL.set(call)
        try:
            answer = await method.handle(caller, read_params(method, params))
            if not call.ended_a_credential:
                self.credentials.require(authority)  # ended meanwhile: then it hears nothing
            return answer
        except CredentialEnded:
            raise
        except Forbidden as refusal:
            await self._remember(caller.principal, name, str(refusal))
            raise
        finally:
            _CALL.reset(before)
            call.listening = None  # whatever the call began and lives on has a copy of its context

    async def _check_scope(
        self, principal: Principal, name: str, method: Method[Any] | None
    ) -> None:
        if principal.role == "node" and (method is None or method.scope != "node"):
            await self._remember(principal, name, "unauthorized role: node")
            raise Forbidden("unauthorized role: node")
        if method is not None and not principal.has(method.scope):
            await self._remember(principal, name, f"missing scope: {method.scope}")
            raise MissingScope(method.scope)

    async def _remember(self, principal: Principal, name: str, reason: str) -> None:
        await self._ledger.do(
            Audit(
                at=self._clock.now_ms(),
                agent_id=principal.agent_id or DEFAULT_AGENT_ID,
                principal=principal.name,
                action=name[:100],
                target="",
                allowed=False,
                reason=reason[:REASON_CHARS_MAX],
            )
        )


def _remember_who_ended() -> None:
    if (call := _CALL.get()) is not None:
        call.ended_a_credential = True


def read_params(method: Method[Any], params: Any) -> Any:
    if isinstance(
        params, method.params
    ):  # a tool has read its arguments; from outside comes only JSON
        return params
    try:
        return msgspec.convert({} if params is None else params, method.params)
    except msgspec.ValidationError as error:
        raise Invalid(f"invalid {method.name} params: {_in_words(str(error))}") from None


_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`")
_MISSING = re.compile(r"Object missing required field `(.+?)`")
_PLACE = re.compile(r" - at `\$(.*?)`$")


def _in_words(text: str) -> str:
    """OpenClaw's way to say where and what, which its users know."""
    place = _PLACE.search(text)
    where = place.group(1).replace(".", "/").replace("[...]", "/*") if place else ""
    what = _PLACE.sub("", text)
    what = _UNKNOWN.sub(r"unexpected property '\1'", what)
    what = _MISSING.sub(r"must have required property '\1'", what)
    return f"at {where or 'root'}: {what}"

"""Dispatch: the one way in. Scope, then parameters, then the handler; refusals are written to the audit."""

import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec

from crossclaw.domain.agents import DEFAULT_AGENT_ID
from crossclaw.domain.clock import Clock
from crossclaw.domain.errors import CredentialEnded, Forbidden, Invalid
from crossclaw.door.principal import Principal, Scope
from crossclaw.door.registry import Caller, Method, Registry
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.operations import Audit
from crossclaw.policy.credentials import Credentials

T = TypeVar("T")

REASON_CHARS_MAX = 500  # of a refusal in the audit; a caller's own words may be in it


class MissingScope(Forbidden):
    """The caller lacks a scope. On protocol 3 its code is INVALID_REQUEST; the frames know."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(f"missing scope: {scope}")
        self.scope = scope


class UnknownMethod(Invalid):
    pass


class Call:
    """A call under way, and the one within which it is made."""

    def __init__(self, caller: Caller, outer: "Call | None") -> None:
        self.listening = caller.listening
        self.outer = outer
        self.refusal: Forbidden | None = None
        """The refusal within it that is in the audit already."""
        self.ended_a_credential = False
        """Whether it ended the credential it came by: it still gets its answer."""


_CALL: ContextVar[Call | None] = ContextVar("call", default=None)


def call_under_way() -> Call | None:
    """The call on whose behalf the current code runs."""
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
        method = self.registry.find(name)

        async def handle() -> Any:
            require_scope(caller.principal, None if method is None else method.scope)
            if method is None:
                raise UnknownMethod(f"unknown method: {name}")
            return await method.handle(caller, read_params(method, params))

        return await self.enter(caller, name, handle)

    async def allow(self, caller: Caller, name: str) -> None:
        """Raises where a caller may not call a method, as `dispatch` does: for whoever does the same in a step of
        its own."""
        method = self.registry.find(name)
        assert method is not None

        async def check() -> None:
            require_scope(caller.principal, method.scope)

        await self.enter(caller, name, check)

    async def enter(self, caller: Caller, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Does what a caller outside asks for: a method, or a tool by its own name. The caller's credential counts
        before and after it, and a refusal is written to the audit, once."""
        authority = caller.principal.authority
        self.credentials.require(authority)
        call = Call(caller, _CALL.get())
        before = _CALL.set(call)
        try:
            answer = await work()
            if not call.ended_a_credential:
                self.credentials.require(authority)  # ended meanwhile: then it hears nothing
            return answer
        except CredentialEnded:
            raise
        except Forbidden as refusal:
            await self._remember(call, caller.principal, name, refusal)
            raise
        finally:
            _CALL.reset(before)
            # Whatever the call began and lives on has a copy of its context: it holds nobody.
            call.listening = call.outer = None

    async def _remember(
        self, call: Call, principal: Principal, name: str, refusal: Forbidden
    ) -> None:
        if call.outer is not None:
            call.outer.refusal = refusal
        if call.refusal is not refusal:
            await self._write_audit(principal, name, str(refusal))

    async def _write_audit(self, principal: Principal, name: str, reason: str) -> None:
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


def require_scope(principal: Principal, scope: Scope | None) -> None:
    if principal.role == "node" and scope != "node":
        raise Forbidden("unauthorized role: node")
    if scope is not None and not principal.has(scope):
        raise MissingScope(scope)


def _remember_who_ended() -> None:
    call = _CALL.get()
    while call is not None:
        call.ended_a_credential = True
        call = call.outer


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
    """A validation error in OpenClaw's form, which its users know: where, and what."""
    place = _PLACE.search(text)
    where = place.group(1).replace(".", "/").replace("[...]", "/*") if place else ""
    what = _PLACE.sub("", text)
    what = _UNKNOWN.sub(r"unexpected property '\1'", what)
    what = _MISSING.sub(r"must have required property '\1'", what)
    return f"at {where or 'root'}: {what}"

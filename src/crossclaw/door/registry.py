"""The registry of methods: each declares its scope and its effect; its handler's annotations declare
parameters and result."""

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    MutableMapping,
    MutableSet,
)
from functools import cache
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import CrossclawError
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.door.principal import Principal, Scope

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R")
H = TypeVar("H", bound=Callable[..., Any])

MethodEffect = Literal["read", "change", "run"]
"""read: nothing changes; change: something stored changes; run: an agent is set to work."""


class RegistryIncomplete(CrossclawError):
    """A method is not fully declared: the gateway must not start."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Parameters of a method: a closed object with OpenClaw's names."""


class NoParams(Params, frozen=True):
    """The parameters of a method that takes none."""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The answer of a method, with OpenClaw's names; what is left at its default is left out."""


class TwoAnswers(msgspec.Struct, Generic[R], frozen=True):
    """A method that answers at once and again when the work is done, under one request id."""

    first: R
    later: Callable[[], Awaitable[R]]


class Listening:
    """The events that one connection gets. Only its owner changes it; a caller without one (HTTP, a tool)
    cannot subscribe."""

    def __init__(self) -> None:
        self.all_sessions = False
        self.sessions: MutableSet[SessionKey] = set()
        self.runs: MutableMapping[str, str] = {}
        """Runs that this connection started, with the session key as it spelled it: their events come
        to it, subscribed or not, under that spelling."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a method, and the transport it came by."""

    principal: Principal
    listening: Listening | None = None
    protocol: int = 4
    client_id: str | None = None
    local: bool = False
    """Whether it runs on the gateway's own machine, as far as a connection can say."""
    run: Run | None = None
    call_id: str | None = None
    """The run and the tool call that ask, when a tool does: the same call again is one request."""

    def within(self, limits: Authority) -> "Caller":
        """The same caller, who may do no more than these limits allow."""
        authority = self.principal.authority.meet(limits)
        principal = msgspec.structs.replace(self.principal, authority=authority)
        return msgspec.structs.replace(self, principal=principal)


MethodHandler = Callable[[Caller, P], Awaitable[Any]]


class Method(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    name: str
    params: type[P]
    result: Any
    scope: Scope
    effect: MethodEffect
    handle: MethodHandler[P]
    summary: str
    hidden: bool = False
    """Whether it works without being named in `features.methods`."""


class _Declared(msgspec.Struct, frozen=True):
    """The declaration that a handler is marked with."""

    name: str
    scope: Scope
    effect: MethodEffect
    summary: str
    hidden: bool


def method(
    name: str, scope: Scope, effect: MethodEffect, summary: str, *, hidden: bool = False
) -> Callable[[H], H]:
    """Marks a handler, `async def …(self, caller: Caller, params: …) -> …`, as a method of the door."""

    def mark(handler: H) -> H:
        setattr(handler, _MARK, _Declared(name, scope, effect, summary, hidden))
        return handler

    return mark


_MARK = "__method__"
_SCOPES, _EFFECTS = frozenset(get_args(Scope)), frozenset(get_args(MethodEffect))


def methods_of(*services: object) -> list[Method[Any]]:
    """The marked handlers of these objects, in the order in which they are written."""
    return [method for service in services for method in _marked(service)]


def _marked(service: object) -> list[Method[Any]]:
    kind: Any = type(service)
    found = _declared_in(kind)
    if not found:
        raise RegistryIncomplete(f"{type(service).__name__} has no handler that is marked @method")
    return [
        method_of(getattr(service, name), **msgspec.structs.asdict(declared))
        for name, declared in found
    ]


@cache
def _declared_in(service: type[Any]) -> list[tuple[str, _Declared]]:
    """The marked handlers of a class. A changed config opens the gateway anew; they stay the same."""
    marked = [(name, getattr(value, _MARK, None)) for name, value in vars(service).items()]
    return [(name, declared) for name, declared in marked if declared is not None]


def method_of(handle: MethodHandler[Any], **declared: Any) -> Method[Any]:
    """A method whose parameters and result are read from the annotations of its handler."""
    params, result = _annotated(getattr(handle, "__func__", handle))
    return Method(params=params, result=result, handle=handle, **declared)


@cache
def _annotated(function: Callable[..., object]) -> tuple[Any, Any]:
    """The types of a handler's parameters and result."""
    hints = get_type_hints(function)
    result = hints.get("return")
    if get_origin(result) is TwoAnswers:
        (result,) = get_args(result)
    return hints.get("params", object), result


class Registry:
    def __init__(self, methods: Iterable[Method[Any]]) -> None:
        self._methods: dict[str, Method[Any]] = {}
        for method in methods:
            _refuse_incomplete(method)
            if method.name in self._methods:
                raise RegistryIncomplete(f"there are two methods {method.name}")
            self._methods[method.name] = method

    def __iter__(self) -> Iterator[Method[Any]]:
        return iter(self._methods.values())

    def find(self, name: str) -> Method[Any] | None:
        return self._methods.get(name)

    @property
    def names(self) -> list[str]:
        return [method.name for method in self if not method.hidden]


def _refuse_incomplete(method: Method[Any]) -> None:
    closed = isinstance(method.params, type) and issubclass(method.params, Params)
    if not method.name or not closed:
        raise RegistryIncomplete(f"method {method.name!r} needs a closed params type")
    if method.scope not in _SCOPES:
        raise RegistryIncomplete(f"method {method.name} has no known scope: {method.scope!r}")
    if method.effect not in _EFFECTS:
        raise RegistryIncomplete(f"method {method.name} has no known effect: {method.effect!r}")
    if method.result is None or not method.summary:
        raise RegistryIncomplete(f"method {method.name} needs a result type and a summary")

"""The door: nothing half-declared behind it, and refusals that say where and what."""

import gc
import weakref
from contextlib import suppress
from contextvars import Context, copy_context
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.domain.authority import Authority, CredentialRef
from crossclaw.domain.errors import CredentialEnded, Forbidden, Invalid
from crossclaw.domain.keys import SessionKey
from crossclaw.door.dispatch import Door, read_params
from crossclaw.door.principal import Scope, person_principal, session_principal
from crossclaw.door.registry import (
    Caller,
    Listening,
    Method,
    Params,
    Registry,
    RegistryIncomplete,
    Result,
    TwoAnswers,
    method,
    methods_of,
)
from crossclaw.ledger.opening import open_ledger
from crossclaw.policy.credentials import Credentials
from crossclaw.testing import VirtualClock
from tests.stores import look_into


class Inner(Params, frozen=True):
    size: int


class Wanted(Params, frozen=True):
    session_key: str
    limit: int = 5
    inner: Inner | None = None


async def handle(caller: Caller, params: Wanted) -> Any:
    return params.limit


GOOD = Method(
    name="x",
    params=Wanted,
    result=int,
    scope="operator.read",
    effect="read",
    handle=handle,
    summary="X.",
)


class Open(msgspec.Struct):
    anything: int = 0


@pytest.mark.spec("B3")
@pytest.mark.parametrize(
    "flaw",
    [
        {"scope": None},
        {"scope": "operator.everything"},
        {"effect": None},
        {"params": Open},
        {"params": None},
        {"result": None},
        {"summary": ""},
        {"name": ""},
    ],
)
def test_a_gateway_with_a_half_declared_method_does_not_start(flaw: dict[str, Any]) -> None:
    with pytest.raises(RegistryIncomplete):
        Registry([msgspec.structs.replace(GOOD, **flaw)])


class Answer(Result, frozen=True):
    size: int = 0


class Service:
    @method("one", "operator.read", "read", "One.")
    async def first(self, caller: Caller, params: Wanted) -> Answer:
        return Answer(size=params.limit)

    async def helper(self, caller: Caller, params: Inner) -> Answer:
        raise AssertionError("it is no method")

    @method("two", "operator.write", "run", "Two.", hidden=True)
    async def second(self, caller: Caller, params: Inner) -> TwoAnswers[Answer]:
        raise AssertionError("it is not called here")


def test_a_method_is_what_its_handler_says() -> None:
    service = Service()
    one, two = methods_of(service)

    assert one == Method(
        name="one", params=Wanted, result=Answer, scope="operator.read", effect="read",
        handle=service.first, summary="One.",
    )  # fmt: skip
    assert (two.name, two.params, two.result, two.hidden) == ("two", Inner, Answer, True)
    assert (two.scope, two.effect) == ("operator.write", "run")


@pytest.mark.parametrize("said", ["params", "return"])
def test_a_handler_without_its_types_is_no_method(said: str) -> None:
    class Unsaid:
        @method("x", "operator.read", "read", "X.")
        async def first(self, caller: Caller, params: Wanted) -> Answer:
            raise AssertionError("it is not called here")

    del Unsaid.first.__annotations__[said]
    with pytest.raises(RegistryIncomplete):
        Registry(methods_of(Unsaid()))


def test_a_service_without_a_marked_handler_is_not_left_out_silently() -> None:
    with pytest.raises(RegistryIncomplete, match="object has no handler"):
        methods_of(Service(), object())


def test_what_a_tool_has_read_is_not_read_again() -> None:
    """A limit that the wire would refuse shows that nobody looks twice; from outside comes no such object."""
    read = Wanted(session_key="a", limit="many")  # type: ignore[arg-type]

    assert read_params(GOOD, read) is read


def test_a_name_stands_for_one_method() -> None:
    with pytest.raises(RegistryIncomplete, match="two methods x"):
        Registry([GOOD, GOOD])


def test_hidden_methods_are_not_offered_but_found() -> None:
    registry = Registry([GOOD, msgspec.structs.replace(GOOD, name="tool.y", hidden=True)])

    assert registry.names == ["x"]
    assert registry.find("tool.y") is not None


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({"sessionKey": "a", "x": 1}, "invalid x params: at root: unexpected property 'x'"),
        ({}, "invalid x params: at root: must have required property 'sessionKey'"),
        (None, "invalid x params: at root: must have required property 'sessionKey'"),
        ({"sessionKey": 7}, "invalid x params: at /sessionKey: Expected `str`, got `int`"),
        ({"sessionKey": "a", "inner": {}}, "at /inner: must have required property 'size'"),
        ([], "invalid x params: at root: Expected `object`, got `array`"),
    ],
)
def test_a_refused_parameter_is_named_with_its_place(params: Any, complaint: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_params(GOOD, params)

    assert complaint in str(refusal.value)


@pytest.mark.spec("B3")
@pytest.mark.parametrize(
    ("scopes", "may"),
    [
        (set(), set()),
        ({"operator.read"}, {"operator.read"}),
        ({"operator.write"}, {"operator.read", "operator.write"}),
        ({"operator.pairing"}, {"operator.pairing"}),
        (
            {"operator.admin"},
            {
                "operator.read",
                "operator.write",
                "operator.admin",
                "operator.approvals",
                "operator.pairing",
            },
        ),
        ({"operator.everything"}, set()),
    ],
)
def test_a_scope_includes_what_it_says_and_no_more(scopes: set[str], may: set[str]) -> None:
    principal = person_principal("p", scopes)
    every: list[Scope] = [
        "operator.read", "operator.write", "operator.admin", "operator.approvals", "operator.pairing", "node",
    ]  # fmt: skip

    assert {scope for scope in every if principal.has(scope)} == may


@pytest.mark.spec("B3")
def test_a_session_that_acts_through_its_tools_administers_nothing() -> None:
    authority = Authority(sandboxed=True)
    principal = session_principal(SessionKey.main("ops"), authority)

    assert not principal.has("operator.admin")
    assert principal.has("operator.write")
    assert (principal.agent_id, principal.authority) == ("ops", authority)


async def test_what_a_call_began_and_lives_on_does_not_hold_the_connection_that_asked() -> None:
    begun = list[Context]()

    async def begin(caller: Caller, params: Wanted) -> Any:
        begun.append(copy_context())  # as every task has it that is started here
        return 1

    ledger: Any = None  # for refusals alone
    registry = Registry([msgspec.structs.replace(GOOD, handle=begin)])
    door = Door(registry, ledger, VirtualClock(), Credentials())
    listening = Listening()
    gone = weakref.ref(listening)
    caller = Caller(principal=person_principal("p", {"operator.read"}), listening=listening)

    assert await door.dispatch(caller, "x", {"sessionKey": "main"}) == 1
    del caller, listening
    gc.collect()

    assert len(begun) == 1
    assert gone() is None


async def test_a_call_within_a_call_that_ends_their_credential_is_answered_to_both() -> None:
    ledger: Any = None  # for refusals alone
    credentials = Credentials()
    credentials.put("token", 1)
    door = Door(Registry([]), ledger, VirtualClock(), credentials)
    made_by = frozenset({CredentialRef("token", 1)})
    principal = person_principal("p", {"operator.admin"})
    authority = msgspec.structs.replace(principal.authority, made_by=made_by)
    caller = Caller(principal=msgspec.structs.replace(principal, authority=authority))

    async def end() -> str:
        credentials.drop("token")
        return "ended"

    async def ask() -> str:
        return await door.enter(caller, "inner", end)

    assert await door.enter(caller, "outer", ask) == "ended"
    with pytest.raises(CredentialEnded):
        await door.enter(caller, "next", ask)


async def test_a_refusal_within_a_call_stands_in_the_audit_once_and_another_one_too(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    door = Door(Registry([]), ledger, VirtualClock(), Credentials())
    caller = Caller(principal=person_principal("p", {"operator.admin"}))

    async def refuse() -> None:
        raise Forbidden("not this")

    async def ask() -> None:
        await door.enter(caller, "inner", refuse)

    async def ask_twice() -> None:
        with suppress(Forbidden):
            await door.enter(caller, "inner", refuse)
        raise Forbidden("nor that")

    for work in (ask, ask_twice):
        with pytest.raises(Forbidden):
            await door.enter(caller, "outer", work)
    db = look_into(tmp_path / "ledger.sqlite")
    rows = list(db.execute("SELECT action, reason FROM audit ORDER BY id"))
    db.close()
    await ledger.close()

    assert rows == [("inner", "not this"), ("inner", "not this"), ("outer", "nor that")]

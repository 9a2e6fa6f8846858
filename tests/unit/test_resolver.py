"""The resolver: what is hidden and what is not there take the same reads and get the same answer."""

from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.sessions import NewSession
from crossclaw.door.principal import Principal, person_principal, session_principal
from crossclaw.door.resolver import Resolver, Right
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import EnsureSession, ResetSession

HIDDEN = SessionKey.main("ops")
HIDDEN_ID = str(uuid5(NAMESPACE_URL, "hidden"))


class Watched:
    """A ledger whose reads are written down."""

    def __init__(self, ledger: Ledger) -> None:
        self.reads: list[str] = []
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        self.reads.append(name)
        return getattr(self._ledger, name)


async def reads_of(
    ledger: Ledger, config: Config, authority: Authority, reference: str, right: Right
) -> list[str]:
    watched: Any = Watched(ledger)
    principal = session_principal(SessionKey.named("main", "me"), authority)
    with pytest.raises(NotFound, match=f"^unknown session: {reference}$"):
        await Resolver(watched, config).resolve(principal, reference, right)
    reads: list[str] = watched.reads
    return reads


@pytest.mark.spec("V3", "H4")
@pytest.mark.parametrize("right", ["see", "read", "send"])
@pytest.mark.parametrize("roots", [None, frozenset({"agent:main:me"})])
@pytest.mark.parametrize("visibility", ["spawned", "self", "tree", "agent"])
async def test_hidden_and_missing_take_the_same_reads(
    tmp_path: Path, visibility: str, roots: frozenset[str] | None, right: Right
) -> None:
    sandboxed = visibility == "spawned"
    tools = {} if sandboxed else {"sessions": {"visibility": visibility}}
    raw = {"agents": {"list": [{"id": "main"}, {"id": "ops"}, {"id": "hr"}]}, "tools": tools}
    config, authority = msgspec.convert(raw, Config), Authority(sandboxed=sandboxed, roots=roots)
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    await ledger.do(EnsureSession(new=NewSession(key=HIDDEN, session_id=HIDDEN_ID), at=1))

    pairs = [
        (HIDDEN.text, "agent:hr:main"),
        (HIDDEN.text, "agent:nope:main"),
        (HIDDEN_ID.upper(), str(uuid5(NAMESPACE_URL, "missing"))),
    ]
    for hidden, missing in pairs:
        found = [
            await reads_of(ledger, config, authority, name, right) for name in (hidden, missing)
        ]
        assert found[0] == found[1]
    await ledger.close()


@pytest.mark.spec("S1", "K6")
async def test_only_a_person_names_a_session_that_is_not_there_yet(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    resolver = Resolver(ledger, Config())
    agent = session_principal(SessionKey.main("main"), Authority())
    node = Principal(
        name="phone",
        role="node",
        scopes=frozenset({"node"}),
        sight="node",
        node_id="phone",
        authority=Authority(),
    )
    for nobody in (agent, node):
        with pytest.raises(NotFound, match="unknown session: agent:main:new"):
            await resolver.resolve(nobody, "agent:main:new", "create")

    person = person_principal("token", {"operator.write"})
    handle = await resolver.resolve(person, "agent:main:new", "create")

    assert (handle.key.text, handle.session) == ("agent:main:new", None)
    await ledger.close()


@pytest.mark.spec("S1", "K6")
async def test_a_label_is_looked_for_at_the_agent_that_is_named(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    for agent in ("main", "ops"):
        new = NewSession(key=SessionKey.named(agent, "x"), session_id=f"of-{agent}", label="twin")
        await ledger.do(EnsureSession(new=new, at=1))
    config = msgspec.convert({"agents": {"list": [{"id": "main"}, {"id": "ops"}]}}, Config)
    resolver, person = Resolver(ledger, config), person_principal("p", {"operator.read"})

    found = await resolver.resolve_label(person, " twin ", "Ops", "see")
    with pytest.raises(
        Invalid, match=r"several sessions have the label 'twin': agent:\w+:x, agent:\w+:x;"
    ):
        await resolver.resolve_label(person, "twin", None, "see")

    assert found.key == SessionKey.named("ops", "x")
    await ledger.close()


@pytest.mark.spec("K6")
async def test_a_key_of_another_agent_than_the_one_named_is_refused(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    config = msgspec.convert({"agents": {"list": [{"id": "main"}, {"id": "ops"}]}}, Config)
    resolver, person = Resolver(ledger, config), person_principal("p", {"operator.admin"})

    with pytest.raises(Invalid, match="belongs to agent ops, not to agent main"):
        await resolver.resolve(person, "agent:ops:main", "create", "main")
    found = await resolver.resolve(person, "agent:ops:main", "create", "ops")

    assert found.key == SessionKey.main("ops")
    await ledger.close()


@pytest.mark.spec("C1", "K6")
@pytest.mark.parametrize("session_id", [f"{HIDDEN_ID}-1", "notes-of-May"])
async def test_an_imported_transcript_is_found_by_its_id_whatever_that_is(
    tmp_path: Path, session_id: str
) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    await ledger.do(EnsureSession(new=NewSession(key=HIDDEN, session_id=session_id), at=1))
    resolver, person = Resolver(ledger, Config()), person_principal("p", {"operator.read"})

    found = await resolver.resolve(person, session_id, "create")
    await ledger.do(ResetSession(key=HIDDEN, session_id=str(uuid5(NAMESPACE_URL, "new")), at=2))
    closed = await resolver.resolve_transcript(person, session_id)

    assert found.key == closed.key == HIDDEN
    assert closed.session is not None
    assert closed.session.session_id == session_id
    await ledger.close()


@pytest.mark.spec("V3")
async def test_whoever_was_given_sessions_by_name_sees_these_and_no_other(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    resolver = Resolver(ledger, Config())
    mine, other = SessionKey.named("main", "mine"), SessionKey.named("main", "other")
    person = resolver.given(person_principal("page", {"operator.read"}), mine)
    seen = [await resolver.sees(person, key) for key in (mine, other)]
    await ledger.close()

    assert seen == [True, False]


async def test_a_tool_that_names_no_session_means_the_callers_own_and_never_another(
    tmp_path: Path,
) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", inline=True)
    main = SessionKey.main("main")
    await ledger.do(EnsureSession(new=NewSession(key=main, session_id=HIDDEN_ID), at=1))
    resolver = Resolver(ledger, Config())

    begun = session_principal(main, Authority())
    assert (await resolver.get_session(begun, None, "change")).key == main
    person = person_principal("cli", {"operator.admin"})
    assert (await resolver.get_session(person, None, "change")).key == main
    not_begun = session_principal(SessionKey.named("main", "new"), Authority(owner=True))
    with pytest.raises(NotFound, match=r"^unknown session: agent:main:new$"):
        await resolver.get_session(not_begun, None, "change")
    await ledger.close()

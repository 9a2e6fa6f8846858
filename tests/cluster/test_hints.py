"""Hints between gateways: what one stores the others hear at once, and find by themselves when it was not heard."""

import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from crossclaw.domain.aliases import Hints
from crossclaw.domain.authority import CredentialRef
from crossclaw.door.principal import person_principal
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.gateways import CREDENTIALS
from crossclaw.ledger.hints import ENDED, ENTRIES, LANES
from crossclaw.ledger.operations import DeleteCredential, EndRun, PutCredential
from crossclaw.ledger.postgres import listener, store, writer
from crossclaw.ledger.postgres.errors import ConnectionLost
from crossclaw.ledger.postgres.wire import Fate, PgWire, StatementGroup
from crossclaw.testing import ScriptedProvider
from tests.cluster.devices import device_of_an_owner
from tests.cluster.test_server import end_connections
from tests.cluster.test_several_writers import Pair
from tests.cluster.test_two_gateways import one_gateway
from tests.databases import databases
from tests.ending import SOON_S
from tests.ledger.making import ANA, OK, begun, session, submit


class UnansweredWire(PgWire):
    """Loses the connection once, after the server has stored what it was given and before anybody was notified."""

    cut = False

    def run_pipelined(self, groups: Sequence[StatementGroup]) -> list[Fate]:
        if not UnansweredWire.cut or groups[0][-1].statement.sql != b"COMMIT":
            return super().run_pipelined(groups)
        UnansweredWire.cut = False
        super().run_pipelined(groups[:1])
        self.close()
        raise ConnectionLost("cut")


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Pair]:
    monkeypatch.setattr(store, "PgWire", UnansweredWire)
    both = Pair(tmp_path, databases().url(tmp_path / "ledger"))
    yield both
    await both.close()


class Ear:
    """Hears one kind of hints."""

    def __init__(self, ledger: Ledger, kind: str) -> None:
        self.heard: list[Hints | None] = []
        self._come = anyio.Event()
        ledger.on_hint(kind, self._hear)

    def _hear(self, hints: Hints | None) -> None:
        self.heard.append(hints)
        self._come.set()

    async def until(self, wanted: Hints | None) -> None:
        with anyio.fail_after(20):
            while wanted not in self.heard:
                self._come = anyio.Event()
                await self._come.wait()


async def test_what_one_gateway_stores_is_a_hint_for_the_others_and_not_for_itself(
    pair: Pair,
) -> None:
    mine = Ear(pair.one, LANES)
    lanes, ended, entries = (Ear(pair.two, kind) for kind in (LANES, ENDED, ENTRIES))
    await mine.until(None)
    await lanes.until(None)  # it listens

    run = await begun(pair.one, "r1")
    await lanes.until(frozenset([ANA.text]))
    await entries.until(frozenset(["id-of-ana"]))
    await pair.one.do(EndRun(fence=run.fence, outcome=OK, at=9))
    await ended.until(frozenset(["r1"]))

    assert set(mine.heard) == {None}


async def test_a_hint_that_may_have_been_missed_is_a_reason_to_look(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = Ear(pair.two, LANES)
    await lanes.until(None)
    lanes.heard.clear()
    end_connections(pair.url)
    await lanes.until(None)
    await submit(pair.one, "r1")  # on another connection; and it is heard on another one
    lanes.heard.clear()
    monkeypatch.setattr(listener, "PAYLOAD_BYTES_MAX", 10)
    await submit(pair.one, "r2")
    await lanes.until(None)
    lanes.heard.clear()
    await lanes.until(None)  # each second, whatever is heard


@contextmanager
def chatter(url: str) -> Generator[None]:
    """Other gateways are never silent for a second."""
    over = threading.Event()
    said = listener.payload_of("somebody", {(LANES, "agent:nobody:main")}).decode()

    def talk() -> None:
        wire = PgWire(url)
        while not over.wait(0.2):
            wire.ask("SELECT pg_notify($1, $2)", listener.CHANNEL, said)
        wire.close()

    talking = threading.Thread(target=talk)
    talking.start()
    try:
        yield
    finally:
        over.set()
        talking.join()


async def test_a_look_comes_each_second_also_where_others_are_never_silent(pair: Pair) -> None:
    lanes = Ear(pair.two, LANES)
    await lanes.until(None)
    with chatter(pair.url):
        await lanes.until(frozenset(["agent:nobody:main"]))
        lanes.heard.clear()
        await lanes.until(None)


@pytest.mark.spec("B3")
async def test_a_revocation_whose_hint_was_lost_holds_also_where_others_are_never_silent(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_credentials(by: str, hints: set[tuple[str, str]]) -> bytes:
        return listener.payload_of(by, {each for each in hints if each[0] != CREDENTIALS})

    device = device_of_an_owner()
    who = person_principal("device:x", {"operator.admin"}, [CredentialRef(device.credential_id, 7)])
    async with (
        one_gateway(tmp_path, url, "a", ScriptedProvider([])) as a,
        one_gateway(tmp_path, url, "b", ScriptedProvider([])) as b,
    ):

        async def until_it_stands(expected: bool) -> None:
            with anyio.fail_after(SOON_S):
                while b.credentials.stands(who.authority.made_by) != expected:  # noqa: ASYNC110
                    await anyio.sleep(0.02)

        await a.ledger.do(PutCredential(credential=device))
        await until_it_stands(True)
        monkeypatch.setattr(writer, "payload_of", without_credentials)
        with chatter(url):
            await a.ledger.do(DeleteCredential(credential_id=device.credential_id))
            await until_it_stands(False)


async def test_what_a_commit_without_an_answer_has_stored_is_told_all_the_same(
    pair: Pair,
) -> None:
    lanes = Ear(pair.two, LANES)
    await lanes.until(None)
    await pair.one.do(session(ANA))

    UnansweredWire.cut = True
    await submit(pair.one, "r1")

    await lanes.until(frozenset([ANA.text]))

"""Several gateways on one database: who is there, who has what, and what becomes of it when one is gone."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import ConfigInvalid, Fenced, StoreError, StoreFenced, StoreLocked
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.runs import Run
from crossclaw.gateway.auth import SecretDigests
from crossclaw.gateway.door_secrets import DoorSecrets
from crossclaw.ledger.contract import Ledger
from crossclaw.ledger.database import Database
from crossclaw.ledger.gateways import GatewayFacts, Membership, TakeOver
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Append, Claim, Claimed, EndRun, Recovered
from crossclaw.ledger.postgres import taking_over
from crossclaw.ledger.postgres.wire import PgWire
from crossclaw.ledger.shared_settings import AgreedConfig, SealedModelKey
from crossclaw.policy.credentials import Credentials
from tests.cluster.linked import LEASED_S
from tests.ledger.making import ANA, BEN, OK, says, session, submit

Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path, url: str) -> AsyncGenerator[Open]:
    """Opens a ledger as the gateway of this name does."""
    async with AsyncExitStack() as closing:

        async def open_as(name: str, folder: str | None = None) -> Ledger:
            path = tmp_path / (folder or name) / "l.sqlite"
            ledger = open_ledger(path, url=url, shared=True)
            closing.push_async_callback(ledger.close)
            await members(ledger).join(GatewayFacts(gateway_id=name))
            return ledger

        yield open_as


def members(ledger: Ledger) -> Membership:
    assert ledger.gateways is not None
    return ledger.gateways


def ask(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    wire = PgWire(url)
    try:
        wire.script("SET search_path TO crossclaw")
        return wire.ask(sql, *values)
    finally:
        wire.close()


def end_lease(url: str, name: str) -> None:
    """As if the gateway had been stopped, or cut off, for longer than its lease."""
    ask(url, "UPDATE gateways SET until = 1 WHERE gateway_id = $1", name)


async def claim(ledger: Ledger, key: SessionKey = ANA) -> Claimed | None:
    claimed = await ledger.do(Claim(key=key, owner=ledger.owner, at=3))
    assert claimed is None or isinstance(claimed, Claimed)
    return claimed


async def take_over(ledger: Ledger) -> Recovered:
    return await ledger.do(TakeOver(owner=ledger.owner, at=5))


@pytest.mark.spec("B6")
@pytest.mark.anyio
async def test_two_gateways_see_each_other_and_one_that_wants_the_store_alone_is_refused(
    opened: Open, tmp_path: Path, url: str
) -> None:
    a, b = await opened("a"), await opened("b")
    assert [each.gateway_id for each in await members(a).list_gateways()] == ["a", "b"]
    assert all(0 < each.left_ms <= LEASED_S * 1000 for each in await members(b).list_gateways())
    with pytest.raises(StoreLocked):
        open_ledger(tmp_path / "c" / "l.sqlite", url=url)


@pytest.mark.anyio
async def test_a_file_is_never_shared(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"ledger\.url"):
        open_ledger(tmp_path / "l.sqlite", shared=True)


@pytest.mark.anyio
async def test_a_name_is_one_gateways_until_its_lease_is_over(opened: Open, url: str) -> None:
    a = await opened("a")

    async def keep_beating() -> None:
        while True:
            await members(a).beat()
            await anyio.sleep(0.5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_beating)
        with pytest.raises(StoreLocked, match=r"ledger\.gateway"):
            await opened("a", folder="another machine")
        tasks.cancel_scope.cancel()
    end_lease(url, "a")
    await opened("a", folder="after its restart")


@pytest.mark.spec("B6", "B1")
@pytest.mark.anyio
async def test_runs_of_a_gateway_whose_lease_is_over_go_on_elsewhere_and_it_writes_nothing_more(
    opened: Open, url: str
) -> None:
    a, b = await opened("a"), await opened("b")
    await submit(a, "r1")
    mine = await claim(a)
    assert mine is not None
    assert (await take_over(b)).keys == [], "as long as its lease runs, a run is its gateway's"
    assert not (await members(b).beat()).has_dead
    assert await claim(b) is None

    end_lease(url, "a")
    assert (await members(b).beat()).has_dead
    taken = await take_over(b)
    assert (taken.keys, taken.gone, taken.runs) == ([ANA], ("a",), 1)
    theirs = await claim(b)
    assert theirs is not None
    assert theirs.run.run_id == "r1"
    assert theirs.run.epoch > mine.run.epoch

    late = [
        Append(fence=mine.run.fence, entries=[says("too late", "late")], at=9),
        EndRun(fence=mine.run.fence, outcome=OK, at=9),
    ]
    for each in late:
        with pytest.raises(StoreFenced):
            await a.do(each)
        with pytest.raises(Fenced):  # and should it write by another gateway's row, it is fenced
            await b.do(each)
    with pytest.raises(StoreFenced):
        await submit(a, "r2", BEN)
    with pytest.raises(StoreFenced):
        await members(a).beat()
    await b.do(EndRun(fence=theirs.run.fence, outcome=OK, at=9))
    assert ask(url, "SELECT count(*) FROM entries WHERE entry_id = 'late'") == [(0,)]


@pytest.mark.spec("B6")
@pytest.mark.anyio
async def test_a_gateway_that_was_taken_over_changes_no_settings_of_all(
    opened: Open, url: str
) -> None:
    a, b = await opened("a"), await opened("b")
    key = SealedModelKey(provider="anthropic", sealed="sealed")
    await members(b).settings.put_model_key(key)
    end_lease(url, "a")
    await take_over(b)

    late, config = members(a).settings, AgreedConfig(epoch=1, digest="d", keys={}, text="{}")
    other = SealedModelKey(provider="anthropic", sealed="another")
    changes: list[Awaitable[Any]] = [
        late.put_config(config, 0),
        late.put_model_key(other),
        late.delete_model_key("anthropic"),
    ]
    for change in changes:
        with pytest.raises(StoreFenced):
            await change

    assert await members(b).settings.newest_config(0) is None
    assert list(await members(b).settings.list_model_keys()) == [key]


@pytest.mark.anyio
async def test_no_lease_ends_in_the_middle_of_its_gateways_transaction(
    opened: Open, url: str
) -> None:
    a, b = await opened("a"), await opened("b")
    await submit(a, "r1")
    wire = PgWire(url)
    wire.script("SET search_path TO crossclaw")
    wire.ask("BEGIN")
    wire.ask("SELECT 1 FROM gateways WHERE incarnation = $1 FOR KEY SHARE", a.owner)
    wire.ask(
        "UPDATE runs SET status = 'running', owner = $1, epoch = 1 WHERE run_id = 'r1'", a.owner
    )
    end_lease(url, "a")
    assert (await take_over(b)).keys == [], "what is under way is waited for, and not waited on"
    wire.ask("COMMIT")
    wire.close()
    assert (await take_over(b)).keys == [ANA], "and then it is found"


@pytest.mark.anyio
async def test_a_gateway_that_leaves_is_followed_at_once(opened: Open) -> None:
    a, b = await opened("a"), await opened("b")
    await submit(a, "r1")
    assert await claim(a)
    await members(a).leave()
    assert (await members(b).beat()).has_dead
    assert (await take_over(b)).keys == [ANA]


@pytest.mark.anyio
async def test_of_two_that_take_over_at_once_one_does_and_each_run_once(
    opened: Open, url: str
) -> None:
    a, b, c = await opened("a"), await opened("b"), await opened("c")
    keys = [SessionKey.named("main", f"s{n}") for n in range(20)]
    for number, key in enumerate(keys):
        await submit(a, f"r{number}", key)
        assert await claim(a, key)
    end_lease(url, "a")
    found: list[SessionKey] = []

    async def look(ledger: Ledger) -> None:
        found.extend((await take_over(ledger)).keys)

    async with anyio.create_task_group() as tasks:
        for ledger in (b, c):
            tasks.start_soon(look, ledger)
    assert sorted(each.text for each in found) == sorted(each.text for each in keys)
    assert ask(url, "SELECT DISTINCT epoch FROM runs") == [(2,)]


async def killed_two(opened: Open, url: str) -> tuple[Ledger, Recovered]:
    """A gateway that has found a suspect: a run that two others died with, one after the other."""
    a, b, c = await opened("a"), await opened("b"), await opened("c")
    await submit(a, "r1")
    assert await claim(a)
    end_lease(url, "a")
    assert (await take_over(b)).groups == []
    assert await claim(b)
    end_lease(url, "b")
    return c, await take_over(c)


@pytest.mark.spec("B1")
@pytest.mark.anyio
async def test_a_suspect_is_kept_for_the_gateway_that_found_it(opened: Open, url: str) -> None:
    """Twice without progress: what killed two gateways must not be begun by the others, all at once."""
    c, found = await killed_two(opened, url)
    assert found.groups == [[ANA]]
    d = await opened("d")
    assert await members(d).list_claimable() == []
    assert await claim(d) is None, "it is another's"
    assert await members(c).list_claimable() == [ANA]
    assert await claim(c)
    end_lease(url, "c")
    given_up = (await take_over(d)).given_up
    assert [run.run_id for run in given_up] == ["r1"], "alone, it has killed a third one"
    e = await opened("e")
    assert await members(e).list_claimable() == []
    assert await claim(e) is None, "nobody else begins what is about to be ended"
    assert [run.run_id for run in (await take_over(d)).given_up] == ["r1"], "until that is done"


@pytest.mark.anyio
async def test_a_suspect_that_is_kept_for_nobody_is_begun_by_whoever_comes_first(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: the measure that it holds, switched off."""
    again = taking_over._queue_again

    def queue_for_anybody(db: Database, run: Run, _owner: str | None, was_idle: bool) -> None:
        again(db, run, None, was_idle)

    monkeypatch.setattr(taking_over, "_queue_again", queue_for_anybody)
    _, found = await killed_two(opened, url)
    assert found.groups == [[ANA]]
    d = await opened("d")
    assert await members(d).list_claimable() == [ANA]
    assert await claim(d), "beside whatever else it has under way"


@pytest.mark.anyio
async def test_suspects_that_wait_for_their_turn_are_not_blamed_for_the_death_of_their_gateway(
    opened: Open, url: str
) -> None:
    a, b = await opened("a"), await opened("b")
    for run_id, key in (("r1", ANA), ("r2", BEN)):
        await submit(a, run_id, key)
        assert await claim(a, key)
    ask(url, "UPDATE runs SET attempt = 2")
    end_lease(url, "a")
    assert (await take_over(b)).groups == [[ANA], [BEN]]
    assert await claim(b, ANA)
    end_lease(url, "b")
    c = await opened("c")
    found = await take_over(c)
    assert [run.run_id for run in found.given_up] == ["r1"]
    assert found.groups == []
    assert BEN in found.keys


@pytest.mark.anyio
async def test_a_role_is_one_gateways_as_long_as_it_is_there(opened: Open, url: str) -> None:
    a, b = await opened("a"), await opened("b")
    assert await members(a).take_role("cron")
    assert await members(a).take_role("cron"), "it has it"
    assert not await members(b).take_role("cron")
    assert [each.roles for each in await members(b).list_gateways()] == [("cron",), ()]
    end_lease(url, "a")
    assert not await members(b).take_role("cron"), "until somebody has taken over"
    await take_over(b)
    assert await members(b).take_role("cron")
    await members(b).leave_role("cron")
    c = await opened("c")
    assert await members(c).take_role("cron")


@pytest.mark.anyio
async def test_a_role_is_not_taken_from_one_that_joined_while_the_taker_waited(
    opened: Open, url: str
) -> None:
    """The statement of the taker is held up by another one's: what it sees of the gateways is older."""
    a, b = await opened("a"), await opened("b")
    assert await members(a).take_role("cron")
    end_lease(url, "a")
    await take_over(b)
    other = PgWire(url)
    other.script("SET search_path TO crossclaw; BEGIN")
    other.ask("SELECT 1 FROM roles FOR UPDATE")
    taken: list[bool] = []

    async def take() -> None:
        taken.append(await members(b).take_role("cron"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%roles%'"
        )
        with anyio.fail_after(10):
            while not ask(url, waiting):  # noqa: ASYNC110  another connection
                await anyio.sleep(0.01)
        c = await opened("c")
        other.ask("UPDATE roles SET owner = $1", c.owner)
        other.script("COMMIT")
    other.close()
    assert taken == [False]
    assert [each.roles for each in await members(b).list_gateways()] == [(), ("cron",)]


@pytest.mark.anyio
async def test_what_nobody_has_taken_is_found_by_everybody(opened: Open) -> None:
    a, b = await opened("a"), await opened("b")
    await submit(a, "r1")
    await submit(a, "r2")
    await submit(a, "r3", BEN)
    assert await members(b).list_claimable() == [ANA, BEN]
    assert await claim(a, ANA)
    assert await members(b).list_claimable() == [BEN], "behind a run that is under way others wait"


@pytest.mark.anyio
async def test_a_gateway_hears_that_it_is_to_drain(opened: Open) -> None:
    a, b = await opened("a"), await opened("b")
    assert not (await members(a).beat()).draining
    assert await members(b).ask_to_drain("a")
    assert (await members(a).beat()).draining
    assert not await members(b).ask_to_drain("nobody")


@pytest.mark.anyio
async def test_steps_that_come_with_one_that_is_refused_are_stored(opened: Open) -> None:
    """The look at our own row is no reason to begin anew when a step fails for its own."""
    a = await opened("a")
    await a.commit(session(ANA))
    results: list[object] = []

    async def try_to(run_id: str, key: SessionKey) -> None:
        try:
            results.append(await submit(a, run_id, key))
        except Exception as error:  # noqa: BLE001  looked at below
            results.append(error)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(try_to, f"r{number % 3}", SessionKey.named("main", f"s{number}"))
    assert sum(isinstance(each, Exception) for each in results) == 3


@pytest.mark.spec("B3")
@pytest.mark.anyio
async def test_a_gateway_with_another_secret_than_the_others_does_not_serve(opened: Open) -> None:
    a, b = await opened("a"), await opened("b")

    def secrets(ledger: Ledger) -> DoorSecrets:
        return DoorSecrets(ledger, Credentials(), SystemClock())

    theirs, ours = (SecretDigests((sha256(word).digest(),)) for word in (b"theirs", b"ours"))
    await secrets(a).settle({"gateway": theirs})
    await secrets(b).settle({"gateway": theirs}, is_agreed=True)
    with pytest.raises(ConfigInvalid, match=r"gateway\.auth\.token"):
        await secrets(b).settle({"gateway": ours}, is_agreed=True)

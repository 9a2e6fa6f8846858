"""After crashes that keep coming: everybody goes on soon, whoever kills is found, nobody else is given up."""

from pathlib import Path

import anyio
import pytest

from crossclaw.domain.events import EntryAppended
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage, Message, Text, ToolUse, UserMessage
from crossclaw.domain.sessions import Entry, NewEntry
from crossclaw.domain.suspects import SUSPECT_AFTER
from crossclaw.ledger.opening import open_ledger
from crossclaw.ledger.operations import Append, BeginWait, Recover
from crossclaw.providers.contract import ModelRequest, TellPiece, UserTurn
from crossclaw.runs.suspects import Suspects
from crossclaw.testing import open_gateway, submit
from tests.flows.crashing import crashed_copy
from tests.flows.talking import say, two_agents
from tests.flows.test_runs_keep_their_order import Recording
from tests.ledger import making
from tests.ledger.making import ANA, BEN, begun, claim

SUSPECTS = 300
TURN_S = 4.0
BAR_S = 15.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gateway").mkdir()
    return tmp_path / "gateway"


def session_number(number: int) -> SessionKey:
    return SessionKey.named("main", f"s{number}")


async def crash_twice(folder: Path, sessions: int) -> tuple[Path, list[str]]:
    left, ids = folder, list[str]()
    for crash in range(SUSPECT_AFTER):
        async with open_gateway(left, Recording(1000.0)) as gateway:
            if not ids:
                keys = map(session_number, range(sessions))
                ids = [(await submit(gateway, key, "hi")).run_id for key in keys]
            await anyio.sleep(1)
            left = crashed_copy(left, f"crash {crash}")
    return left, ids


@pytest.mark.spec("B1")
async def test_three_hundred_suspects_are_all_under_way_within_fifteen_seconds(
    folder: Path,
) -> None:
    left, ids = await crash_twice(folder, SUSPECTS)

    async with open_gateway(left, Recording(TURN_S)) as gateway:
        began = anyio.current_time()
        new = await submit(gateway, ANA, "no suspect")
        answered = await gateway.run_store.wait(new.run_id)
        waited_s = anyio.current_time() - began
        behind = await submit(gateway, session_number(SUSPECTS - 1), "behind the last suspect")
        await anyio.sleep(BAR_S - waited_s)
        runs = [await gateway.run_store.find(run_id) for run_id in ids]
        with anyio.fail_after(60):  # a provider takes 64 calls at once
            ends = [await gateway.run_store.wait(run_id) for run_id in (*ids, behind.run_id)]

    assert answered is not None
    assert answered.status == "ok"
    assert waited_s <= TURN_S + 0.5  # nobody who is no suspect waits
    assert {run.status for run in runs if run} <= {"running", "ok"}
    assert {run.status for run in ends if run} == {"ok"}


@pytest.mark.spec("B1")
async def test_suspects_whose_steps_are_short_do_not_wait_for_the_window(folder: Path) -> None:
    left, ids = await crash_twice(folder, 16)

    async with open_gateway(left, Recording(0.1)) as gateway:
        began = anyio.current_time()
        for run_id in ids:
            await gateway.run_store.wait(run_id)
        took_s = anyio.current_time() - began

    assert took_s < 2.0


@pytest.mark.spec("B1")
async def test_a_command_in_a_suspects_session_does_not_let_it_begin_before_its_turn(
    folder: Path,
) -> None:
    left, ids = await crash_twice(folder, 16)

    async with open_gateway(left, Recording(1000.0)) as gateway:
        runs = {run_id: await gateway.run_store.find(run_id) for run_id in ids}
        waits = next(run for run in runs.values() if run and run.status == "queued")
        answered = await say(gateway, waits.key.text, "/help", "asks for help")
        await anyio.sleep(0.1)
        now = await gateway.run_store.find(waits.run_id)

    assert (answered.status, answered.kind) == ("ok", "command")
    assert now is not None
    assert now.status == "queued"


def test_what_others_say_in_a_suspects_session_does_not_clear_it() -> None:
    suspects = Suspects()
    suspects.put([[ANA], [BEN]], window_s=2.0)
    suspects._unknown = {ANA}

    def stored(message: Message | None) -> EntryAppended:
        entry = Entry(
            session_id="s", seq=1, entry_id="e", at=1, type="message", run_id="r", message=message
        )
        return EntryAppended(ANA, entry)

    for message in (None, UserMessage("hello")):
        suspects.on_event(stored(message))
        assert suspects._unknown == {ANA}
    suspects.on_event(stored(AssistantMessage([Text("I am here")])))
    assert suspects._unknown == set()


@pytest.mark.spec("B1")
async def test_windows_follow_how_long_the_process_lived_before_it_died(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left, _ = await crash_twice(folder, 3)
    for crash in range(3):
        caplog.clear()
        async with open_gateway(left, Recording(1000.0)):
            await anyio.sleep(20)
            left = crashed_copy(left, f"late crash {crash}")

    assert "in 3 groups, 32 s apart" in caplog.text


class Model:
    """Poison is never answered, and `asked` says that it is its turn; `send` asks the librarian and waits.
    While `silent`, nobody else is answered."""

    name = "model"

    def __init__(self, *, silent: bool) -> None:
        self.asked = anyio.Event()
        self._silent = silent

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        last = request.turns[-1]
        assert isinstance(last, UserTurn)
        words = [block.text for block in last.content if isinstance(block, Text)]
        if last.results:
            return AssistantMessage([Text("heard")], stop_reason="end_turn")
        if words[-1] == "send":
            return AssistantMessage([SEND], stop_reason="tool_use")
        if words[-1] == "poison":
            self.asked.set()
        if words[-1] == "poison" or self._silent:
            await anyio.sleep_forever()
        return AssistantMessage([Text("fine")], stop_reason="end_turn")

    async def close(self) -> None:
        pass


SEND = ToolUse(
    "c1",
    "sessions_send",
    {"sessionKey": "agent:librarian:main", "message": "hi", "timeoutSeconds": 3600},
)


async def crashes_until_given_up(folder: Path, sessions: int, kills_after_s: float) -> int:
    """Beyond the first two. Its poison takes the process with it so long after it began."""
    left, ids, crashes, place = folder, list[str](), 0, sessions * 2 // 3
    while True:
        model = Model(silent=True)
        async with open_gateway(left, model) as gateway:
            for number in range(sessions if not ids else 0):
                text = "poison" if number == place else "hi"
                ids.append((await submit(gateway, session_number(number), text)).run_id)
            poison = await gateway.run_store.find(ids[place])
            if poison is None or poison.ended:
                break
            await model.asked.wait()
            await anyio.sleep(kills_after_s)
            crashes += 1
            left = crashed_copy(left, f"crash {crashes}")
    async with open_gateway(left, Model(silent=False)) as gateway:
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]
    failed = [run.run_id for run in runs if run and run.status != "ok"]
    assert failed == [ids[place]]
    return crashes - SUSPECT_AFTER


@pytest.mark.spec("B1")
@pytest.mark.parametrize(("kills_after_s", "crashes_max"), [(0.5, 5), (7.0, 10)])
async def test_whoever_kills_is_given_up_after_a_few_crashes_and_nobody_else(
    folder: Path, kills_after_s: float, crashes_max: int
) -> None:
    assert 1 <= await crashes_until_given_up(folder, 40, kills_after_s) <= crashes_max


@pytest.mark.spec("B1")
async def test_who_was_given_up_stays_so_when_the_process_dies_before_it_is_said(
    folder: Path,
) -> None:
    left, (run_id,) = await crash_twice(folder, 1)
    async with open_gateway(left, Recording(1000.0)):
        await anyio.sleep(1)
        left = crashed_copy(left, "third crash")
    ledger = open_ledger(left / "state" / "crossclaw.sqlite", inline=True)
    first = await ledger.do(Recover(owner="dies at once", at=1))
    second = await ledger.do(Recover(owner="the next", at=2))
    await ledger.close()

    assert [run.run_id for run in first.given_up] == [run_id]
    assert [run.run_id for run in second.given_up] == [run_id]


# ── runs that only wait ────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("S4", "B1")
async def test_runs_that_only_wait_are_never_given_up(folder: Path) -> None:
    """Nine requesters wait for one target through six crashes; only the target is at work."""
    requesters = [SessionKey.named("main", f"r{n}") for n in range(9)]
    config = two_agents(agentToAgent={"maxPingPongTurns": 0})
    left, ids = folder, list[str]()
    for crash in range(SUSPECT_AFTER + 4):
        async with open_gateway(left, Model(silent=True), config=config) as gateway:
            for key in requesters if not ids else ():
                ids.append((await submit(gateway, key, "send")).run_id)
            await anyio.sleep(20)
            left = crashed_copy(left, f"crash {crash}")

    async with open_gateway(left, Model(silent=False), config=config) as gateway:
        runs = [await gateway.run_store.wait(run_id) for run_id in ids]

    assert [(run.status, run.reply) for run in runs if run] == [("ok", "heard")] * 9


@pytest.mark.spec("S4")
@pytest.mark.parametrize(("calls", "attempt"), [(1, 0), (2, 1)])
async def test_who_waits_and_does_something_else_beside_it_is_counted(
    folder: Path, calls: int, attempt: int
) -> None:
    ledger = open_ledger(folder / "l.sqlite", inline=True)
    run = await begun(ledger, "r1", ANA)
    await making.submit(ledger, "r2", BEN)
    asked = AssistantMessage([ToolUse(f"c{n}", "ask", {}) for n in range(calls)])
    entry = NewEntry(entry_id="e1", message=asked)
    await ledger.do(Append(fence=run.fence, entries=[entry], at=4))
    await ledger.do(Recover(owner="first", at=5))  # so that the next claim counts from its progress
    run = await claim(ledger, ANA, owner="first")
    await ledger.do(BeginWait(fence=run.fence, target_run_id="r2", at=6))

    await ledger.do(Recover(owner="second", at=7))

    found = await ledger.find_run("r1")
    await ledger.close()
    assert found is not None
    assert (found.status, found.attempt) == ("queued", attempt)

"""A damaged or hostile row of the store hurts itself and nobody else."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from crossclaw.app import Gateway
from crossclaw.domain.authority import Authority
from crossclaw.domain.errors import StoreDamaged
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import AssistantMessage
from crossclaw.door.principal import session_principal
from crossclaw.ledger.sqlite import damage as damage_module
from crossclaw.ledger.sqlite.inspecting import damaged_rows
from crossclaw.providers.contract import ModelRequest, TellPiece
from crossclaw.testing import ScriptedProvider, open_gateway
from tests.flows.talking import call, say

GOOD, BAD = "agent:main:good", "agent:main:bad"

BODIES: dict[str, Any] = {
    "no JSON": b"\\xff\\x00 nothing",
    "half of it": b'{"role":"user","content":"need',
    "another role": b'{"role":"prophet","content":"needle"}',
    "another type": b'{"role":"user","content":7}',
    "nested deeply": b'{"role":"user","content":' + b"[" * 100_000,
    "a number": 7,
    "a text that is none": None,
}


def damage(folder: Path, kind: str, also: str = "1") -> None:
    """The first message of the bad session."""
    db = apsw.Connection(str(folder / "state" / "crossclaw.sqlite"))
    where = (
        f"WHERE session_id = (SELECT session_id FROM sessions WHERE key = '{BAD}') AND seq = {also}"
    )
    if kind == "a text that is none":
        db.execute(f"UPDATE entries SET body = CAST(X'ff2278' AS TEXT) {where}")
    else:
        db.execute(f"UPDATE entries SET body = ? {where}", (BODIES[kind],))
    db.close()


async def furnished(gateway: Gateway) -> None:
    for key in (GOOD, BAD):
        await say(gateway, key, "a needle", f"first {key}")
        await say(gateway, key, "another needle", f"second {key}")


async def reads(gateway: Gateway) -> dict[str, Any]:
    me = session_principal(SessionKey.main("main"), Authority())
    return {
        "search": await call(gateway, "sessions.search", query="needle"),
        "entry search": await call(gateway, "sessions.entries.search", query="needle"),
        "previews": await call(gateway, "sessions.preview", keys=[GOOD, BAD]),
        "entries": await call(gateway, "sessions.entries", key=BAD),
        "history": await call(gateway, "chat.history", sessionKey=BAD),
        "tool list": await call(gateway, "tool.sessions_list", me, messageLimit=5),
        "tool history": await call(gateway, "tool.sessions_history", me, sessionKey=BAD),
    }


@pytest.mark.spec("B1", "M2")
@pytest.mark.parametrize("kind", BODIES)
async def test_a_damaged_entry_hurts_no_search_no_preview_and_no_other_entry(
    tmp_path: Path, kind: str
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await furnished(gateway)
        damage(tmp_path, kind)
        found = await reads(gateway)
        after = await say(gateway, BAD, "and now?", "third")
        counted = gateway.ledger.unreadable()["entries"]
        needing = (await call(gateway, "attention.list", kinds=["store"]))["rows"]

    assert [hit["sessionKey"] for hit in found["search"]["results"]].count(GOOD) == 2
    assert [hit["key"] for hit in found["entry search"]["hits"]].count(GOOD) == 2
    assert len(found["previews"]["previews"]) == 2
    assert len(found["tool list"]["sessions"]) == 2
    assert after.status == "ok"
    assert counted
    assert [
        f"rows in entries that cannot be read (met {counted} times" in row["what"]
        for row in needing
    ] == [True]
    texts = str(found["history"])
    assert "another needle" in texts
    first = found["entries"]["entries"][0]
    assert (first["type"], first["note"]["kind"]) == ("note", "unreadable")
    assert found["tool history"]["messages"][0]["unreadable"] is True
    # People's clients have it in its place too, as words.
    shown, rest = found["history"]["messages"][0], found["history"]["messages"][1:]
    assert (shown["role"], shown["unreadable"]) == ("system", True)
    assert "crossclaw doctor" in shown["content"][0]["text"]
    assert [message.get("unreadable") for message in rest] == [None] * 3
    previewed = {each["key"]: each["items"] for each in found["previews"]["previews"]}
    assert "cannot be read" in previewed[BAD][0]["text"]
    assert len(previewed[BAD]) == len(previewed[GOOD]) == 4


@pytest.mark.spec("B1", "H3")
async def test_a_page_of_nothing_but_damaged_entries_hides_nothing_before_it(
    tmp_path: Path,
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await furnished(gateway)
        damage(tmp_path, "another role", also="4")
        page = await call(gateway, "chat.history", sessionKey=BAD, limit=1)
        earlier = await call(gateway, "chat.history", sessionKey=BAD, before=page["older"] + 1)

    assert page["older"] == 3
    assert len(earlier["messages"]) == 3


ROWS: dict[str, Callable[[apsw.Connection], Any]] = {
    "a session's authority": lambda db: db.execute(
        f"UPDATE sessions SET authority = '{{' WHERE key = '{BAD}'"
    ),
    "a session's time": lambda db: db.execute(
        f"UPDATE sessions SET created_at = 'soon' WHERE key = '{BAD}'"
    ),
    "a session's name": lambda db: db.execute(
        f"UPDATE sessions SET display_name = CAST(X'ff' AS TEXT) WHERE key = '{BAD}'"
    ),
    "a run's cause": lambda db: db.execute(f"UPDATE runs SET cause = '{{' WHERE key = '{BAD}'"),
    "a run's error": lambda db: db.execute(
        f"UPDATE runs SET error = CAST(X'ff' AS TEXT) WHERE key = '{BAD}'"
    ),
}


@pytest.mark.spec("B1")
@pytest.mark.parametrize("what", ROWS)
async def test_a_damaged_session_or_run_leaves_the_others_alone(tmp_path: Path, what: str) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await furnished(gateway)
        db = apsw.Connection(str(tmp_path / "state" / "crossclaw.sqlite"))
        ROWS[what](db)
        db.close()
        listed = await call(gateway, "sessions.list")
        table = await call(gateway, "sessions.table")
        seen = await call(gateway, "map.get")
        shown = await call(gateway, "sessions.preview", keys=[BAD, GOOD])
        good = await say(gateway, GOOD, "and now?", "third")

        counted = gateway.ledger.unreadable()

    marks = {row["key"]: row.get("unreadable", False) for row in listed["sessions"]}
    of_session = what.startswith("a session")
    statuses = [each["status"] for each in shown["previews"]]
    assert statuses == ["error" if of_session else "ok", "ok"]
    assert marks == {GOOD: False, BAD: of_session}
    marks = {row["key"]: row.get("unreadable", False) for row in table["rows"]}
    assert marks == {GOOD: False, BAD: of_session}
    assert {GOOD, BAD} <= {run["key"] for run in seen["runs"]}
    assert good.status == "ok"
    assert counted["sessions"] if of_session else counted["runs"] or what == "a run's cause"


@pytest.mark.spec("B1")
@pytest.mark.parametrize("what", [name for name in ROWS if name.startswith("a session")])
async def test_a_damaged_session_can_be_begun_anew_and_deleted_by_who_sees_everything(
    tmp_path: Path, what: str
) -> None:
    me = session_principal(SessionKey.main("main"), Authority())
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await furnished(gateway)
        db = apsw.Connection(str(tmp_path / "state" / "crossclaw.sqlite"))
        before = (await gateway.ledger.list_transcripts(SessionKey.stored(BAD), limit=9, offset=0))[
            0
        ]
        ROWS[what](db)
        with pytest.raises(StoreDamaged):
            await gateway.resolver.resolve_whole_or_damaged(me, BAD, "create")
        fresh = await call(gateway, "sessions.reset", key=BAD)
        said = await say(gateway, BAD, "and now?", "third")
        old = await gateway.ledger.list_entries(before.session_id, limit=9)
        bound = db.execute("SELECT authority FROM sessions WHERE key = ?", (BAD,)).get
        ROWS[what](db)
        gone = await call(gateway, "sessions.delete", key=BAD)
        again = await call(gateway, "sessions.delete", key=BAD)
        left = {table: db.execute(f"SELECT count(*) FROM {table} WHERE key = ?", (BAD,)).get
                for table in ("sessions", "transcripts")}  # fmt: skip
        db.close()
        good = await say(gateway, GOOD, "and now?", "fourth")

    assert fresh["ok"]
    assert said.status == "ok"
    assert len(old) == 4, "what was said before can still be read"
    assert ("tools" in bound) is (what == "a session's authority"), "no right is won by damage"
    assert (gone["deleted"], len(gone["archived"]), again["deleted"]) == (True, 2, False)
    assert left == {"sessions": 0, "transcripts": 0}
    assert good.status == "ok"


@pytest.mark.spec("B1")
async def test_an_open_run_that_cannot_be_read_ends_at_the_next_start_and_its_session_goes_on(
    tmp_path: Path,
) -> None:
    model = ScriptedProvider(lambda _: "yes", delay_s=1_000)
    async with open_gateway(tmp_path, model) as gateway:
        await call(gateway, "chat.send", sessionKey=BAD, message="hello", idempotencyKey="lost")
    db = apsw.Connection(str(tmp_path / "state" / "crossclaw.sqlite"))
    db.execute("UPDATE runs SET plan = '{' WHERE run_id = 'lost'")
    db.close()
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        after = await say(gateway, BAD, "still there?", "next")

    assert after.status == "ok"


class Waiting(ScriptedProvider):
    """Answers when it may go on."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.at_work, self.go_on = anyio.Event(), anyio.Event()

    async def complete(self, request: ModelRequest, tell: TellPiece) -> AssistantMessage:
        self.at_work.set()
        await self.go_on.wait()
        return await super().complete(request, tell)


OPEN: dict[str, tuple[str, str]] = {
    "the plan of a waiting run": ("second", "UPDATE runs SET plan = '{' WHERE run_id = 'second'"),
    "the cause of a waiting run": (
        "second",
        "UPDATE runs SET cause = CAST(X'ff' AS TEXT) WHERE run_id = 'second'",
    ),
    "a waiting message": ("second", "UPDATE inbox SET message = X'7b' WHERE run_id = 'second'"),
    "a waiting message that is a number": (
        "second",
        "UPDATE inbox SET message = 7 WHERE run_id = 'second'",
    ),
    "a waiting message that is no text": (
        "second",
        "UPDATE inbox SET message = CAST(X'ff' AS TEXT) WHERE run_id = 'second'",
    ),
    "the run at work": ("first", "UPDATE runs SET authority = '{' WHERE run_id = 'first'"),
}


@pytest.mark.spec("B1", "M2")
@pytest.mark.parametrize("what", OPEN)
async def test_an_open_run_that_is_damaged_ends_in_error_and_its_session_goes_on_at_once(
    tmp_path: Path, what: str
) -> None:
    lost, sql = OPEN[what]
    model = Waiting(lambda _: "yes")
    async with open_gateway(tmp_path, model) as gateway:
        for name in ("first", "second", "third"):
            await call(gateway, "chat.send", sessionKey=BAD, message=name, idempotencyKey=name)
            await model.at_work.wait()
        db = apsw.Connection(str(tmp_path / "state" / "crossclaw.sqlite"))
        db.execute(sql)
        db.close()
        model.go_on.set()
        began = anyio.current_time()
        third = await gateway.run_store.wait("third", timeout_s=60)
        waited_s = anyio.current_time() - began
        ended = await gateway.run_store.wait(lost, timeout_s=60)
        after = await say(gateway, BAD, "still there?", "next")
        stored = await call(gateway, "sessions.entries", key=BAD)

    assert third
    assert third.status == "ok"
    quiet_s = 1.0  # in which nothing more may come to what is collected
    assert waited_s == pytest.approx(quiet_s, abs=0.1), "the damage itself is not waited for"
    assert ended
    assert (ended.status, "damaged" in (ended.error or "")) == ("error", True)
    assert after.status == "ok"
    notes = [entry["note"] for entry in stored["entries"] if entry.get("note")]
    assert [note["kind"] for note in notes] == ["unreadable"]


@pytest.mark.spec("B1")
async def test_a_gateway_starts_although_a_main_session_is_damaged(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        for key in (GOOD, "agent:main:main"):
            await say(gateway, key, "hello", key)
    db = apsw.Connection(str(tmp_path / "state" / "crossclaw.sqlite"))
    db.execute("UPDATE sessions SET authority = '{' WHERE key = 'agent:main:main'")
    db.close()
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        after = await say(gateway, GOOD, "still there?", "next")

    assert after.status == "ok"


async def test_damaged_rows_are_named_for_people(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "yes")) as gateway:
        await furnished(gateway)
    path = tmp_path / "state" / "crossclaw.sqlite"
    assert list(damaged_rows(path)) == []
    damage(tmp_path, "half of it")
    db = apsw.Connection(str(path))
    ROWS["a session's name"](db)
    ROWS["a run's cause"](db)
    db.close()

    named = list(damaged_rows(path))

    assert {each.table for each in named} == {"sessions", "entries", "runs"}
    assert all("needle" not in each.why for each in named)


def test_every_list_of_the_store_is_read_so_that_one_row_hurts_one_row() -> None:
    """Exports and ticks hold no stored form; what recovery reads was tried row by row right before."""
    folder = Path(damage_module.__file__).parent
    whole = re.compile(r"\[\w+_of\(row\) for row in")
    found = {path.name for path in folder.glob("*.py") if whole.search(path.read_text("utf-8"))}

    assert found <= {"recovering.py", "chores.py", "jobs.py"}

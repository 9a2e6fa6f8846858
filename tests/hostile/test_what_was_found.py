"""What strange requests and files have found, each as a story of its own."""

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crossclaw.config import load
from crossclaw.domain.errors import ConfigInvalid, Invalid
from crossclaw.domain.jobs import CronSchedule
from crossclaw.domain.sight import EVERYTHING
from crossclaw.gateway.frames import InvalidFrame, decode_request
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.schedule.times import next_after, parse_at
from crossclaw.testing import ScriptedProvider, open_gateway
from crossclaw.transcripts.foreign import replace_lone_surrogates
from tests.flows.talking import call
from tests.flows.test_import import ENTRY, MAIN, bring, lines, message, write
from tests.sandbox.rooms import Room
from tests.wire.served_gateway import open_with_server, serve_gateway
from tests.wire.serving import connect_params, dial


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.spec("G1")
@pytest.mark.parametrize("params", [r'"\ud83e"', "NaN", '{"a": Infinity}', r'{"\udc00": 1}'])
def test_what_is_no_json_is_refused_under_its_own_id(params: str) -> None:
    with pytest.raises(InvalidFrame) as refused:
        decode_request(f'{{"type":"req","id":"mine","method":"health","params":{params}}}')
    assert refused.value.request_id == "mine"


@pytest.mark.spec("G1")
@pytest.mark.parametrize(
    "frame", [r'{"id":"\ud83e"}', '{"id":5,"a":NaN}', "[NaN]", "NaN", '{"id":']
)
def test_an_id_that_cannot_be_written_back_is_none(frame: str) -> None:
    with pytest.raises(InvalidFrame) as refused:
        decode_request(frame)
    assert refused.value.request_id is None


@pytest.mark.spec("G2")
async def test_both_answers_of_agent_are_what_the_schema_says(tmp_path: Path) -> None:
    async with open_with_server(tmp_path / "registry") as (other, _server):
        method = other.door.registry.find("agent")
    assert method is not None
    async with serve_gateway(tmp_path) as served_gateway, dial(served_gateway) as peer:
        await peer.next()
        await peer.ask("connect", connect_params())
        asked = await peer.send("agent", {"message": "say: Hi.", "idempotencyKey": "once"})
        first, second = await peer.answer(asked), await peer.answer(asked)

    accepted = msgspec.convert(first["payload"], method.result)
    done = msgspec.convert(second["payload"], method.result)
    assert (accepted.status, accepted.accepted_at is None) == ("accepted", False)
    assert (done.status, done.summary) == ("ok", "completed")


@pytest.mark.spec("V4")
@pytest.mark.parametrize("path", ["é" * 200, f"{'x' * 256}/a.txt"])
@pytest.mark.parametrize("tool", ["read", "write"])
def test_a_name_that_no_disk_takes_is_refused_in_words(
    tmp_path: Path, tool: str, path: str
) -> None:
    room = Room(tmp_path, None)
    content = {"content": "x"} if tool == "write" else {}
    with pytest.raises(Invalid, match="at most 255 bytes"):
        room(tool, path=path, **content)


@pytest.mark.parametrize("days", [1e30, 36_526])
async def test_a_cleanup_of_what_is_older_than_time_is_refused(tmp_path: Path, days: float) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        with pytest.raises(Invalid, match="<= 36525"):
            await call(gateway, "sessions.cleanup", olderThanDays=days)


@pytest.mark.parametrize("method", ["sessions.search", "sessions.entries.search"])
async def test_words_around_a_nul_are_searched_for(tmp_path: Path, method: str) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["the answer"])) as gateway:
        sent: dict[str, Any] = {"sessionKey": "main", "message": "the question"}
        await call(gateway, "chat.send", idempotencyKey="once", **sent)
        await gateway.run_store.wait("once")
        found = await call(gateway, method, query="the\0quest")

    assert "the question" in json.dumps(found)


@pytest.mark.parametrize("method", ["sessions.list", "sessions.table"])
async def test_nobody_searches_for_a_name_longer_than_any(tmp_path: Path, method: str) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        with pytest.raises(Invalid, match="at /search: Expected `str` of length <= 1000"):
            await call(gateway, method, search="x" * 60_000)
        await call(gateway, method, search="%_!" * 300)


@pytest.mark.spec("G2")
async def test_a_run_with_more_time_than_there_is_runs(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(["here I am"])) as gateway:
        sent: dict[str, Any] = {"sessionKey": "main", "message": "hi", "timeoutMs": 10**400}
        await call(gateway, "chat.send", idempotencyKey="once", **sent)
        run = await gateway.run_store.wait("once")

    assert run is not None
    assert (run.status, run.reply) == ("ok", "here I am")


@pytest.mark.spec("K3")
@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 20, "253402300800000", "2016-12-31T23:59:60Z"])
def test_a_time_after_all_times_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no time") as refused:
        parse_at(text)
    assert len(str(refused.value)) < 200


@pytest.mark.spec("K3")
@pytest.mark.parametrize("expr", ["* * * * *", "0 0 29 2 *", "0 0 L * *"])
@pytest.mark.parametrize("after", [253402300799000, 253402128000000, 253402300800000])
def test_after_the_last_of_all_days_nothing_is_due(expr: str, after: int) -> None:
    tick = next_after(CronSchedule(expr=expr, tz="Europe/Vienna"), after, 0, UTC)
    assert tick is None or tick > after


@pytest.mark.spec("K3")
def test_the_last_second_of_all_is_a_time() -> None:
    assert parse_at("9999-12-31T23:59:59Z") == parse_at("253402300799000") == 253402300799000


@pytest.mark.spec("C2")
def test_a_large_config_that_is_wrong_says_where_at_once(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text("{\n" + '"a": [1,\n1],\n' * 200_000 + "}}", "utf-8")
    with pytest.raises(ConfigInvalid, match=r"openclaw\.json:400002:2: this is not JSON5"):
        load(path, {})


@pytest.mark.spec("C2")
def test_of_thousands_of_problems_the_first_are_told(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps({"agents": {"list": [{"id": 5}] * 3_000}}), "utf-8")
    with pytest.raises(ConfigInvalid, match=r"has 3000 problems(?s:.*)… and 2950 more$"):
        load(path, {})


# ── what others wrote down ─────────────────────────────────────────────────────────────────────


async def contents(state: Path) -> list[Any]:
    ledger = SqliteLedger(state / "crossclaw.sqlite", inline=True)
    try:
        sessions = await ledger.list_sessions(limit=10, sight=EVERYTHING)
        entries = [await ledger.list_entries(each.session_id, limit=10) for each in sessions]
        return [sessions, entries]
    finally:
        await ledger.close()


@pytest.mark.spec("C2")
async def test_a_line_with_half_an_emoji_comes_in_without_the_half(tmp_path: Path) -> None:
    said = lines(message(1, {"role": "user", "content": "cut here: \U0001f9e8"})).replace(
        rb"\udde8", b""
    )
    write(tmp_path / "there", {"agent:main:main": ENTRY}, **{MAIN: said})
    report = await bring(tmp_path / "there", tmp_path / "state")
    _sessions, ((entry,),) = await contents(tmp_path / "state")

    assert report.problems == []
    assert entry.message.content == "cut here: \ufffd"


def test_only_halves_are_mended() -> None:
    kept = rb'"\ud83e\udde8 \\ud83e \\\\ud83e \u00e9 \n"'
    assert replace_lone_surrogates(kept) == kept
    assert (
        replace_lone_surrogates(rb'"\ud83e\ud83e\udde8\udde8\\\ud83e"')
        == rb'"\ufffd\ud83e\udde8\ufffd\\\ufffd"'
    )


@pytest.mark.spec("C2")
@pytest.mark.parametrize("store", [b"{broken", b"[]", b"[" * 100_000, b"\xff\xfe"])
async def test_one_broken_list_of_sessions_does_not_keep_the_others_out(
    tmp_path: Path, store: bytes
) -> None:
    there = tmp_path / "there"
    write(there, {"agent:main:main": ENTRY})
    broken = there / "agents" / "helper" / "sessions" / "sessions.json"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(store)
    report = await bring(there, tmp_path / "state")

    assert report.sessions == 1
    assert [str(broken) in each for each in report.problems] == [True]


@pytest.mark.spec("C2")
async def test_a_session_that_does_not_say_when_is_the_same_with_every_import(
    tmp_path: Path,
) -> None:
    entry = {name: value for name, value in ENTRY.items() if name != "updatedAt"}
    write(tmp_path / "there", {"agent:main:main": entry}, **{MAIN: lines()})
    await bring(tmp_path / "there", tmp_path / "state")
    first = await contents(tmp_path / "state")
    await bring(tmp_path / "there", tmp_path / "state")

    assert await contents(tmp_path / "state") == first

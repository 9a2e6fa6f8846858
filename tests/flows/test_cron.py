"""Jobs: every due tick runs once, whatever the clock and the process do."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from crossclaw.config import Config
from crossclaw.domain.errors import Invalid, NotFound
from crossclaw.domain.events import EntryAppended, FeedEvent, JobNews, RunEnded
from crossclaw.domain.keys import SessionKey
from crossclaw.domain.messages import Text, UserMessage
from crossclaw.providers.contract import ModelRequest, UserTurn
from crossclaw.testing import (
    OPEN_TO_ALL,
    MemoryChannel,
    ScriptedProvider,
    VirtualClock,
    open_gateway,
)
from crossclaw.testing.time import NOON_MS
from tests.flows.crashing import crashed_copy
from tests.flows.talking import call
from tests.stores import look_into

MINUTE = 60_000
EVERY_MINUTE = {"kind": "every", "everyMs": MINUTE}
REPORT = {"kind": "agentTurn", "message": "write the report"}


class SetClock(VirtualClock):
    """A wall clock that somebody sets."""

    shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms


def last_words(request: ModelRequest) -> str:
    turn = request.turns[-1]
    assert isinstance(turn, UserTurn)
    texts = [block.text for block in turn.content if isinstance(block, Text)]
    return [text for text in texts if not text.startswith("\u27e6end of message")][-1]


async def add(gateway: Any, **changes: Any) -> Any:
    job = {"name": "report", "schedule": EVERY_MINUTE, "payload": REPORT}
    return await call(gateway, "cron.add", **job | changes)


async def entries(gateway: Any, job_id: str) -> list[Any]:
    found: list[Any] = (await call(gateway, "cron.runs", id=job_id, limit=1000))["entries"]
    return found[::-1]


@pytest.mark.anyio
@pytest.mark.spec("K3", "G2")
async def test_a_job_runs_in_a_session_of_its_own_at_every_tick(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda request: f"done: {last_words(request)}")
    async with open_gateway(tmp_path, provider) as gateway:
        job = await add(gateway)
        await anyio.sleep(150)

        ran = await entries(gateway, job["id"])
        assert [entry["runAtMs"] - NOON_MS for entry in ran] == [MINUTE, 2 * MINUTE]
        assert {entry["status"] for entry in ran} == {"ok"}
        assert ran[0]["summary"] == "done: write the report"
        assert ran[0]["sessionKey"] == f"cron:{job['id']}"
        assert ran[0]["sessionId"] != ran[1]["sessionId"]  # no tick reads what another has said
        assert all(len(request.turns) == 1 for request in provider.seen)
        (listed,) = (await call(gateway, "cron.list"))["jobs"]
        assert listed["state"]["lastStatus"] == "ok"
        assert listed["state"]["nextRunAtMs"] == NOON_MS + 3 * MINUTE
        status = await call(gateway, "cron.status")
        assert (status["jobs"], status["nextWakeAtMs"]) == (1, NOON_MS + 3 * MINUTE)


@pytest.mark.anyio
@pytest.mark.spec("K3", "B1")
async def test_after_downtime_the_latest_tick_runs_and_the_others_are_told_as_missed(
    tmp_path: Path,
) -> None:
    first, later = tmp_path / "one", VirtualClock(NOON_MS + 10 * MINUTE + 5_000)
    async with open_gateway(first, ScriptedProvider(lambda _: "ok")) as gateway:
        job = await add(gateway)
        copy = crashed_copy(first)

    async with open_gateway(copy, ScriptedProvider(lambda _: "ok"), clock=later) as gateway:
        began = later.now_ms()
        await anyio.sleep(1)
        ran = await entries(gateway, job["id"])
        assert [(e["runAtMs"] - NOON_MS) // MINUTE for e in ran] == list(range(1, 11))
        assert [e["status"] for e in ran] == ["skipped"] * 9 + ["ok"]
        assert {e["error"] for e in ran[:-1]} == {"missed"}
        (listed,) = (await call(gateway, "cron.list"))["jobs"]
        assert listed["state"]["nextRunAtMs"] > began


@pytest.mark.anyio
@pytest.mark.spec("K3", "B1")
async def test_a_clock_set_back_repeats_no_tick_and_one_set_forward_catches_up_once(
    tmp_path: Path,
) -> None:
    clock = SetClock()
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "ok"), clock=clock) as gateway:
        job = await add(gateway)
        await anyio.sleep(125)
        clock.shift_ms = -2 * MINUTE
        await anyio.sleep(125)
        assert [(e["runAtMs"] - NOON_MS) // MINUTE for e in await entries(gateway, job["id"])] == [
            1,
            2,
        ]
        clock.shift_ms = 60 * MINUTE
        await anyio.sleep(10)
        ran = await entries(gateway, job["id"])
        assert [e["status"] for e in ran].count("ok") == 3
        assert len(ran) == len({e["runAtMs"] for e in ran}) == 64


@pytest.mark.anyio
@pytest.mark.spec("K3", "B1")
async def test_a_tick_that_was_taken_is_not_taken_again_though_the_job_was_changed(
    tmp_path: Path,
) -> None:
    """The clock goes back and the job is changed: its next time is one that ran already."""
    clock, provider = SetClock(), ScriptedProvider(lambda _: "ok")
    async with open_gateway(tmp_path, provider, clock=clock) as gateway:
        job = await add(gateway, schedule={**EVERY_MINUTE, "anchorMs": NOON_MS})
        await anyio.sleep(125)
        clock.shift_ms = -3 * MINUTE
        for enabled in (False, True):
            await call(gateway, "cron.update", id=job["id"], patch={"enabled": enabled})
        await anyio.sleep(185)
        ran = await entries(gateway, job["id"])
        assert len(provider.seen) == len(ran) == len({e["runAtMs"] for e in ran})


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_run_longer_than_its_interval_is_not_overtaken_by_the_next(tmp_path: Path) -> None:
    slow = ScriptedProvider(lambda _: "ok", delay_s=150)
    async with open_gateway(tmp_path, slow) as gateway:
        job = await add(gateway)
        await anyio.sleep(400)
        ran = await entries(gateway, job["id"])
        assert [(e["runAtMs"] - NOON_MS) // MINUTE for e in ran if e["status"] == "ok"] == [1, 3]
        assert [(e["runAtMs"] - NOON_MS) // MINUTE for e in ran if e["status"] == "skipped"] == [
            2,
            4,
            5,
        ]
        assert (await call(gateway, "cron.run", id=job["id"])) == {
            "ok": True,
            "ran": False,
            "reason": "already-running",
        }


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_job_for_one_moment_is_gone_after_it_and_stays_when_it_failed(
    tmp_path: Path,
) -> None:
    def answer(request: ModelRequest) -> Any:
        return RuntimeError("no") if "fail" in last_words(request) else "ok"

    async with open_gateway(tmp_path, ScriptedProvider(answer)) as gateway:
        moment = {"kind": "at", "at": "2026-01-01T12:01:00Z"}
        good = await add(gateway, schedule=moment)
        bad = await add(gateway, schedule=moment, payload={"kind": "agentTurn", "message": "fail"})
        assert good["deleteAfterRun"] is True
        await anyio.sleep(70)

        (left,) = (await call(gateway, "cron.list", includeDisabled=True))["jobs"]
        assert left["id"] == bad["id"]
        assert left["enabled"] is False
        assert left["state"]["lastStatus"] == "error"
        assert [e["status"] for e in await entries(gateway, good["id"])] == ["ok"]
        with pytest.raises(Invalid, match="no time to come"):
            await call(gateway, "cron.update", id=bad["id"], patch={"enabled": True})


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_the_reply_of_an_isolated_run_goes_where_the_main_session_was_last_talked_to(
    tmp_path: Path,
) -> None:
    channel = MemoryChannel(settings=OPEN_TO_ALL)
    provider = ScriptedProvider(lambda request: f"re: {last_words(request)}")
    async with open_gateway(tmp_path, provider, channels=[channel]) as gateway:
        await channel.say("ana", "hello")
        await channel.wait_sent(1)
        await add(gateway, schedule={"kind": "at", "at": "2026-01-01T12:01:00Z"})
        silent = await add(gateway, delivery={"mode": "none"})
        await anyio.sleep(100)
        assert channel.sent == [("ana", "re: hello"), ("ana", "re: write the report")]
        main = await gateway.ledger.find_session(SessionKey.main("main"))
        assert main is not None
        last = (await gateway.ledger.list_entries(main.session_id, limit=1))[0].message
        assert isinstance(last, UserMessage)
        assert last.content == "Cron report: re: write the report"
        assert last.provenance is not None
        assert last.provenance.kind == "announce"
        assert silent["delivery"] == {"mode": "none"}


@pytest.mark.anyio
@pytest.mark.spec("Y4")
async def test_the_send_policy_is_asked_when_a_jobs_reply_is_delivered(tmp_path: Path) -> None:
    channel = MemoryChannel()
    rules = [{"match": {"keyPrefix": "cron:"}, "action": "deny"}]
    config = msgspec.convert({"session": {"sendPolicy": {"rules": rules}}}, Config)
    provider = ScriptedProvider(lambda _: "news")
    async with open_gateway(tmp_path, provider, channels=[channel], config=config) as gateway:
        delivery = {"mode": "announce", "channel": "memory", "to": "ana"}
        job = await add(gateway, delivery=delivery)
        await anyio.sleep(70)
        assert [e["status"] for e in await entries(gateway, job["id"])] == ["ok"]
        assert channel.sent == []


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_heartbeat_ok_is_silence_and_a_missing_address_is_told(tmp_path: Path) -> None:
    channel = MemoryChannel()
    provider = ScriptedProvider(lambda _: "HEARTBEAT_OK nothing new")
    async with open_gateway(tmp_path, provider, channels=[channel]) as gateway:
        quiet = await add(gateway, delivery={"mode": "announce", "channel": "memory", "to": "ana"})
        lost = await add(gateway, delivery={"mode": "announce", "channel": "memory"})
        await anyio.sleep(70)
        assert channel.sent == []
        assert [e["status"] for e in await entries(gateway, quiet["id"])] == ["ok"]
        (entry,) = await entries(gateway, lost["id"])
        assert entry["status"] == "error"
        assert "delivery.to" in entry["error"]


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_channel_that_is_gone_is_told_and_the_job_can_still_be_changed(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(lambda _: "news")
    async with open_gateway(tmp_path, provider, channels=[MemoryChannel()]) as gateway:
        job = await add(gateway, delivery={"mode": "announce", "channel": "memory", "to": "ana"})
    async with open_gateway(tmp_path, provider) as gateway:
        await anyio.sleep(70)
        (entry,) = await entries(gateway, job["id"])
        assert entry["status"] == "error"
        assert "no channel 'memory' is set up" in entry["error"]
        assert await gateway.ledger.list_open_deliveries(limit=9) == []
        await call(gateway, "cron.update", id=job["id"], patch={"enabled": False})
        with pytest.raises(Invalid, match="no channel 'signal'"):
            await call(
                gateway, "cron.update", id=job["id"], patch={"delivery": {"channel": "signal"}}
            )


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_words_for_the_main_session_wake_it_or_wait_for_its_next_run(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda _: "noted")
    async with open_gateway(tmp_path, provider) as gateway:
        event = {"kind": "systemEvent", "text": "the bell rings"}
        now = await add(gateway, payload=event, sessionTarget="main")
        await anyio.sleep(70)
        assert len(provider.seen) == 1
        await call(gateway, "cron.remove", id=now["id"])
        late = await add(gateway, payload=event, sessionTarget="main", wakeMode="next-heartbeat")
        await anyio.sleep(70)
        assert len(provider.seen) == 1
        assert [e["status"] for e in await entries(gateway, late["id"])] == ["ok"]
        main = await gateway.ledger.find_session(SessionKey.main("main"))
        assert main is not None
        words = [
            entry.message for entry in await gateway.ledger.list_entries(main.session_id, limit=9)
        ]
        assert [m.content for m in words if isinstance(m, UserMessage)] == ["the bell rings"] * 2


@pytest.mark.anyio
async def test_whoever_follows_a_session_hears_of_words_that_wait_for_its_next_run(
    tmp_path: Path,
) -> None:
    heard: list[FeedEvent] = []
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "noted")) as gateway:
        gateway.feed.subscribe(heard.append, EntryAppended, RunEnded)
        await call(gateway, "wake", mode="next-heartbeat", text="the bell rings")

    entry, ended = heard
    assert isinstance(entry, EntryAppended)
    assert isinstance(entry.entry.message, UserMessage)
    assert isinstance(ended, RunEnded)
    assert entry.entry.run_id == ended.run.run_id


@pytest.mark.anyio
async def test_a_tick_whose_words_wait_is_told_as_begun_and_then_as_over_once(
    tmp_path: Path,
) -> None:
    heard: list[Any] = []
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "noted")) as gateway:
        gateway.feed.subscribe(heard.append, JobNews)
        event = {"kind": "systemEvent", "text": "the bell rings"}
        await add(gateway, payload=event, sessionTarget="main", wakeMode="next-heartbeat")
        await anyio.sleep(70)

    assert [each.action for each in heard] == ["added", "started", "finished"]


@pytest.mark.anyio
@pytest.mark.spec("G2")
async def test_a_job_is_changed_run_by_hand_and_removed(tmp_path: Path) -> None:
    heard: list[FeedEvent] = []
    provider = ScriptedProvider(lambda request: last_words(request))
    async with open_gateway(tmp_path, provider) as gateway:
        gateway.feed.subscribe(heard.append)
        job = await add(gateway, enabled=False)
        assert (await call(gateway, "cron.list"))["jobs"] == []
        changed = await call(
            gateway,
            "cron.update",
            jobId=job["id"],
            patch={"name": "new", "payload": {"kind": "agentTurn", "model": "scripted/other"}},
        )
        assert changed["name"] == "new"
        assert changed["payload"]["message"] == "write the report"
        done = await call(gateway, "cron.run", id=job["id"])
        assert done["ran"] is True
        await gateway.run_store.wait(done["runId"], 60)
        assert provider.seen[-1].model == "other"
        assert (await call(gateway, "cron.run", id=job["id"], mode="due"))["reason"] == "not-due"
        assert (await call(gateway, "cron.remove", id=job["id"]))["removed"] is True
        assert (await call(gateway, "cron.remove", id=job["id"]))["removed"] is False
        with pytest.raises(NotFound, match="unknown cron job id"):
            await call(gateway, "cron.update", id=job["id"], patch={})
        actions = [news.action for news in heard if isinstance(news, JobNews)]
        assert actions == ["added", "updated", "started", "finished", "removed"]


@pytest.mark.anyio
@pytest.mark.spec("G2")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schedule": {"kind": "cron", "expr": "61 * * * *"}}, "no cron expression"),
        ({"schedule": {"kind": "cron", "expr": "0 7 * * *", "tz": "Mars/Olympus"}}, "no time zone"),
        ({"schedule": {"kind": "every", "everyMs": 5}}, "at least 100"),
        ({"schedule": {"kind": "at", "at": "yesterday"}}, "is no time"),
        ({"schedule": {"kind": "at", "at": "2020-01-01"}}, "no time to come"),
        ({"sessionTarget": "main"}, "systemEvent"),
        (
            {"payload": {"kind": "systemEvent", "text": "x"}, "sessionTarget": "isolated"},
            "agentTurn",
        ),
        ({"payload": {"kind": "heartbeat"}}, "invalid cron.add params"),
        ({"surprise": 1}, "unexpected property 'surprise'"),
        ({"delivery": {"mode": "announce", "channel": "telegram", "to": "5"}}, "set up: none"),
        ({"payload": REPORT | {"deliver": True, "channel": "telegram", "to": "5"}}, "set up: none"),
    ],
)
async def test_a_job_that_cannot_be_is_refused_with_what_would_work(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    async with open_gateway(tmp_path, ScriptedProvider([])) as gateway:
        with pytest.raises(Invalid, match=text):
            await add(gateway, **changes)
        assert (await call(gateway, "cron.list", includeDisabled=True))["jobs"] == []


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_no_more_jobs_run_at_once_than_the_config_allows(tmp_path: Path) -> None:
    config = msgspec.convert({"cron": {"maxConcurrentRuns": 2}}, Config)
    slow = ScriptedProvider(lambda _: "ok", delay_s=30)
    async with open_gateway(tmp_path, slow, config=config) as gateway:
        for _ in range(5):
            await add(gateway, schedule={"kind": "at", "at": "2026-01-01T12:01:00Z"})
        await anyio.sleep(65)
        assert len(slow.seen) == 2
        await anyio.sleep(70)
        assert len(slow.seen) == 5


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_job_runs_by_hand_twice_within_a_millisecond(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "ok")) as gateway:
        job = await add(gateway, enabled=False)
        runs = []
        for _ in range(2):
            runs.append((await call(gateway, "cron.run", id=job["id"], mode="force"))["runId"])
            await gateway.run_store.wait(runs[-1], timeout_s=60)
        assert [e["status"] for e in await entries(gateway, job["id"])] == ["ok", "ok"]
        assert len(set(runs)) == 2


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_tick_that_was_never_settled_keeps_no_other_job_waiting(tmp_path: Path) -> None:
    config = msgspec.convert({"cron": {"maxConcurrentRuns": 1}}, Config)
    provider = ScriptedProvider(lambda _: "ok")
    async with open_gateway(tmp_path, provider, config=config) as gateway:
        stuck = await add(gateway, enabled=False)
        answer = await call(gateway, "cron.run", id=stuck["id"], mode="force")
        await gateway.run_store.wait(answer["runId"], timeout_s=60)
        store = look_into(tmp_path / "state" / "crossclaw.sqlite")
        store.execute("UPDATE job_slots SET status = 'running'")
        store.close()
        other = await add(gateway, name="other")
        await anyio.sleep(70)
        assert [entry["status"] for entry in await entries(gateway, other["id"])] == ["ok"]


@pytest.mark.anyio
@pytest.mark.spec("K3", "B1")
async def test_a_tick_that_is_no_longer_kept_is_known_by_its_run(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda _: "ok")
    async with open_gateway(tmp_path, provider) as gateway:
        job = await add(gateway, enabled=False)
        runs = []
        for _ in range(2):
            runs.append((await call(gateway, "cron.run", id=job["id"], mode="force"))["runId"])
            await gateway.run_store.wait(runs[-1], timeout_s=60)
            store = look_into(tmp_path / "state" / "crossclaw.sqlite")
            store.execute("DELETE FROM job_slots")
            store.close()
    assert len(set(runs)) == len(provider.seen) == 2


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_job_that_was_run_by_hand_at_the_moment_of_its_tick_goes_on(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda _: "ok")
    async with open_gateway(tmp_path, provider, clock=(clock := SetClock())) as gateway:
        job = await add(gateway)
        clock.shift_ms = MINUTE - 1
        for _ in range(2):  # the second one a millisecond later: that of the tick
            answer = await call(gateway, "cron.run", id=job["id"], mode="force")
            await gateway.run_store.wait(answer["runId"], timeout_s=60)
        await anyio.sleep(1)
        assert len(provider.seen) == 2
        await anyio.sleep(90)
        assert len(provider.seen) == 3
        (listed,) = (await call(gateway, "cron.list"))["jobs"]
        assert listed["enabled"]


@pytest.mark.anyio
@pytest.mark.spec("B1")
async def test_a_tick_whose_run_ended_without_it_is_settled_and_the_job_goes_on(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(lambda _: "ok", delay_s=600)
    async with open_gateway(tmp_path, provider) as gateway:
        job = await add(gateway)
        await anyio.sleep(61)
        await gateway.lanes.abort_session(SessionKey.cron("main", job["id"]), "stopped by hand")
        await anyio.sleep(1)
        (entry,) = await entries(gateway, job["id"])
        assert entry["status"] == "error"
        assert "stopped by hand" in entry["error"]
        await anyio.sleep(60)
        assert len(provider.seen) == 2


@pytest.mark.anyio
@pytest.mark.spec("K3")
async def test_a_job_that_can_no_longer_be_is_switched_off_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = ScriptedProvider(lambda _: "ok")
    async with open_gateway(tmp_path, provider) as gateway:
        zoned = {"kind": "cron", "expr": "* * * * *", "tz": "Europe/Vienna"}
        bad, good = await add(gateway, schedule=zoned), await add(gateway)
        monkeypatch.setattr("crossclaw.schedule.times.ZoneInfo", {}.__getitem__)  # gone since
        await anyio.sleep(130)
        (entry,) = await entries(gateway, bad["id"])
        assert "no time zone" in entry["error"]
        assert [e["status"] for e in await entries(gateway, good["id"])] == ["ok", "ok"]
        jobs = (await call(gateway, "cron.list", includeDisabled=True))["jobs"]
        assert {job["id"]: job["enabled"] for job in jobs} == {bad["id"]: False, good["id"]: True}


@pytest.mark.anyio
@pytest.mark.spec("K3", "B1")
@pytest.mark.parametrize("years", [10, -10])
@pytest.mark.parametrize(
    "schedule", [EVERY_MINUTE, {"kind": "cron", "expr": "* * * * *", "tz": "Europe/Vienna"}]
)
async def test_a_clock_that_was_wrong_by_years_for_a_while_silences_no_job(
    tmp_path: Path, years: int, schedule: dict[str, Any]
) -> None:
    clock = SetClock()
    async with open_gateway(tmp_path, ScriptedProvider(lambda _: "ok"), clock=clock) as gateway:
        job = await add(gateway, schedule=schedule)
        await anyio.sleep(70)
        clock.shift_ms = years * 365 * 24 * 60 * MINUTE
        await anyio.sleep(70)
        wrong = await add(gateway, schedule=EVERY_MINUTE, name="made meanwhile")
        clock.shift_ms = 0
        await anyio.sleep(130)
        for each in (job, wrong):
            ran = [e for e in await entries(gateway, each["id"]) if e["status"] == "ok"]
            assert len(ran) == len({e["runAtMs"] for e in ran})
            since = [e for e in ran if NOON_MS + 140_000 < e["runAtMs"] < NOON_MS + 300_000]
            assert len(since) == 2, each["name"]

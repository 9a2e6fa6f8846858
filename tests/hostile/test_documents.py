"""Files that others wrote: configs, state folders of OpenClaw, schedules. Each is read or refused in words."""

import json
from datetime import UTC
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.app import GatewayInputs, open_gateway
from crossclaw.config import Config, Paths, load
from crossclaw.domain.clock import SystemClock
from crossclaw.domain.errors import ConfigInvalid, CrossclawError, Invalid
from crossclaw.domain.jobs import At, CronSchedule, Every, JobSchedule
from crossclaw.domain.sight import EVERYTHING
from crossclaw.gateway.messages import entry_message
from crossclaw.ledger.sqlite.ledger import SqliteLedger
from crossclaw.schedule.times import check, due_since, next_after
from crossclaw.sessions.imported import ImportReport
from crossclaw.sessions.importing import Import
from tests.flows.test_import import LINES
from tests.hostile.making import Maker, anything, spoilt, words
from tests.hostile.watched import check_names, hostile

# ── configs ────────────────────────────────────────────────────────────────────────────────────

_CONFIGS = Maker(
    {
        "primary": ["rehearsal/rehearsal", "nobody/x", "x"],
        "id": ["main", "helper", "MAIN"],
        "mode": ["off", "all", "non-main", "token", "local"],
        "every": ["30m", "0m", "1", "x", "999999999d"],
        "userTimezone": ["UTC", "Mars/Olympus"],
        "$include": ["./other.json", "/etc/passwd", "openclaw.json"],
    },
    {"port": [0, 18789, 65536, -1, None], "workspace": ["w"]},
)


_PIECES = [
    "// x\n", "/*", "*/", ",", "'", '"', "0x1F", "Infinity", "-NaN", "\\", "}", "{", "]", ":", "$include: './nope'",
    '"${HOME}"', '"${NOPE}"', "\u2028", "\x00", "\n" * 3, "a: 1,", '"gateway": {"port": 1},', "+1", ".5", "1e999",
]  # fmt: skip
_pieces = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(_PIECES)), max_size=2)


def written(raw: Any, pieces: list[tuple[int, str]]) -> str:
    """As JSON, with something put in by a hand that slipped."""
    text = json.dumps(raw, indent=1)
    for where, piece in pieces:
        at = where % (len(text) + 1)
        text = text[:at] + piece + text[at:]
    return text


@pytest.mark.spec("C2")
@hostile(30, 1_000)
@given(_CONFIGS.nearly(Config), _pieces, st.booleans())
def test_any_config_opens_a_gateway_or_is_refused_by_its_path(
    raw: Any, pieces: list[tuple[int, str]], served: bool
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "openclaw.json"
        path.write_text(written(raw, pieces), encoding="utf-8")
        try:
            config = load(path, {}).config
        except ConfigInvalid as refused:
            check_names(refused, path)
            return
        if served:
            anyio.run(_open, config, Path(folder))


async def _open(config: Config, folder: Path) -> None:
    """Or the gateway says what keeps it closed."""
    paths = Paths(folder, folder / "state", folder / "openclaw.json")
    outside = GatewayInputs(environ={}, inline=True, keeps_time=True)
    try:
        async with open_gateway(config, paths, outside) as gateway:
            await gateway.about.snapshot()
    except* CrossclawError:
        pass


# ── OpenClaw's folders ─────────────────────────────────────────────────────────────────────────

_SESSION: dict[str, Any] = {
    "sessionId": "029276d4-0000-4000-8000-000000000001",
    "updatedAt": 1_770_557_821_000,
    "label": "the first",
    "thinkingLevel": "low",
    "modelOverride": "m1",
    "totalTokens": 17,
    "deliveryContext": {"channel": "telegram", "to": "1", "accountId": "a"},
    "origin": {"label": "x", "provider": "telegram"},
}
_change = st.tuples(st.integers(0, 30), st.sampled_from(["replace", "drop", "add"]), anything)
_changes = st.lists(_change, max_size=2)
_names = st.sampled_from(
    ["agent:main:main", "main", "agent:main:telegram:group:1", "x", "", "global"]
)
_stores = st.dictionaries(
    _names | words, st.builds(spoilt, st.just(_SESSION), _changes), max_size=3
)
_lines = st.lists(
    st.builds(spoilt, st.sampled_from(LINES), _changes).map(lambda line: json.dumps(line).encode())
    | st.binary(max_size=20)
    | st.sampled_from([b"", b"null", b"[" * 5000, b'{"type":"message"}', b'{"type":"message","message":{"role":"user","content":1e999}}']),
    max_size=6,
)  # fmt: skip


@pytest.mark.spec("C2")
@hostile(15, 3_000)
@given(_stores, _lines, st.booleans())
def test_a_damaged_folder_comes_in_as_far_as_it_can_and_once(
    store: dict[str, Any], lines: list[bytes], torn: bool
) -> None:
    with TemporaryDirectory() as name:
        sessions = Path(name) / "openclaw" / "agents" / "main" / "sessions"
        sessions.mkdir(parents=True)
        (sessions / "sessions.json").write_text(json.dumps(store), encoding="utf-8")
        whole = b"\n".join(lines) + (b"" if torn else b"\n")
        (sessions / f"{_SESSION['sessionId']}.jsonl").write_bytes(whole)
        anyio.run(_import_twice, Path(name))


async def _import_twice(folder: Path) -> None:
    ledger = SqliteLedger(folder / "crossclaw.sqlite", inline=True)
    try:
        try:
            first = await _imported(ledger, folder)
        except Invalid as refused:
            check_names(refused, folder)
            return
        kept = await _contents(ledger)
        again = await _imported(ledger, folder)
        assert (again.messages, again.notes) == (0, 0), (first, again)
        assert await _contents(ledger) == kept
    finally:
        await ledger.close()


async def _imported(ledger: SqliteLedger, folder: Path) -> ImportReport:
    importing = Import(ledger, SystemClock(), lambda _done, _all, _report: None)
    return await importing.run(folder / "openclaw")


async def _contents(ledger: SqliteLedger) -> list[bytes]:
    """Everything, as a client would be shown it."""
    found = []
    for session in await ledger.list_sessions(limit=10, sight=EVERYTHING):
        found.append(msgspec.json.encode(session))
        for entry in await ledger.list_entries(session.session_id, limit=100):
            shown = entry_message(entry) if entry.message is not None else entry.note
            found.append(msgspec.json.encode(shown))
    return found


# ── schedules ──────────────────────────────────────────────────────────────────────────────────

DAY = 86_400_000
_ZONES = ["UTC", "Europe/Vienna", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu"]  # fmt: skip
_EDGES = [
    0, 1_774_742_400_000, 1_793_494_800_000, 253_402_300_799_000, 253_402_300_799_999, 4_102_444_800_000,
    1_709_164_800_000, 1_483_228_799_000, 1_325_203_200_000,
]  # fmt: skip
_fields = st.sampled_from(["*", "0", "1", "*/0", "*/7", "59", "60", "1-5", "5-1", "L", "29", "31", "2", "#", "1,2", "MON", "?", "-1", "1#5", "5L", "W"])  # fmt: skip
_crons = st.lists(_fields, min_size=4, max_size=6).map(" ".join) | words.filter(bool)
_schedules: Any = st.one_of(
    st.builds(CronSchedule, expr=_crons, tz=st.sampled_from([None, *_ZONES, "Mars/Olympus", "", "/etc/passwd", "..", "a\x00b"])),
    st.builds(Every, every_ms=st.sampled_from([1, 100, DAY, 8_640_000_000_000_000]), anchor_ms=st.sampled_from([None, 0, 8_640_000_000_000_000])),
    st.builds(At, at=words.filter(bool) | st.sampled_from(["0001-01-01", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00+14:00", "2026-W01-1", "20260101", "9" * 5000, "253402300799999", "-1", "2016-12-31T23:59:60Z"])),
)  # fmt: skip


@pytest.mark.spec("K3")
@hostile(80)
@given(_schedules, st.sampled_from(_EDGES), st.integers(-DAY, DAY), st.sampled_from(_ZONES))
def test_any_schedule_has_a_next_tick_or_none_or_is_refused(
    schedule: JobSchedule, edge: int, beside: int, zone: str
) -> None:
    after, local = max(0, edge + beside), UTC if zone == "UTC" else ZoneInfo(zone)
    try:
        check(schedule, local)
    except Invalid:
        return
    tick = next_after(schedule, after, after, local)
    assert tick is None or tick > after
    if tick is not None:
        assert due_since(schedule, tick, tick + 3 * DAY, after, local).latest >= tick

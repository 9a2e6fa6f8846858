"""The way of a message in ARCHITECTURE.md, beside that of a live one."""

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from crossclaw.delivery.sender import ATTEMPTS_MAX, RETRY_FIRST_S, RETRY_MAX_S
from crossclaw.sessions.arrivals import ROADS, Road
from tests.walk import CHANGES_MAX, Call, walk

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
SOURCE = Path(__file__).parents[2] / "src" / "crossclaw"

_FUNCTION = re.compile(r"`([\w.]+)` \(([\w/]+\.py)\)")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}


def written() -> list[tuple[str, str]]:
    """The functions in the table, as (file, name), in their order."""
    text = PAGE.read_text("utf-8").partition("## The way of a message")[2].partition("\n## ")[0]
    return [(file, name) for name, file in _FUNCTION.findall(text)]


def unmet(wanted: list[tuple[str, str]], calls: list[Call]) -> tuple[str, str] | None:
    """The first that is not called behind those before it."""
    steps = ((call.file, call.name) for call in calls)
    return next((each for each in wanted if each not in steps), None)


async def test_a_message_goes_the_way_that_the_page_tells(tmp_path: Path) -> None:
    found = await walk(tmp_path)

    assert len(written()) > 20
    assert unmet(written(), found.calls) is None
    assert unmet(list(reversed(written())), found.calls) is not None, "the order counts"
    assert found.changes <= CHANGES_MAX


def rows_below(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its title."""
    text = PAGE.read_text("utf-8").partition(f"## {heading}")[2].partition("\n\n| ")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


YES, NO = "yes", "–"
ANEW = {"where due": "yes", "each time": "each time", "never": NO}
ARCHIVED = {"refused": "refused", "brought back": "brought back", "unheard": "unknown"}


def test_what_the_page_says_of_each_road_is_what_is_asked_there() -> None:
    rows = {road: row for row in rows_below("The way of a message") for road in row[0].split(", ")}

    assert set(rows) == set(ROADS) == set(get_args(Road))
    for road, rules in ROADS.items():
        _, _, command, archived, policy, anew, queues, owner = rows[road]
        assert command == (YES if rules.commands else NO), road
        assert archived == ARCHIVED[rules.archived], road
        asked = f"{road}: yes" in policy or policy == YES
        assert asked is rules.send_policy, road
        assert anew == ANEW[rules.begins_anew], road
        assert queues == (YES if rules.queues else NO), road
        assert (owner.split("; ")[0] == "no") is not rules.owner, road
        assert ("one hop less" in owner) is rules.hop, road


LIMITS: dict[str, tuple[str, ...]] = {
    "runs waiting in one session": ("ledger.operations LANE_RUNS_MAX",),
    "runs under way": ("runs.slots RUNS_AT_ONCE_MAX",),
    "calls to one provider": ("providers.registry CALLS_MAX",),
    "Markdown read for display": ("display.bounds CHARS_MAX", "display.bounds LINES_MAX"),
    "steps in one transaction / waiting": ("ledger.writing BATCH_STEPS_MAX", "ledger.writing QUEUE_STEPS_MAX"),
    "an answer under a budget": ("policy.budget OUTPUT_TOKENS_MIN",),
    "a wait for what others have reserved of a budget": ("agent.meter WAIT_S min",),
    "model calls in one run": ("agent.loop TURNS_MAX",),
    "pins of a session": ("ledger.operations PINS_MAX", "ledger.operations PINNED_BYTES_MAX KiB"),
    "crashes before a run is suspect": ("domain.suspects SUSPECT_AFTER", "domain.suspects GROUPS_MAX", "domain.suspects WINDOW_MS s"),
    "output of a command": ("sandbox.programs KEPT_BYTES KB", "sandbox.programs OUTPUT_BYTES_MAX MiB"),
    "memory files of a sandbox": ("sandbox.bubblewrap MEMORY_FILES_BYTES MiB",),
    "a web page made into text": ("tools.page_reader READING_S", "tools.readers READERS_MAX"),
    "start of an MCP server": ("tools.mcp_servers START_S", "tools.mcp_servers PAUSE_S"),
    "ticks of a job that are kept": ("ledger.jobs TICKS_KEPT",),
    "missed ticks listed one by one": ("schedule.times MISSED_ROWS_MAX",),
    "devices / waiting for a yes": ("gateway.pairing DEVICES_MAX", "gateway.pairing PENDING_MAX"),
    "a guest that is not heard of": ("sessions.guest_run AWAY_S min", "sessions.guest_run AT_WORK_S min"),
    "JSON of others": ("domain.untrusted VALUES_MAX", "domain.untrusted DEPTH_MAX"),
    "delivery attempts": ("delivery.sender ATTEMPTS_MAX",),
}  # fmt: skip
"""Rows of the table of limits, and the constants whose values stand in them: module, name, and the unit it is written in."""

UNITS = {"KiB": 1024, "MiB": 2**20, "KB": 1_000, "min": 60, "s": 1_000}
NOT_ONE_CONSTANT = {
    "attempts of a model call", "chat messages that are answered together", "continuations of one reply", "compactions after a refusal", "pictures and files",
    "history held in memory", "a command in a sandbox", "strangers", "wrong secrets that wait for their answer",
}  # fmt: skip


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    rows = {row[0]: row[1] for row in rows_below("Limits, in one place")}

    assert set(rows) == set(LIMITS) | NOT_ONE_CONSTANT
    for name, constants in LIMITS.items():
        for constant in constants:
            module, variable, *unit = constant.split()
            value = getattr(importlib.import_module(f"crossclaw.{module}"), variable)
            shown = value / UNITS[unit[0]] if unit else value
            assert re.search(rf"(?<![\d,]){shown:,.10g}(?![\d,]\d)", rows[name]), (
                name,
                constant,
                value,
            )


def test_a_delivery_is_tried_for_as_long_as_the_page_says() -> None:
    waits_s = [min(RETRY_MAX_S, RETRY_FIRST_S * 2**n) for n in range(ATTEMPTS_MAX - 1)]
    assert sum(waits_s) == 8.5 * 60


def test_a_run_is_put_together_in_one_place() -> None:
    made = re.compile(r"(?<!class )\bNewRun\(")
    found = [path for path in SOURCE.rglob("*.py") if made.search(path.read_text("utf-8"))]

    assert [path.relative_to(SOURCE).as_posix() for path in found] == ["sessions/run_builder.py"]


def rooms() -> list[str]:
    found = re.search(r"^## The rooms.*?^```$(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert found is not None
    return found[1].strip().splitlines()


def test_the_rooms_stand_in_the_order_of_their_imports() -> None:
    """As import-linter holds it; rooms of one layer in any order. Behind `│` is another one."""
    project = tomllib.loads((PAGE.parent / "pyproject.toml").read_text("utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    layers = {
        room: at
        for at, layer in enumerate(contract["layers"])
        for room in layer.split(" | ")
        if room != "__main__"
    }
    named = [part.split()[0] for line in rooms() for part in line.split("│")]
    written = [room for room in named if room != "web"]  # files of gateway

    assert sorted(written) == sorted(layers)
    assert written == sorted(written, key=lambda room: layers[room])


def test_every_module_that_a_line_of_rooms_names_is_there() -> None:
    """Lines that list modules part them by `·`; what stands in brackets is about them."""
    named = 0
    for line in rooms():
        room, listed = line.split(maxsplit=1)
        if "·" not in listed:
            continue
        listed = re.sub(r"\(.*?\)", "", listed.partition("│")[0]).rpartition(": ")[2]
        for word in re.findall(r"(?:^|[·,])\s*(\w+)", listed.partition(";")[0]):
            named += 1
            there = SOURCE / room / word
            assert there.is_dir() or there.with_suffix(".py").is_file(), f"{room}/{word}"
    assert named > 40

"""The way of a message in ARCHITECTURE.md, beside that of a live one."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

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


def test_the_page_names_every_road() -> None:
    text = PAGE.read_text("utf-8")
    assert set(ROADS) == set(get_args(Road))
    for road in ROADS:
        assert re.search(rf"^\| .*\b{road}\b.* \|", text, re.M), road


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

"""`watch` and `chat` against the real gateway: who talks to whom, and going from session to session."""

import json
import re
from argparse import Namespace
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any

import pytest

from crossclaw.cli.exits import Exit
from crossclaw.cli.watch import LinePrinter, Watcher, WatchLine
from crossclaw.display.columns import width
from tests.cli.person import Person
from tests.cli.test_with_a_gateway import running
from tests.starting import Command

ASK = (
    'say: I will ask.\ntool: sessions_send {"agentId": "librarian", "message": "say: Shelf nine."}\n'
    "then:\nsay: Shelf nine."
)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Generator[Person]:
    someone = Person(tmp_path_factory.mktemp("watcher"))
    someone.write_config('{ agents: { list: [{ id: "main" }, { id: "librarian" }] } }')
    with running(someone, "gateway", "--port", str(someone.port)):
        yield someone


def watching(person: Person, *words: str) -> Command:
    """A watcher that listens: from its word on nothing is missed."""
    watcher = person.begins("watch", *words)
    assert watcher.stderr
    while "watching" not in (line := watcher.stderr.readline()):
        assert line, "it ended before it listened"
    return watcher


@pytest.mark.spec("B7", "C2")
def test_watch_tells_who_asks_whom_and_what_comes_of_it(person: Person) -> None:
    watcher = watching(person, "--lines", "9")
    person.types("message", "send", ASK)

    said, _ = watcher.communicate(timeout=30)

    assert watcher.returncode == Exit.OK
    routes = [line[10:].split("  ")[0] for line in said.splitlines()]
    assert routes[0] == "a person → main"
    assert "main → librarian" in routes
    assert "librarian → main" in routes
    assert "tool" in said
    assert "sessions_send" in said
    assert "“Shelf nine.”" in said


@pytest.mark.spec("B7")
def test_watch_shows_only_lines_that_have_all_the_words(person: Person) -> None:
    watcher = watching(person, "→ LIBRARIAN", "send", "--lines", "1", "--json")
    person.types("message", "send", ASK, "--session", "filtered")

    said, _ = watcher.communicate(timeout=30)

    (line,) = said.splitlines()
    told = json.loads(line)
    assert (told["route"], told["what"]) == ("main:filtered → librarian", "send")


def test_watch_needs_a_gateway(tmp_path_factory: pytest.TempPathFactory) -> None:
    nobody = Person(tmp_path_factory.mktemp("alone"))

    done = nobody.types("watch")

    assert done.returncode == Exit.UNREACHABLE
    assert "crossclaw gateway" in done.stderr


def reads_until(pipe: IO[str] | None, words: str) -> str:
    assert pipe
    heard = ""
    while words not in heard:
        line = pipe.readline()
        assert line, heard
        heard += line
    return heard


@pytest.mark.spec("B7")
def test_watch_goes_on_after_the_gateway_took_over_a_changed_config(tmp_path: Path) -> None:
    someone = Person(tmp_path)
    someone.write_config('{ agents: { list: [{ id: "main" }] } }')
    with running(someone, "gateway", "--port", str(someone.port)):
        watcher = watching(someone, "answered", "--lines", "2")
        someone.types("message", "send", "say: Before.")
        someone.write_config('{ agents: { list: [{ id: "main" }, { id: "librarian" }] } }')
        heard = reads_until(watcher.stderr, "the gateway was away; it is there again")
        someone.types("message", "send", "say: After.")
        said, _ = watcher.communicate(timeout=30)

    assert watcher.returncode == Exit.OK
    assert re.search(r"(?m)^\d\d:\d\d:\d\d  the gateway was away", heard)
    assert "“Before.”" in said
    assert "“After.”" in said


def test_watch_ends_when_the_gateway_stays_away(tmp_path: Path) -> None:
    someone = Person(tmp_path)
    impatient = (
        "import sys; from crossclaw.client import reconnecting; from crossclaw.cli.main import main;"
        "reconnecting.AWAY_S_MAX = 0.3; sys.argv[0] = 'crossclaw'; sys.exit(main())"
    )
    with running(someone, "gateway", "--port", str(someone.port)):
        watcher = someone.begins("-c", impatient, "watch", name="python")
        reads_until(watcher.stderr, "watching")
    _, told = watcher.communicate(timeout=30)

    assert watcher.returncode == Exit.UNREACHABLE
    assert "went away and is not back" in told
    assert "crossclaw gateway" in told


@pytest.mark.spec("C2")
def test_chat_goes_from_one_session_to_another(person: Person) -> None:
    lines = [
        "say: here",
        "/session elsewhere",
        "say: there",
        "/sessions",
        "/session 1",
        "/session agent:nobody:main",
        "say: still here",
    ]

    done = person.types("chat", stdin="\n".join(lines) + "\n")

    assert done.returncode == Exit.OK
    assert "agent:main:elsewhere" in done.stderr
    assert 'there is no agent "nobody"' in done.stderr
    assert "still here" in done.stdout
    history = person.types("sessions", "history", "elsewhere").stdout
    assert "there" in history
    assert "here\n" not in history.replace("there\n", "").replace("still here\n", "")


@pytest.mark.spec("B7")
def test_watch_says_of_an_announce_only_who_announces(person: Person) -> None:
    watcher = watching(person, "announces", "--lines", "1", "--json")
    person.types("message", "send", ASK, "--session", "announced")

    said, _ = watcher.communicate(timeout=30)

    told = json.loads(said)
    assert (told["route"], told["what"]) == ("librarian", "announces")


@pytest.mark.spec("B7")
def test_watch_gives_programs_every_fact_in_a_field_of_its_own(person: Person) -> None:
    watcher = watching(person, "answered", "fields", "--lines", "1", "--json")
    words = "Done. " * 40
    person.types("message", "send", f"say: {words}", "--session", "fields")

    told = json.loads(watcher.communicate(timeout=30)[0])

    key = "agent:main:fields"
    assert (told["route"], told["what"]) == ("main:fields", "answered")
    assert (told["event"], told["kind"], told["status"]) == ("ended", "chat", "ok")
    assert (told["key"], told["to"], told["text"].strip()) == (key, key, words.strip())
    assert min(told["at"], told["durationMs"] + 1) > 0
    assert told["runId"]


@pytest.mark.spec("B7")
def test_watch_calls_a_sub_agent_by_its_label(person: Person) -> None:
    watcher = watching(person, "spawn", "subagent:tidy-up", "--lines", "1", "--json")
    person.types("sessions", "spawn", "say: tidy", "--label", "tidy-up")

    told = json.loads(watcher.communicate(timeout=30)[0])

    assert told["route"].endswith("main:subagent:tidy-up")
    assert re.fullmatch(r"agent:main:subagent:[0-9a-f-]{36}", told["key"])
    assert (told["event"], told["kind"]) == ("arrived", "spawn")


@pytest.mark.spec("B7")
def test_watch_does_not_take_a_report_for_an_answer_of_its_reader(person: Person) -> None:
    watcher = watching(person, "Status: success", "--lines", "1", "--json")
    person.types("sessions", "spawn", "say: found it", "--label", "search")

    told = json.loads(watcher.communicate(timeout=30)[0])

    assert (told["route"], told["what"], told["event"]) == ("main", "receives", "message")
    assert "found it" in told["text"]
    assert told["runId"] is None


def test_no_clock_of_a_watcher_runs_backwards(capsys: pytest.CaptureFixture[str]) -> None:
    printer = LinePrinter(Namespace(words=[], json=False, lines=None))

    printer.show([WatchLine(5_000, "main", "chat"), WatchLine(3_000, "main", "tool")])

    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == second.split()[0]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("what", ["chat", "needs approval", "over budget"])
def test_no_line_of_watch_is_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, what: str
) -> None:
    monkeypatch.setattr("crossclaw.cli.watch.terminal_columns", lambda: columns)
    line = WatchLine(5_000, "The librarian → 東京の灯台 " * 3, what, "words and 文字 " * 30)

    shown = line.shown(5_000)

    assert width(shown) <= columns
    assert what in shown
    if columns >= 60:
        assert shown.endswith("…")
        assert "words" in shown


class SharedGateway:
    """Answers `map.get` as a gateway that shares its ledger: the cursor stays behind, and runs of the last half
    minute are told again (gateway/methods/map.py)."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []

    async def call(self, method: str, params: dict[str, Any], *, repeat: bool) -> dict[str, Any]:
        assert (method, repeat) == ("map.get", True)
        still_open = [run for run in self.runs if run["status"] in ("queued", "running")]
        return {"cursor": 0, "nodes": [], "runs": list(self.runs), "open": still_open}

    def begin(self, run_id: str, status: str = "running") -> None:
        self.runs.append(
            {"runId": run_id, "key": "agent:main:main", "kind": "chat", "createdAt": 1}
            | {"status": status}
        )


@pytest.mark.spec("B7")
async def test_watch_shows_each_arrival_once_also_where_several_gateways_share_a_ledger() -> None:
    gateway = SharedGateway()
    gateway.begin("before", "ok")
    gateway.begin("under way")
    watcher = Watcher(gateway)  # type: ignore[arg-type]
    assert [line.run_id for line in await watcher.begin()] == ["under way"]

    gateway.begin("new")
    assert [line.run_id for line in await watcher.arrived()] == ["new"]

    for run in gateway.runs:
        run["status"] = "ok"
    assert await watcher.arrived() == [], "an end, or a take-over, is no second arrival"
    gateway.begin("next")
    assert [line.run_id for line in await watcher.arrived()] == ["next"]

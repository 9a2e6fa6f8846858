"""`cron` at a terminal: the words of OpenClaw's own command line make, show, run and remove jobs."""

import re

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C2", "K3")


def test_a_job_is_made_shown_changed_run_and_removed(person: Person) -> None:
    made = person.reads_json(
        *("cron", "add", "--name", "report", "--cron", "0 7 * * 1-5", "--tz", "Europe/Vienna"),
        *("--message", "say: the report", "--channel", "last", "--to", "4711"),
    )
    assert made["schedule"] == {"kind": "cron", "expr": "0 7 * * 1-5", "tz": "Europe/Vienna"}
    assert made["delivery"] == {"mode": "announce", "channel": "last", "to": "4711"}
    listed = person.types("cron", "list")
    assert re.search(
        r"cron 0 7 \* \* 1-5 @ Europe/Vienna +\S+ 07:00 Europe/Vienna ", listed.stdout
    ), listed.stdout

    changed = person.reads_json("cron", "edit", made["id"], "--every", "2h", "--name", "news")
    assert changed["schedule"] == {"kind": "every", "everyMs": 7_200_000}
    assert person.types("cron", "disable", made["id"]).stdout.endswith("switched off\n")
    on, everything = person.types("cron", "list"), person.types("cron", "list", "--all")
    assert on.stdout.startswith("no jobs")
    assert on.stderr.endswith("1 more is switched off: crossclaw cron list --all\n")
    assert ("news" in everything.stdout, "more" in everything.stderr) == (True, False)
    assert person.reads_json("cron", "list")["jobs"] == []
    assert person.types("cron", "enable", made["id"]).returncode == Exit.OK
    assert person.reads_json("cron", "run", made["id"])["ran"] is True
    assert person.reads_json("cron", "status")["jobs"] == 1
    assert "entries" in person.reads_json("cron", "runs", "--id", made["id"])
    assert person.types("cron", "rm", made["id"]).stdout == "removed\n"


def test_a_job_is_meant_by_its_name_or_the_end_of_its_id(person: Person) -> None:
    def add(name: str, *more: str) -> str:
        words = ("cron", "add", "--name", name, "--every", "2h", "--message", "say: hi", *more)
        return str(person.reads_json(*words)["id"])

    news, tea, other = add("news"), add("tea"), add("tea", "--same-name")
    listed = person.types("cron", "list").stdout
    assert news[-8:] in listed
    assert news not in listed
    assert person.reads_json("cron", "run", "news")["ran"] is True
    assert person.reads_json("cron", "disable", news[-8:])["id"] == news
    assert person.reads_json("cron", "runs", "--id", "news")["entries"] is not None
    assert person.reads_json("cron", "runs", "news")["entries"] is not None
    assert "which job? crossclaw cron list" in " ".join(person.types("cron", "runs").stderr.split())
    unclear = person.types("cron", "rm", "tea")
    assert unclear.returncode == Exit.USAGE
    assert "2 jobs are meant" in unclear.stderr
    assert all(f"\n{each[-8:]}  tea   every 2h" in unclear.stderr for each in (tea, other))
    unknown = person.types("cron", "rm", "coffee")
    assert (unknown.returncode, unknown.stdout) == (Exit.FAILED, "")
    assert "there is no job coffee" in unknown.stderr
    assert "Did you mean 'news'?" in person.types("cron", "run", "nwes").stderr
    assert person.types("cron", "rm", "coffee", "--json").returncode == Exit.FAILED
    assert person.types("cron", "rm", "news").stdout == "removed\n"


def test_a_job_that_is_added_twice_by_mistake_is_there_once(person: Person) -> None:
    words = ("cron", "add", "--name", "tea", "--every", "2h", "--message", "say: hi")
    first, again = person.types(*words), person.types(*words)
    [job] = person.reads_json("cron", "list")["jobs"]

    assert (first.returncode, again.returncode) == (Exit.OK, Exit.FAILED)
    assert "there is a job called 'tea' already. Nothing was made." in again.stderr
    assert f"crossclaw cron edit {job['id'][-8:]}" in again.stderr
    assert "--same-name" in again.stderr


def test_the_moment_of_a_job_is_shown_as_on_the_wall(person: Person) -> None:
    at = ("--at", "2030-12-24T18:00:30.5Z", "--message", "say: hi")
    person.types("cron", "add", "--name", "eve", *at)

    assert (
        "at 2030-12-24 19:00  2030-12-24 19:00"
        in person.types("cron", "list", TZ="Europe/Vienna").stdout
    )


def test_a_moment_may_be_said_as_from_now(person: Person) -> None:
    made = person.reads_json("cron", "add", "--name", "tea", "--at", "20m", "--system-event", "tea")
    assert made["sessionTarget"] == "main"
    waits_ms = made["state"]["nextRunAtMs"] - made["createdAtMs"]
    assert 19 * 60_000 < waits_ms <= 20 * 60_000


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--name", "x", "--message", "y"], "a job needs"),
        (["--name", "x", "--message", "y", "--every", "soon"], "is no duration"),
        (["--name", "x", "--message", "y", "--at", "1h", "--tz", "UTC"], "--tz belongs to --cron"),
        (["--name", "x", "--message", "y", "--at", "1h", "--every", "2h"], "not allowed with"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_done(
    person: Person, words: list[str], text: str
) -> None:
    done = person.types("cron", "add", *words)
    assert done.returncode == Exit.USAGE
    assert text in done.stderr


def test_a_new_job_says_when_it_is_due_by_its_own_clock(person: Person) -> None:
    daily = ("--cron", "0 7 * * *", "--tz", "Europe/Vienna", "--message", "x")

    told = person.types("cron", "add", "--name", "report", *daily, TZ="Asia/Tokyo").stdout

    assert re.search(r"next \d{4}-\d\d-\d\d 07:00:00 Europe/Vienna\n", told)


def test_a_job_that_comes_often_is_listed_by_the_second(person: Person) -> None:
    person.types("cron", "add", "--name", "pulse", "--every", "30s", "--message", "x")
    person.types("cron", "add", "--name", "daily", "--every", "1d", "--message", "x")

    rows = person.types("cron", "list").stdout.splitlines()

    (pulse,) = [row for row in rows if " pulse " in row]
    (daily,) = [row for row in rows if " daily " in row]
    assert re.search(r" \d\d:\d\d:\d\d ", pulse)
    assert re.search(r" \d\d:\d\d ", daily)

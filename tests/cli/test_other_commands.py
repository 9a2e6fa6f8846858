"""The other commands: sessions, agents, models, status, config, doctor and calls by name."""

import json
import re
import socket
import stat

import apsw
import pytest

from crossclaw.cli.exits import Exit
from tests.cli.fake_gateway import FakeGateway
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C2")

ROW = {"key": "agent:main:main", "kind": "direct", "updatedAt": 1_000, "totalTokens": 12}
LINE = {"key": "agent:main:main", "kind": "main", "updatedAt": 1_000, "tokens": 12}
CHILD = {
    "key": "agent:main:subagent:2d0405a2-80ad-55af-b53a-52849579a422",
    "kind": "other",
    "updatedAt": 1_000,
    "tokens": 1_234_567,
    "label": "An errand to the far end of the town and back",
    "lane": {"status": "running", "runId": "r", "since": 1, "queued": 2},
    "standing": {"name": "running", "queued": 2},
}


@pytest.fixture
def told(gateway: FakeGateway) -> FakeGateway:
    gateway.answers |= {
        "sessions.list": {"ts": 61_000, "count": 1, "sessions": [ROW]},
        "sessions.table": {"ts": 61_000, "total": 1, "rows": [LINE]},
        "sessions.resolve": {"ok": True, "key": "agent:main:main"},
        "sessions.describe": {"session": ROW},
        "models.list": {"models": [{"id": "m1", "provider": "fake", "name": "M1"}]},
        "status": {"sessions": {"count": 1, "defaults": {"model": "rehearsal/rehearsal"}}},
        "chat.history": {
            "sessionKey": "agent:main:main",
            "messages": [
                {"role": "user", "content": "Where?", "timestamp": 1},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Let me see."},
                        {"type": "toolCall", "name": "read", "arguments": {"path": "a.md"}},
                    ],
                },
                {"role": "toolResult", "toolName": "read", "content": "shelf nine"},
            ],
        },
    }
    return gateway


def test_status_says_why_a_gateway_among_several_takes_no_runs(
    person: Person, told: FakeGateway
) -> None:
    before = person.types("status").stdout
    why = "its config is another\n\x1b[2J: tools.exec.security"
    told.answers["gateways.list"] = {"shared": True, "gateways": [], "whyNoRuns": why}
    (line,) = [each for each in person.types("status").stdout.splitlines() if "no runs" in each]

    shown = json.loads(person.types("status", "--json").stdout)
    assert shown["whyNoRuns"] == why
    assert "no runs" not in before, "an older gateway does not know the question"
    assert "its config is another" in line
    assert "tools.exec.security" in line


def test_calling_a_method_prints_its_answer(person: Person, told: FakeGateway) -> None:
    done = person.types("gateway", "call", "sessions.list", "--params", "{limit: 5}", "--json")

    assert json.loads(done.stdout)["count"] == 1
    assert told.params_of("sessions.list") == [{"limit": 5}]


def test_a_call_with_its_own_address_and_token(person: Person, told: FakeGateway) -> None:
    done = person.types(
        *("gateway", "call", "health", "--url", told.url, "--token", "right-token"),
        OPENCLAW_GATEWAY_TOKEN="",
    )

    assert json.loads(done.stdout) == {"ok": True}


def test_the_second_answer_is_waited_for_when_asked(person: Person, told: FakeGateway) -> None:
    told.answers["agent"] = [{"runId": "r", "status": "accepted"}, {"runId": "r", "status": "ok"}]

    first = person.types("gateway", "call", "agent")
    final = person.types("gateway", "call", "agent", "--expect-final")

    assert json.loads(first.stdout)["status"] == "accepted"
    assert json.loads(final.stdout)["status"] == "ok"


def test_a_refused_call_and_bad_params(person: Person, told: FakeGateway) -> None:
    refused = person.types("gateway", "call", "no.such")
    unread = person.types("gateway", "call", "health", "--params", "[1]")

    assert (refused.returncode, unread.returncode) == (Exit.FAILED, Exit.USAGE)
    assert "unknown method: no.such" in refused.stderr


def test_health_and_calls_want_a_gateway_that_runs(person: Person) -> None:
    for words in (["health"], ["gateway", "call", "health"]):
        done = person.types(*words)
        assert done.returncode == Exit.UNREACHABLE
        assert "crossclaw gateway" in done.stderr


def test_sessions_are_listed_shown_and_read(person: Person, told: FakeGateway) -> None:
    assert "agent:main:main  main" in person.types("sessions").stdout
    assert "1 min ago" in person.types("sessions", "list").stdout
    shown = person.types("sessions", "show", "main").stdout
    assert re.search(r"^in its window +12 tokens$", shown, re.M)
    assert re.search(r"^state +idle$", shown, re.M)
    assert re.search(r"^updated +1 min ago, 1970-01-01", shown, re.M)
    assert "totalTokens" in person.types("sessions", "show", "main", "--json").stdout
    read = person.types("sessions", "history", "main").stdout
    assert "Where?" in read
    assert "→ read path: a.md" in read
    assert "shelf nine" not in read
    assert "shelf nine" in person.types("sessions", "history", "main", "--tools").stdout


def test_a_list_says_kind_name_state_and_tokens(person: Person, told: FakeGateway) -> None:
    told.answers["sessions.table"] = {"ts": 61_000, "total": 2, "rows": [LINE, CHILD]}

    lines = person.types("sessions", "list", "--limit", "2", "--active", "5").stdout.splitlines()

    assert lines[0].split() == ["session", "kind", "name", "state", "tokens", "updated"]
    assert lines[1].split() == ["agent:main:main", "main", "idle", "12", "1", "min", "ago"]
    assert str(CHILD["key"]) in lines[2]
    assert "An errand to the far end of the town and back  running, 2 queued  1.2M" in lines[2]
    asked = told.params_of("sessions.table")
    assert asked == [{"limit": 2, "activeMinutes": 5, "offset": 0}]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_list_fits_the_terminal(person: Person, told: FakeGateway, columns: int) -> None:
    told.answers["sessions.table"] = {"ts": 61_000, "total": 2, "rows": [LINE, CHILD]}

    lines = person.sees(columns, "sessions", "list", "--limit", "2").splitlines()

    assert max(map(len, lines)) <= columns
    assert lines[2].startswith("agent:main")
    assert "9a422  other  An errand" in lines[2]
    assert lines[2].endswith("running, 2 queued  1.2M    1 min ago")


def test_a_list_that_is_not_all_says_so(person: Person, told: FakeGateway) -> None:
    told.answers["sessions.table"] = {"ts": 61_000, "total": 312, "rows": [LINE]}

    done = person.types("sessions", "list", "--limit", "1")

    assert "the newest 1 of 312; --limit 312 shows all" in done.stderr


def test_a_search_that_finds_nothing_is_not_an_empty_gateway(
    person: Person, told: FakeGateway
) -> None:
    told.answers["sessions.table"] = {"ts": 61_000, "total": 0, "rows": []}

    assert "no sessions yet" in person.types("sessions", "list").stdout
    assert "no sessions yet" not in person.types("sessions", "list", "--search", "x").stdout


def test_a_history_says_how_much_is_older_and_how_to_see_it(
    person: Person, told: FakeGateway
) -> None:
    told.answers["chat.history"]["older"] = 47

    done = person.types("sessions", "history", "main", "--limit", "3")
    json_too = person.types("sessions", "history", "main", "--limit", "3", "--json")

    assert "47 older entries are not shown" in done.stderr
    assert "crossclaw sessions history main --before 48" in done.stderr
    assert json.loads(json_too.stdout)["older"] == 47


def test_why_is_told_in_lines_that_fit(person: Person, told: FakeGateway) -> None:
    told.answers["sessions.explain"] = {
        "allowed": False,
        "from": "agent:main:main",
        "verb": "send",
        "to": "agent:ops:main",
        "exists": True,
        "sandboxed": True,
        "reasons": [
            {"about": "agent-to-agent", "allowed": False, "reason": "why " * 40, "setting": "a.b"}
        ],
    }

    lines = person.types(
        "sessions", "explain", "main", "send", "agent:ops:main"
    ).stdout.splitlines()

    assert lines[0] == "not allowed: agent:main:main (sandboxed) send agent:ops:main"
    assert lines[2].startswith("no   agent-to-agent  why why")
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("[a.b]")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"runId": "r", "status": "ok", "reply": "Nine."}, Exit.OK),
        ({"runId": "r", "status": "timeout", "error": "not yet"}, Exit.TIMEOUT),
        ({"runId": "r", "status": "error", "error": "no"}, Exit.FAILED),
    ],
)
def test_sending_into_a_session(
    person: Person, told: FakeGateway, answer: dict[str, str], code: Exit
) -> None:
    told.answers["sessions.send"] = answer

    done = person.types("sessions", "send", "main", "Which shelf?", "--timeout", "5")

    assert done.returncode == code
    assert told.params_of("sessions.send") == [
        {"sessionKey": "agent:main:main", "message": "Which shelf?", "timeoutSeconds": 5}
    ]


def test_status_agents_and_models_at_a_glance(person: Person, told: FakeGateway) -> None:
    status = person.types("status").stdout
    assert "main, helper" in status
    assert "crossclaw onboard" in status
    assert "helper" in person.types("agents").stdout
    assert "fake/m1" in person.types("models", "list").stdout


def test_an_agent_is_added_to_a_file_with_comments(person: Person) -> None:
    person.write_config('// mine\n{\n  agents: { list: [{ id: "main" }, /* more */] },\n}\n')

    done = person.types("agents", "add", "Librarian", "--name", "The librarian")

    assert done.returncode == 0, done.stderr
    text = person.config_path.read_text()
    assert text.startswith("// mine\n")
    assert "/* more */" in text
    assert stat.S_IMODE(person.config_path.stat().st_mode) == 0o600
    listed = person.reads_json("config", "get", "agents.list")
    assert [(a["id"], a["name"]) for a in listed] == [
        ("main", None),
        ("librarian", "The librarian"),
    ]


def test_the_first_agent_that_is_added_does_not_push_main_away(person: Person) -> None:
    person.types("agents", "add", "librarian")
    again = person.types("agents", "add", "librarian", "--description", "knows the books")
    bad = person.types("agents", "add", "no spaces!")

    agents = person.reads_json("config", "get", "agents.list")
    assert [a["id"] for a in agents] == ["main", "librarian"]
    assert (again.returncode, bad.returncode) == (Exit.OK, Exit.USAGE)
    assert "is already there" in again.stdout
    assert agents[1]["description"] == "knows the books"


def test_an_agent_list_in_an_included_file_is_left_alone(person: Person) -> None:
    person.write_config('{ agents: { $include: "agents.json5" } }')
    (person.state / "agents.json5").write_text('{ list: [{ id: "main" }] }')

    done = person.types("agents", "add", "librarian")

    assert done.returncode == Exit.FAILED
    assert '"id": "librarian"' in done.stderr
    assert person.config_path.read_text() == '{ agents: { $include: "agents.json5" } }'


def test_config_values_are_read_and_changed(person: Person) -> None:
    person.write_config(
        '{\n  // the port\n  gateway: { port: 1234, auth: { token: "s3cret" } },\n}'
    )

    changed = person.types("config", "set", "gateway.port", "4321")
    put = person.types("config", "set", "agents.defaults.model", "anthropic/claude-opus-5-5")
    refused = person.types("config", "set", "gateway.port", "many")

    assert (changed.returncode, put.returncode, refused.returncode) == (0, 0, Exit.FAILED)
    assert person.types("config", "get", "gateway.port").stdout == "4321\n"
    assert person.types("config", "get", "agents.defaults.model").stdout.startswith("anthropic/")
    assert "s3cret" not in person.types("config", "get").stdout
    assert "// the port" in person.config_path.read_text()
    assert person.types("config", "path").stdout.strip() == str(person.config_path)


def test_config_check_says_file_and_line(person: Person) -> None:
    person.write_config("{\n  agents: {},\n  somethingElse: 1,\n  talk: {},\n}")
    good = person.types("config", "check")
    person.write_config("{\n  agnets: {},\n}")
    bad = person.types("config", "check")

    assert good.returncode == 0
    assert f"{person.config_path}:3: somethingElse" in good.stdout
    assert bad.returncode == Exit.FAILED
    assert f"{person.config_path}:2" in bad.stderr


def test_the_doctor_says_what_to_do(person: Person) -> None:
    person.write_config('{ agents: { defaults: { model: "anthropic/claude-opus-5-5" } } }')
    person.config_path.chmod(0o644)
    (person.state / ".env").write_text("not a line\n")
    with socket.create_server(("127.0.0.1", person.port)):
        ill = person.types("doctor")
    person.config_path.unlink()
    well = person.types("doctor")

    assert ill.returncode == Exit.FAILED
    assert f"chmod 600 {person.config_path}" in ill.stdout
    assert "export ANTHROPIC_API_KEY" in ill.stdout
    assert f"{person.state}/.env:1 is not understood" in ill.stdout
    assert f"port {person.port} belongs to another program" in ill.stdout
    assert well.returncode == 0
    assert "rehearsal" in well.stdout


def test_the_doctor_names_rows_of_the_ledger_that_cannot_be_read(person: Person) -> None:
    assert person.types("message", "send", "say: hi").returncode == 0
    whole = person.types("doctor")
    (store,) = person.folder.rglob("crossclaw.sqlite")
    db = apsw.Connection(str(store))
    db.execute("UPDATE sessions SET display_name = CAST(X'ff' AS TEXT)")
    db.execute("UPDATE entries SET body = X'7b' WHERE seq = 1")
    db.close()
    hurt = person.types("doctor")
    listed = person.types("sessions", "list")

    assert "ledger: every row can be read" in whole.stdout
    assert "every row can be read" not in hurt.stdout
    assert "ledger: sessions, id 1 of agent:main:main: its stored form is damaged" in hurt.stdout
    assert "ledger: entries, id 1 of " in hurt.stdout
    assert "unreadable" in listed.stdout


@pytest.mark.spec("V4")
def test_the_doctor_tries_the_sandbox_where_one_is_wanted(person: Person) -> None:
    person.write_config('{ agents: { defaults: { sandbox: { mode: "all" } } } }')

    there = person.types("doctor")
    missing = person.types("doctor", PATH=str(person.folder))

    assert "bubblewrap works, for main" in there.stdout
    held = " ".join(there.stdout.split())
    by_kernel = "workspace of main: a quota of the kernel holds it to" in held
    assert (
        by_kernel or "workspace of main: held to 20480 MB and 1000000 files by measuring it" in held
    )
    assert missing.returncode == Exit.FAILED
    assert "apt install bubblewrap" in " ".join(missing.stdout.split())


def test_the_doctor_shows_what_is_wrong_with_the_config(person: Person) -> None:
    person.write_config("{\n  agnets: {},\n}")

    done = person.types("doctor")

    assert done.returncode == Exit.FAILED
    assert f"{person.config_path}:2" in done.stdout


def test_with_a_broken_config_the_doctor_says_what_still_works(person: Person) -> None:
    person.write_config('{\n  agents: { list: [{ id: "main" } { id: "b" }] },\n}')

    done = person.types("doctor")
    told = person.types("config", "get")

    assert done.returncode == Exit.FAILED
    assert f"{person.config_path}:2:34: this is not JSON5: a comma is missing here" in done.stdout
    mark = '\n    2 │   agents: { list: [{ id: "main" } { id: "b" }] },\n      │' + " " * 34 + "^\n"
    assert mark in done.stdout
    assert "none runs for this state folder, and none starts with this config" in done.stdout
    assert "these work: config path" in done.stdout
    assert "sqlite" in done.stdout
    assert told.stderr.startswith(f"crossclaw: {person.config_path}:2:34: ")
    assert told.stderr.endswith("^\n")
    assert person.types("config", "path").stdout.strip() == str(person.config_path)


def test_logs_shows_the_end_of_the_file(person: Person) -> None:
    none = person.types("logs")
    (person.state / "logs").mkdir(parents=True)
    (person.state / "logs" / "gateway.log").write_text("one\ntwo\nthree\n")

    assert none.returncode == Exit.FAILED
    assert person.types("logs", "-n", "2").stdout == "two\nthree\n"

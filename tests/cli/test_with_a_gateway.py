"""The real gateway, as a person starts it, and the lines of the Messages page against it."""

import json
import os
import re
import signal
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person
from tests.cli.terminal import at_a_terminal
from tests.starting import Command


@contextmanager
def running(person: Person, *words: str) -> Generator[tuple[Command, str]]:
    """A gateway and what it said until it was ready; stopped as a person stops it."""
    process = person.begins(*words)
    pipe = process.stderr if words[0] == "gateway" else process.stdout
    assert pipe
    heard = ""
    while not re.search(r"the gateway is at|Ctrl-C stops it", heard):
        line = pipe.readline()
        assert line, heard
        heard += line
    try:
        yield process, heard
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Generator[Person]:
    someone = Person(tmp_path_factory.mktemp("person"))
    someone.write_config('{ agents: { list: [{ id: "main" }, { id: "my-agent" }] } }')
    with running(someone, "gateway", "--port", str(someone.port)):
        yield someone


def test_an_import_of_what_is_not_there_says_so_though_a_gateway_runs(person: Person) -> None:
    done = person.types("import", "/nope")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        Exit.FAILED,
        "crossclaw: there is no folder /nope",
    )


@pytest.mark.spec("C1")
def test_the_lines_of_the_messages_page(person: Person) -> None:
    (person.folder / "src").mkdir(exist_ok=True)
    (person.folder / "src" / "app.ts").write_text("export const answer = 42;\n")

    first = person.types("message", "send", "Hola, agente")
    named = person.types("message", "send", "Hola", "--session", "abc123")
    agent = person.types("message", "send", "Hola", "--agent", "my-agent")
    file = person.types("message", "send", "Revisa este archivo", "--context", "src/app.ts")

    for done in (first, named, agent, file):
        assert (done.returncode, done.stderr) == (0, "")
    assert "Hola, agente" in first.stdout
    assert "export const answer = 42;" in file.stdout
    keys = {row["key"] for row in person.reads_json("sessions", "list")["sessions"]}
    assert {"agent:main:main", "agent:main:abc123", "agent:my-agent:main"} <= keys


def test_a_kind_is_called_the_same_in_the_table_and_for_programs(person: Person) -> None:
    person.types("message", "send", 'tool: sessions_spawn {"task": "say: x"}', "--session", "kin")
    rows = person.reads_json("sessions", "list")["sessions"]
    kinds = {row["key"]: row["kind"] for row in rows}
    shown = [line.split() for line in person.types("sessions", "list").stdout.splitlines()[1:]]

    assert {line[0]: line[1] for line in shown if line} == kinds
    assert {"child", "other"} <= set(kinds.values())


@pytest.mark.spec("B8")
def test_a_session_is_forked_at_an_entry(person: Person) -> None:
    for words in ("say: one", "say: two"):
        person.types("message", "send", words, "--session", "roads")
    exported = person.types("sessions", "export", "agent:main:roads").stdout.splitlines()
    first = next(e for e in map(json.loads, exported) if "assistant" in str(e.get("message")))

    done = person.types("sessions", "fork", "agent:main:roads", "--at", first["id"])
    whole = person.reads_json("sessions", "fork", "agent:main:roads")

    made = done.stdout.split()[0]
    assert "goes on where agent:main:roads was" in done.stdout
    assert [each["role"] for each in _said(person, made)] == ["user", "assistant"]
    assert len(_said(person, whole["sessionKey"])) == len(_said(person, "agent:main:roads")) == 4


def _said(person: Person, key: str) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = person.reads_json("sessions", "history", key)["messages"]
    return messages


@pytest.mark.spec("C1")
def test_ends_that_are_not_good(person: Person) -> None:
    nobody = person.types("message", "send", "Hola", "--agent", "nobody")
    unknown = person.types(
        "message", "send", "x", "--session", "0b0e1f0e-0000-4000-8000-000000000000"
    )
    failed = person.types("message", "send", "fail: no luck", "--session", "bad")
    late = person.types("message", "send", "wait: 20", "--session", "late", "--timeout", "0.5")

    codes = [done.returncode for done in (nobody, unknown, failed, late)]
    assert codes == [Exit.FAILED, Exit.FAILED, Exit.FAILED, Exit.TIMEOUT]
    assert "configured: main, my-agent" in nobody.stderr
    assert "no luck" in failed.stderr


@pytest.mark.spec("C1")
def test_ctrl_c_aborts_the_run_in_the_gateway(person: Person) -> None:
    words = "say: Wait.\ntool: sessions_list {}\nthen:\nwait: 30"
    process = person.begins("message", "send", words, "--session", "slow")
    assert process.stdout
    assert process.stdout.readline() == "Wait.\n"

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)

    assert process.returncode == Exit.INTERRUPTED
    row = person.reads_json("sessions", "show", "slow")
    assert row["abortedLastRun"] is True


@pytest.mark.spec("C2")
def test_the_other_commands(person: Person) -> None:
    person.types("message", "send", "say: Nine.", "--session", "shelf")

    assert person.types("health").returncode == 0
    assert json.loads(person.types("gateway", "call", "health").stdout)["ok"] is True
    assert "rehearsal" in person.types("status").stdout
    assert "my-agent" in person.types("agents").stdout
    assert "Nine." in person.types("sessions", "history", "shelf").stdout
    assert person.types("sessions", "send", "shelf", "say: Ten.").stdout == "Ten.\n"
    assert person.types("sessions", "reset", "shelf").returncode == 0
    assert person.types("sessions", "delete", "shelf").returncode == 0
    assert "runs on port" in person.types("doctor").stdout
    wrong = person.types("status", OPENCLAW_GATEWAY_TOKEN="wrong")
    assert wrong.returncode == Exit.UNAUTHORIZED


@pytest.mark.spec("C2")
def test_the_doctor_does_not_take_another_folder_s_gateway_for_its_own(
    person: Person, tmp_path: Path
) -> None:
    neighbour = Person(tmp_path)
    neighbour.write_config(f"{{ gateway: {{ port: {person.port} }} }}")

    done = neighbour.types("doctor", OPENCLAW_GATEWAY_PORT="")

    assert f"the one on port {person.port} has another state folder than" in done.stdout


@pytest.mark.spec("C2")
def test_with_another_folder_s_gateway_on_the_port_commands_work_alone(
    person: Person, tmp_path: Path
) -> None:
    neighbour = Person(tmp_path)
    neighbour.write_config(f"{{ gateway: {{ port: {person.port} }} }}")
    neighbour.environ["OPENCLAW_GATEWAY_PORT"] = ""
    told = f"no gateway of this state folder runs, and another program has port {person.port}"

    sent = neighbour.types("message", "send", "say: Alone.")
    listed = neighbour.types("sessions", "list")
    health = neighbour.types("health")
    bridge = neighbour.types("mcp")
    (neighbour.state / "gateway.port").write_text(f"{person.port}\n")  # as one that was killed
    after = neighbour.types("status")

    assert (sent.returncode, sent.stdout) == (Exit.OK, "Alone.\n")
    assert "agent:main:main" in listed.stdout
    assert (health.returncode, after.returncode) == (Exit.UNREACHABLE, Exit.OK)
    assert bridge.returncode == Exit.UNREACHABLE
    assert "crossclaw gateway --port 0" in health.stderr
    assert all(told in done.stderr for done in (sent, listed, health, bridge, after))


@pytest.mark.spec("C2")
def test_a_call_by_a_wrong_name_or_with_wrong_params_is_told_the_right_ones(person: Person) -> None:
    misspelt = person.types("gateway", "call", "sesions.list")
    guessed = person.types("gateway", "call", "cron.make")
    wrong = person.types("gateway", "call", "sessions.list", "--params", "{limt: 5}")
    little = person.types("gateway", "call", "chat.send")
    open_ = person.types("gateway", "call", "health", "--params", "{probe: ")

    codes = [done.returncode for done in (misspelt, guessed, wrong, little, open_)]
    assert codes == [Exit.FAILED] * 4 + [Exit.USAGE]
    assert "Did you mean sessions.list? crossclaw protocol schema has them all" in misspelt.stderr
    assert "Did you mean cron.add, " in guessed.stderr
    assert "unexpected property 'limt'\nsessions.list takes:\n  limit " in wrong.stderr
    assert re.search(r"\n  message +string, needed\n", little.stderr)
    assert re.search(r'\n  thinking +"high" or "low"', little.stderr)
    assert "is still open: a } is missing\n  1 │ {probe:" in open_.stderr


def label(person: Person, name: str, words: str) -> None:
    params = json.dumps({"key": f"agent:main:{name}", "label": words})
    assert person.types("gateway", "call", "sessions.patch", "--params", params).returncode == 0


@pytest.mark.spec("C2")
def test_a_session_is_found_by_its_label(person: Person) -> None:
    person.types("message", "send", "say: Bread.", "--session", "s-1")
    label(person, "s-1", "shopping")
    label(person, "s-2", "two words")

    assert "Bread." in person.types("sessions", "history", "shopping").stdout
    assert person.types("sessions", "send", "shopping", "say: Milk.").stdout == "Milk.\n"
    assert person.types("message", "send", "say: Salt.", "--session", "shopping").returncode == 0
    assert "Salt." in person.types("sessions", "export", "shopping", "--format", "markdown").stdout
    assert "agent:main:s-2" in person.types("sessions", "delete", "two words").stdout
    talked = person.types("chat", stdin="/session shopping\n/session brand-new\n/session s-1\n")
    assert talked.stderr.splitlines()[1:] == [
        "agent:main:s-1",
        "agent:main:brand-new, a new one: it begins with the first message",
        "agent:main:s-1",
    ]


@pytest.mark.spec("C2")
def test_the_name_of_a_session_goes_before_the_label_of_another(person: Person) -> None:
    person.types("message", "send", "say: By name.", "--session", "both")
    person.types("message", "send", "say: By label.", "--session", "s-3")
    label(person, "s-3", "both")

    assert "By name." in person.types("sessions", "history", "both").stdout


@pytest.mark.spec("C2")
def test_an_unknown_session_says_where_the_known_ones_are(person: Person) -> None:
    for word in ("history", "delete", "show"):
        done = person.types("sessions", word, "nobody-there")

        assert done.returncode == Exit.FAILED
        assert "crossclaw sessions list shows them" in done.stderr


@pytest.mark.spec("C2")
def test_an_unknown_session_says_which_one_was_meant_perhaps(person: Person) -> None:
    person.types("message", "send", "say: Here.", "--agent", "my-agent")
    label(person, "s-9", "weekly errand")

    by_agent = person.types("sessions", "history", "my-agent")
    by_piece = person.types("sessions", "delete", "errand")
    misspelt = person.types("sessions", "show", "agent:my-agnet:main")

    assert "Here." in by_agent.stdout  # an agent's id is its main session
    assert "Did you mean agent:main:s-9 (weekly errand)?" in by_piece.stderr
    assert "Did you mean agent:my-agent:main?" in misspelt.stderr


@pytest.mark.spec("C2")
def test_why_is_asked_by_the_same_names_as_everything_else(person: Person) -> None:
    label(person, "s-8", "chore")

    known = person.types("sessions", "explain", "chore", "see", "main")
    unknown = person.types("sessions", "explain", "main", "see", "chores")

    assert "agent:main:s-8 see agent:main:main" in known.stdout
    assert "it does not exist" in unknown.stdout
    assert "Did you mean agent:main:s-8 (chore)?" in unknown.stderr


@pytest.mark.spec("C2")
def test_on_a_terminal_it_is_asked_before_a_session_is_deleted(person: Person) -> None:
    person.types("message", "send", "say: Keep me.", "--session", "dear")
    question = "Delete agent:main:dear for good? [y/N]"

    with at_a_terminal(person, "sessions", "delete", "dear") as terminal:
        terminal.waits_for(question)
        terminal.types("\r")
        kept = terminal.waits_for_the_end()
    there = person.types("sessions", "show", "dear").returncode
    with at_a_terminal(person, "sessions", "delete", "dear") as terminal:
        terminal.waits_for(question)
        terminal.types("y\r")
        gone = terminal.waits_for_the_end()

    assert (kept, there, gone) == (Exit.FAILED, Exit.OK, Exit.OK)
    assert person.types("sessions", "show", "dear").returncode == Exit.FAILED


@pytest.mark.spec("C2")
def test_after_a_reset_the_way_to_the_old_transcript_is_told_and_leads_there(
    person: Person,
) -> None:
    person.types("message", "send", "say: Of old.", "--session", "anew")

    told = person.types("sessions", "reset", "anew").stdout
    way = told.partition("The old transcript: crossclaw ")[2].split()

    assert "Of old." in person.types(*way).stdout


@pytest.mark.spec("C2")
def test_the_daily_words_of_openclaw_s_command_line_do_what_they_do_there(person: Person) -> None:
    said = person.types("agent", "--agent", "my-agent", "--message", "say: Good day.")
    named = person.types("agent", "-m", "say: There.", "--session-id", "daily", "--json")
    to_whom = person.types("agent", "--to", "+15550100", "--message", "say: You.", "--json")
    talked = person.types("tui", "--session", "daily", stdin="say: In the tui.\n/quit\n")

    assert (said.stdout, talked.stdout) == ("Good day.\n", "In the tui.\n")
    assert json.loads(named.stdout)["sessionKey"] == "agent:main:daily"
    assert json.loads(to_whom.stdout)["sessionKey"] == "agent:main:main"
    assert str(person.port) in person.types("gateway", "status").stdout
    assert re.search(r"webchat +– +running", person.types("channels", "status").stdout)
    assert re.search(r"my-agent +rehearsal/", person.types("models", "status").stdout)
    assert len(person.types("logs", "--limit", "1").stdout.splitlines()) == 1


@pytest.mark.spec("C2")
def test_the_dashboard_s_link_lets_in(person: Person) -> None:
    page, _, token = person.types("dashboard").stdout.strip().partition("/#token=")

    assert page == f"http://127.0.0.1:{person.port}"
    assert person.types("health", "--url", page, "--token", token).returncode == Exit.OK


@pytest.mark.spec("C2")
def test_the_second_gateway_in_a_folder_is_refused(person: Person) -> None:
    done = person.types("gateway", "--port", "0")

    assert done.returncode == Exit.FAILED
    assert "crossclaw status" in done.stderr


@pytest.mark.spec("C2")
def test_the_first_start_says_where_to_go_and_ends_cleanly(tmp_path: Path) -> None:
    person = Person(tmp_path)

    with running(person, "run") as (process, heard):
        link = re.search(r"open +(http://127\.0\.0\.1:\d+/)#token=(\S+)", heard)
        assert link
        with urllib.request.urlopen(link[1]) as page:
            assert b"Crossclaw" in page.read()
        tried = heard[heard.index("in another terminal:") :]
        commands = re.findall(r"^  (?:crossclaw|export|\.) [^#\n]*", tried, re.M)
        assert [each.split()[1] for each in commands if "crossclaw" in each.split()[0]] == [
            *("onboard", "message", "chat", "agents", "message", "doctor")
        ]
        assert next(each for each in commands if not each.startswith("  . ")).startswith(
            "  export OPENCLAW_STATE_DIR="
        )
        assert person.types("message", "send", "say: Here.").stdout == "Here.\n"
        assert "crossclaw onboard" in person.types("status").stdout
        again = person.types("run")
        assert "already running" in again.stdout
        elsewhere = person.types("run", "--port", "18799")
        assert elsewhere.returncode == Exit.FAILED
        assert f"the gateway is on port {person.port}, not on 18799" in elsewhere.stderr
    assert process.returncode == 0
    assert person.config_path.stat().st_mode & 0o077 == 0


@pytest.mark.spec("C2")
def test_the_demo_shows_a_conversation_and_ends(person: Person, tmp_path: Path) -> None:
    done = person.types("demo", TMPDIR=str(tmp_path), LC_ALL="es_ES.UTF-8")

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Dos agentes, main y el bibliotecario" in done.stdout
    assert "main → librarian" in done.stdout
    assert "librarian dice: Estante nueve" in done.stdout
    shown = re.findall(r"\S+\.jsonl", done.stdout)
    assert len(shown) == 2
    assert all(Path(path).exists() for path in shown)


@pytest.mark.spec("C2")
def test_a_demo_leaves_only_the_newest_folder(person: Person, tmp_path: Path) -> None:
    old, running, elsewhere = (tmp_path / f"crossclaw-demo-{name}" for name in ("a", "b", "c"))
    kept = tmp_path / "kept"
    for folder in (old, running, kept):
        folder.mkdir()
        (folder / "a file").touch()
    elsewhere.symlink_to(kept)
    os.utime(old, (1, 1))
    os.utime(kept, (1, 1))

    done = person.types("demo", TMPDIR=str(tmp_path))

    assert "stay until the next demo" in done.stdout
    assert not old.exists()
    assert (running / "a file").exists()
    assert (kept / "a file").exists()


@pytest.mark.spec("C2")
def test_a_script_spawns_and_reads_the_report(person: Person) -> None:
    spawned = person.reads_json("sessions", "spawn", "say: done", "--label", "errand")
    assert spawned["status"] == "accepted"
    for _ in range(100):
        told = person.types("sessions", "history", "main").stdout
        if "Status: success" in told:
            break
    assert "Status: success" in told
    assert spawned["childSessionKey"] in told
    refused = person.types("sessions", "spawn", "say: no", "--agent", "my-agent")
    assert refused.returncode == Exit.FAILED
    assert "allowAgents" in refused.stderr
    assert "nothing was running" in person.types("sessions", "abort", "main").stdout
    assert "is archived" in person.types("sessions", "archive", spawned["childSessionKey"]).stdout
    again = person.types("sessions", "archive", spawned["childSessionKey"])
    assert "was archived already" in again.stdout
    assert "0 archived" in person.types("sessions", "cleanup").stdout
    child = spawned["childSessionKey"]
    assert child in person.types("sessions", "list", "--archived").stdout
    assert "is back" in person.types("sessions", "unarchive", child).stdout
    assert "was not archived" in person.types("sessions", "unarchive", child).stdout
    assert "no session is archived" in person.types("sessions", "list", "--archived").stdout


def test_a_config_that_was_broken_keeps_nobody_from_the_gateway_that_runs(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.write_config("{}")
    with running(person, "gateway", "--port", str(person.port)):
        person.write_config("{ agents: ")
        said = person.types("message", "send", "say: still here")
        listed = person.types("sessions", "list")
        logs = person.types("logs")
        asked = person.types("config", "get")
        looked = person.types("doctor")

        assert (said.returncode, said.stdout.strip()) == (Exit.OK, "still here")
        assert "goes on with the config before" in said.stderr
        assert said.stderr.count("the { of line 1 is still open") == 1
        assert f"runs on port {person.port} and goes on with the config before" in looked.stdout
        assert "Do not stop it until then" in looked.stdout
        assert "agent:main:main" in listed.stdout
        assert "the gateway listens" in logs.stdout
        assert asked.returncode == Exit.FAILED, "that is a question about the file"


def test_with_a_broken_config_and_a_gateway_that_was_killed_nothing_is_opened(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path)
    person.write_config("{}")
    with running(person, "gateway", "--port", str(person.port)) as (process, _):
        process.kill()
        process.wait()
    person.write_config("{ agents: ")

    done = person.types("message", "send", "say: with which config?")

    assert done.returncode == Exit.UNREACHABLE, done.stderr
    assert "openclaw.json:1" in done.stderr


def test_an_agent_that_was_added_answers_at_once_and_is_asked_by_the_line_that_is_shown(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path)
    person.write_config("{}")
    with running(person, "gateway", "--port", str(person.port)):
        added = person.types("agents", "add", "librarian")
        listed = person.types("agents", "list")
        said = person.types("message", "send", "say: Nine.", "--agent", "librarian")
        shown = re.search(r'ask it: crossclaw message send "(ask: librarian [^"]+)"', added.stdout)
        assert shown, added.stdout
        asked = person.types("message", "send", shown[1])

    assert "The gateway that runs knows it." in added.stdout, added.stderr
    assert "librarian" in listed.stdout
    assert said.stdout.strip() == "Nine."
    assert asked.stdout.strip() == (
        "(rehearsal) the answer: I was asked: “Which atlas do we have?”. (rehearsal)"
    )


def test_a_terminal_without_a_model_s_variable_is_not_kept_from_the_gateway_that_has_it(
    tmp_path: Path,
) -> None:
    person = Person(tmp_path)
    person.write_config(
        '{ gateway: { auth: { token: "t" } }, agents: { list: [{ id: "main", model: "rehearsal/rehearsal" }] },'
        ' models: { providers: { mine: { apiKey: "${MINE}", baseUrl: "http://127.0.0.1:1/v1" } } } }'
    )
    without = person.types("message", "send", "say: hi")
    person.environ["MINE"] = "sk-mine"
    with running(person, "gateway", "--port", str(person.port)):
        del person.environ["MINE"]
        said = person.types("message", "send", "say: still here")
        looked = person.types("doctor")
        added = person.types("agents", "add", "librarian")
        again = person.types("run")

    assert without.returncode == Exit.FAILED, "none runs: one would have to be started with it"
    assert without.stderr.count("the variable MINE is not set") == 1
    assert (said.returncode, said.stdout, said.stderr) == (Exit.OK, "still here\n", "")
    assert looked.returncode == Exit.OK
    assert "not set in this terminal: MINE" in looked.stdout
    assert "none starts" not in looked.stdout
    assert (added.returncode, again.returncode) == (Exit.OK, Exit.OK), added.stderr + again.stderr


def test_what_needs_attention_is_listed_retried_and_dismissed(person: Person) -> None:
    person.types("message", "send", "fail: the almanac is lost", "--session", "agent:main:tides")
    listed = person.types("attention")
    state = person.types("sessions", "list", "--search", "tides")
    retried = person.types("attention", "do", "1")
    unknown = person.types("attention", "do", "1", "fly")
    person.types("message", "send", "fail: again", "--session", "agent:main:tides")
    dismissed = person.types("attention", "dismiss", "all")
    nothing = person.types("attention")

    assert "1  main:tides failed" in listed.stdout
    assert "because: the almanac is lost" in listed.stdout
    assert "crossclaw attention do 1 retry" in listed.stdout
    assert re.search(r"agent:main:tides +other +failed", state.stdout)
    assert "done: retry (main:tides failed)" in retried.stdout
    assert "this row offers retry, or to dismiss it" in unknown.stderr
    assert re.fullmatch(r"[1-9] dismissed\n", dismissed.stdout)
    assert nothing.stdout == "nothing needs your attention\n"


def test_a_trace_is_printed_and_written_as_opentelemetry(person: Person) -> None:
    ask = {"agentId": "my-agent", "message": "fail: no shelf", "timeoutSeconds": 30}
    words = f"tool: sessions_send {json.dumps(ask)}\nthen:\nsay: so"
    person.types("message", "send", words, "--session", "agent:main:tracing")
    shown = person.types("trace", "agent:main:tracing")
    failed = person.types("trace", "agent:main:tracing", "--failed")
    written = person.types("trace", "agent:main:tracing", "--otlp", str(person.folder / "t.json"))
    again = person.types("trace", "agent:main:tracing", "--otlp", str(person.folder / "t.json"))

    assert "main:tracing · chat" in shown.stdout
    assert "    my-agent · send" in shown.stdout
    assert re.search(r"#+ .*failed: no shelf", shown.stdout)
    assert "main:tracing · chat" not in failed.stdout
    assert "my-agent · send" in failed.stdout
    assert written.returncode == Exit.OK, written.stderr
    assert json.loads((person.folder / "t.json").read_text())["resourceSpans"]
    assert "is there already" in again.stderr

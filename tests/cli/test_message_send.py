"""`message send` against a gateway that does what the test says."""

import json
import signal
from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.fake_gateway import Chat, FakeGateway
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C1")


def test_a_message_goes_to_the_default_agent_s_main_session(
    person: Person, gateway: FakeGateway
) -> None:
    done = person.types("message", "send", "Hola, agente")

    assert (done.returncode, done.stdout) == (0, "Hello from the fake.\n")
    [params] = gateway.params_of("chat.send")
    assert (params["sessionKey"], params["message"]) == ("agent:main:main", "Hola, agente")


def test_a_new_name_becomes_a_session_of_the_default_agent(
    person: Person, gateway: FakeGateway
) -> None:
    person.types("message", "send", "Hola", "--session", "abc123")

    assert gateway.params_of("chat.send")[0]["sessionKey"] == "agent:main:abc123"


def test_a_session_id_is_looked_up(person: Person, gateway: FakeGateway) -> None:
    gateway.answers["sessions.resolve"] = {"ok": True, "key": "agent:main:old"}

    person.types("message", "send", "Hola", "--session", "0B0E1F0E-0000-4000-8000-00000000000a")

    [asked] = gateway.params_of("sessions.resolve")
    assert asked == {"sessionId": "0b0e1f0e-0000-4000-8000-00000000000a"}
    assert gateway.params_of("chat.send")[0]["sessionKey"] == "agent:main:old"


def test_an_unknown_session_id_is_an_error_and_nothing_is_sent(
    person: Person, gateway: FakeGateway
) -> None:
    done = person.types("message", "send", "x", "--session", "0b0e1f0e-0000-4000-8000-000000000000")

    assert done.returncode == Exit.FAILED
    assert "there is no session with the id" in done.stderr
    assert gateway.params_of("chat.send") == []


def test_an_agent_by_its_id(person: Person, gateway: FakeGateway) -> None:
    person.types("message", "send", "Hola", "--agent", "Helper")
    person.types("message", "send", "Hola", "--agent", "helper", "--session", "desk")

    keys = [params["sessionKey"] for params in gateway.params_of("chat.send")]
    assert keys == ["agent:helper:main", "agent:helper:desk"]


def test_an_agent_that_is_not_configured_lists_those_that_are_and_how_to_add_one(
    person: Person, gateway: FakeGateway
) -> None:
    done = person.types("message", "send", "Hola", "--agent", "my-agent")

    assert done.returncode == Exit.FAILED
    assert "configured: main, helper" in done.stderr
    assert "crossclaw agents add my-agent" in done.stderr
    assert gateway.params_of("chat.send") == []


@pytest.mark.parametrize("session", ["MAIN", "agent:main:", "", "agent:helper:x"])
def test_a_name_that_is_no_key_is_refused(
    person: Person, gateway: FakeGateway, session: str
) -> None:
    done = person.types("message", "send", "x", "--agent", "main", f"--session={session or ' '}")

    assert done.returncode == Exit.USAGE, done.stderr
    assert gateway.params_of("chat.send") == []


def test_files_travel_as_fenced_context_with_their_names(
    person: Person, gateway: FakeGateway
) -> None:
    (person.folder / "src").mkdir()
    (person.folder / "src" / "app.ts").write_text("const fence = '```';\n")
    (person.folder / "notes.md").write_text("two")

    person.types(
        "message", "send", "Revisa este archivo", "--context", "src/app.ts", "--context", "notes.md"
    )

    assert gateway.params_of("chat.send")[0]["message"] == (
        "Revisa este archivo\n\n"
        "Context file `src/app.ts`:\n````\nconst fence = '```';\n````\n\n"
        "Context file `notes.md`:\n```\ntwo\n```"
    )


@pytest.mark.parametrize("fault", ["missing.txt", "binary.bin", "large.txt", "."])
def test_a_file_that_cannot_travel_stops_everything(
    person: Person, gateway: FakeGateway, fault: str
) -> None:
    (person.folder / "binary.bin").write_bytes(b"\x00\x01\xff\xfe")
    (person.folder / "large.txt").write_text("x" * (256 * 1024 + 1))
    (person.folder / "good.txt").write_text("good")

    done = person.types("message", "send", "x", "--context", "good.txt", "--context", fault)

    assert done.returncode == Exit.USAGE
    assert f"--context {fault}" in done.stderr
    assert "Nothing was sent" in done.stderr
    assert gateway.requests == []


def test_a_message_too_large_for_the_gateway_is_not_sent(
    person: Person, gateway: FakeGateway
) -> None:
    gateway.max_payload = 1000

    done = person.types("message", "send", "x" * 2000)

    assert done.returncode == Exit.FAILED
    assert "takes 1,000" in done.stderr
    assert gateway.params_of("chat.send") == []


def test_the_reply_streams_and_tools_are_quiet_lines_beside_it(
    person: Person, gateway: FakeGateway
) -> None:
    def chat(run: Chat) -> None:
        run.delta("Let me")
        run.delta("Let me look.")
        run.tool("start", "read", args={"path": "notes.md"})
        run.tool("result", "read", isError=True)
        run.delta("Not")
        run.final("Not there.")

    gateway.chat = chat
    done = person.types("message", "send", "x")

    assert done.stdout == "Let me look.\n\nNot there.\n"
    assert "→ read path: notes.md\n→ read failed" in done.stderr


def test_a_person_sees_why_the_reply_takes_longer(person: Person, gateway: FakeGateway) -> None:
    def chat(run: Chat) -> None:
        run.trouble(phase="retry", reason="anthropic is overloaded", waitMs=2100)
        run.trouble(phase="fallback", reason="anthropic is overloaded", waitMs=0, model="openai/x")
        run.final("Here I am.")

    gateway.chat = chat
    done = person.types("message", "send", "x")

    assert done.stdout == "Here I am.\n"
    assert "→ anthropic is overloaded; trying again in 2 s\n" in done.stderr
    assert "→ anthropic is overloaded; asking openai/x\n" in done.stderr


def test_a_delta_that_comes_late_is_not_said_again(person: Person, gateway: FakeGateway) -> None:
    def chat(run: Chat) -> None:
        run.piece("Let me look.")
        run.tool("start", "read", args={})
        run.delta("Let me look.")
        run.piece("Found.")
        run.delta("Found.")
        run.final("Found.")

    gateway.chat = chat

    assert person.types("message", "send", "x").stdout == "Let me look.\n\nFound.\n"


def test_json_is_one_object_for_programs(person: Person, gateway: FakeGateway) -> None:
    def chat(run: Chat) -> None:
        run.tool("start", "read", args={"path": "a"})
        run.final("Done.")

    gateway.chat = chat
    told = person.reads_json("message", "send", "x", "--session", "abc123")

    [params] = gateway.params_of("chat.send")
    assert told == {
        "runId": params["idempotencyKey"],
        "status": "ok",
        "reply": "Done.",
        "sessionKey": "agent:main:abc123",
        "tools": [{"name": "read", "arguments": {"path": "a"}}],
    }


def test_the_exit_code_tells_the_outcome(person: Person, gateway: FakeGateway) -> None:
    def leave(run: Chat) -> None:
        gateway.away = True
        run.cut()

    ends = {
        Exit.FAILED: lambda run: run.end("error", errorMessage="the model is ill"),
        Exit.ABORTED: lambda run: run.end("aborted"),
        Exit.TIMEOUT: lambda run: run.delta("I am thi"),
        Exit.UNREACHABLE: leave,
    }
    for code, chat in ends.items():
        gateway.chat = chat
        done = person.types("message", "send", "x", "--timeout", "1")
        assert done.returncode == code, (code, done.stderr)

    gateway.chat, gateway.away = ends[Exit.FAILED], False
    failed = person.types("message", "send", "x", "--json")
    assert failed.returncode == Exit.FAILED
    assert json.loads(failed.stdout)["error"] == "the model is ill"


def test_words_of_others_cannot_steer_the_terminal(person: Person, gateway: FakeGateway) -> None:
    gateway.chat = lambda run: run.final("\x1b]0;evil\x07red\x1b[31m")

    assert "\x1b" not in person.types("message", "send", "x").stdout


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, Exit.INTERRUPTED), (signal.SIGTERM, Exit.TERMINATED)],
)
def test_ctrl_c_aborts_the_run(
    person: Person, gateway: FakeGateway, number: signal.Signals, code: Exit
) -> None:
    gateway.chat = lambda run: run.delta("thinking")
    process = person.begins("message", "send", "x")
    assert process.stdout
    assert process.stdout.read(8) == "thinking"  # the run is under way

    process.send_signal(number)
    process.communicate(timeout=20)

    assert process.returncode == code
    [aborted] = gateway.params_of("chat.abort")
    [sent] = gateway.params_of("chat.send")
    assert aborted == {"sessionKey": "agent:main:main", "runId": sent["idempotencyKey"]}


def test_a_message_to_a_chat_as_in_openclaw(person: Person, gateway: FakeGateway) -> None:
    gateway.answers["send"] = {"runId": "r", "messageId": "m7", "channel": "telegram"}

    done = person.types(
        *("message", "send", "--target", "12345", "--channel", "telegram", "--message", "On my way")
    )

    assert (done.returncode, done.stdout) == (0, "sent to telegram, 12345 (m7)\n")
    [params] = gateway.params_of("send")
    assert params.pop("idempotencyKey")
    assert params == {"to": "12345", "message": "On my way", "channel": "telegram"}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["   "],
        ["one", "--message", "two"],
        ["two", "words"],
        ["x", "--channel", "telegram"],
        ["x", "--target", "1", "--agent", "main"],
    ],
)
def test_what_is_unclear_is_not_sent(
    person: Person, gateway: FakeGateway, words: list[str]
) -> None:
    assert person.types("message", "send", *words).returncode == Exit.USAGE
    assert gateway.requests == []


def test_the_message_may_come_from_a_pipe(person: Person, gateway: FakeGateway) -> None:
    person.types("message", "send", "-", stdin="a diff\n")
    person.types("message", "send", stdin="another\n")

    assert [p["message"] for p in gateway.params_of("chat.send")] == ["a diff\n", "another\n"]


def test_a_wrong_token_is_told_apart_from_no_gateway(person: Person, gateway: FakeGateway) -> None:
    done = person.types("message", "send", "x", OPENCLAW_GATEWAY_TOKEN="wrong")

    assert done.returncode == Exit.UNAUTHORIZED
    assert "unauthorized" in done.stderr
    assert not Path(person.state).exists()  # no gateway was opened in its place


def test_the_local_token_is_not_sent_to_another_address(
    person: Person, gateway: FakeGateway
) -> None:
    elsewhere = person.types(
        "health", "--url", gateway.url, OPENCLAW_GATEWAY_PORT="1", OPENCLAW_GATEWAY_TOKEN="local"
    )
    ours = person.types("health", "--url", gateway.url)

    assert elsewhere.returncode == Exit.USAGE
    assert "needs its own --token-file" in elsewhere.stderr
    assert ours.returncode == 0
    assert [auth["token"] for auth in gateway.credentials] == ["right-token"]


def test_a_chat_goes_on_line_by_line(person: Person, gateway: FakeGateway) -> None:
    done = person.types("chat", "--session", "desk", stdin="one\n\ntwo\n/quit\nthree\n")

    assert done.returncode == 0
    assert [p["message"] for p in gateway.params_of("chat.send")] == ["one", "two"]
    assert done.stdout == "Hello from the fake.\nHello from the fake.\n"

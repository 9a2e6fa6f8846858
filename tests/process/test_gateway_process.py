"""`crossclaw gateway` as a person runs it: a process with a state folder, a port and an end."""

import json
import os
import re
import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.process.program import PATIENCE_S, Client, Folder, until

TWO_AGENTS = '{agents: {list: [{id: "main", default: true}, {id: "librarian"}]}}'
MAIN, OTHER = "agent:main:main", "agent:main:other"
STOP_S_MAX = 5.0


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, TWO_AGENTS)


def wait_until_begun(client: Client, key: str, text: str) -> None:
    """A message stands in its transcript from the moment that its run has begun."""
    until(lambda: ("user", text) in client.history(key) or None)


# ── start ──────────────────────────────────────────────────────────────────────────────────────


def test_it_says_where_it_is_and_answers_there(folder: Folder) -> None:
    with folder.serve() as gateway:
        with urlopen(f"http://127.0.0.1:{gateway.port}/health", timeout=PATIENCE_S) as answer:
            assert json.load(answer)["ok"] is True
        assert f"the gateway is at http://127.0.0.1:{gateway.port}" in gateway.said


def test_run_prints_a_link_that_lets_its_reader_in(folder: Folder) -> None:
    with folder.start("run", "--port", "0") as program:
        link = until(lambda: re.search(r"http://127\.0\.0\.1:\d+/#token=(\S+)", program.said))
        assert link[1] == folder.token
        with program.client() as client:
            assert client.history(MAIN) == []


def test_with_tls_the_link_is_https_and_commands_find_it_and_trust_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "{gateway: {tls: {enabled: true}}}")
    with folder.start("run", "--port", "0") as program:
        until(lambda: re.search(r"https://127\.0\.0\.1:\d+/#token=(\S+)", program.said))
        fingerprint = (folder.state / "gateway.fingerprint").read_text().strip()
        assert f"sha256 {fingerprint}" in program.said
        with folder.start("message", "send", "say: behind TLS") as sending:
            assert sending.wait() == 0, sending.said
        with folder.start("doctor") as looking:
            looking.wait()
        with folder.start("run") as again:
            assert again.wait() == 0, again.said

    assert "behind TLS" in sending.said
    assert f"runs on port {program_port(program.said)}" in looking.said
    assert f"https://127.0.0.1:{program_port(program.said)}/#token=" in again.said


def program_port(said: str) -> str:
    found = re.search(r"https://127\.0\.0\.1:(\d+)", said)
    assert found, said
    return found[1]


def test_a_model_without_a_key_is_named_at_the_start_in_status_in_attention_and_by_the_first_message(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path, '{agents: {defaults: {model: "anthropic/claude-opus-4-6"}}}')
    needs = "anthropic needs a key; set ANTHROPIC_API_KEY"
    with folder.serve() as gateway:
        until(
            lambda: (
                f"the model of main, anthropic/claude-opus-4-6, cannot answer: {needs}"
                in gateway.said
                or None
            )
        )
        with gateway.client() as client:
            fault = client.ask("status", {})["modelFault"]
            (row,) = client.ask("attention.list", {"kinds": ["model"]})["rows"]
        with folder.start("status") as looking, folder.start("message", "send", "hi") as sending:
            looking.wait()
            assert sending.wait() != 0
    with folder.start("run", "--port", "0") as program:
        until(lambda: "Ctrl-C" in program.said or None)

    assert fault.startswith(needs)
    assert f"cannot answer: {needs}" in row["what"]
    assert row["helps"] == "crossclaw onboard sets a key"
    for said in (fault, looking.said, sending.said, program.said):
        assert "crossclaw onboard" in said
        assert "ANTHROPIC_API_KEY" in said
        assert "crossclaw config set agents.defaults.model rehearsal/rehearsal" in said
    assert ("message send" in program.said, "crossclaw rehearse" in program.said) == (False, True)


def test_accounts_that_are_not_set_up_or_do_not_run_are_named_by_status_and_doctor(
    tmp_path: Path,
) -> None:
    matrix = '{homeserver: "http://127.0.0.1:9", accessToken: "t", userId: "@bot:here"}'
    folder = Folder(tmp_path, f"{{channels: {{whatsapp: {{}}, matrix: {matrix}}}}}")
    with folder.serve() as gateway, gateway.client() as client:

        def is_waiting() -> bool | None:
            [account] = client.ask("channels.status", {})["channelAccounts"]["matrix"]
            return account["state"] == "waiting" or None

        until(is_waiting)
        with folder.start("status") as status, folder.start("doctor") as doctor:
            status.wait()
            doctor.wait()

    assert "matrix (waiting)" in status.said
    assert "whatsapp (not set up)" in status.said
    assert "! whatsapp default: it is not set up" in doctor.said
    assert "! matrix default: it does not run (waiting): " in doctor.said


def test_the_token_is_made_once_and_for_its_owner_only(folder: Folder) -> None:
    with folder.serve():
        token = folder.token
    with folder.serve():
        assert folder.token == token
        assert folder.token_file.stat().st_mode & 0o777 == 0o600
        assert folder.token_file.parent.stat().st_mode & 0o777 == 0o700
        assert (folder.state / "crossclaw.sqlite").stat().st_mode & 0o777 == 0o600


def test_a_second_gateway_on_the_same_folder_is_refused(folder: Folder) -> None:
    with folder.serve() as first, folder.start("gateway", "--port", "0") as second:
        assert second.wait() == 1
        assert f"is using {folder.state}" in second.said
        assert "Traceback" not in second.said
        with first.client() as client:
            assert client.say(MAIN, "say: still here", "r1") == "started"
            assert client.wait("r1") == "ok"


def test_a_port_that_is_taken_is_named(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with folder.start("gateway", "--port", str(port)) as program:
            assert program.wait() == 1
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in program.said
            assert "Traceback" not in program.said


def test_a_typing_mistake_in_the_config_is_shown_with_its_line(folder: Folder) -> None:
    folder.config.write_text('{\n  agents: {\n    lst: [{id: "main"}],\n  },\n}\n')
    with folder.start("gateway", "--port", "0") as program:
        assert program.wait() == 1
        assert f"{folder.config}:3: agents.lst: unknown key" in program.said
        assert 'did you mean "list"?' in program.said
        assert not (folder.state / "crossclaw.sqlite").exists()


# ── stop ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("G4")
def test_a_stop_tells_the_clients_and_ends_well(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        client.say(MAIN, "wait: 600\nsay: late", "r1")
        began = time.monotonic()
        gateway.stop()
        assert client.closed() == (1012, "service restart")
        assert gateway.wait() == 0
        assert time.monotonic() - began < STOP_S_MAX
    assert "shutdown" in client.events
    assert "Traceback" not in gateway.said


@pytest.mark.spec("B1")
def test_a_stop_costs_a_run_no_attempt(folder: Folder) -> None:
    text = "wait: 1\nsay: done"
    for _ in range(4):  # one more than a crash would be forgiven
        with folder.serve() as gateway, gateway.client() as client:
            client.say(MAIN, text, "r1")
            wait_until_begun(client, MAIN, text)
            gateway.stop()
            assert gateway.wait() == 0
    with folder.serve() as gateway, gateway.client() as client:
        assert client.wait("r1") == "ok"


# ── kill -9 ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("B1")
def test_a_message_that_was_accepted_before_a_kill_is_answered_after_it(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        client.say(MAIN, "say: I am here", "r1")
        gateway.kill()
    with folder.serve() as gateway, gateway.client() as client:
        assert client.wait("r1") == "ok"
        assert client.history(MAIN) == [("user", "say: I am here"), ("assistant", "I am here")]


def test_an_mcp_server_that_hangs_does_not_outlive_a_killed_gateway(tmp_path: Path) -> None:
    """It does not listen to the end of its input, and has a daemon."""
    life = tmp_path / "life"
    os.mkfifo(life)
    command = f"exec 9>{life}; setsid -f sh -c 'exec sleep 1000'; echo begun >&9; trap '' TERM; sleep 1000"
    servers = {"stuck": {"command": "sh", "args": ["-c", command]}}
    folder = Folder(tmp_path, json.dumps({"mcp": {"servers": servers}}))
    with open(os.open(life, os.O_RDONLY | os.O_NONBLOCK), "rb") as held:
        with folder.serve() as gateway, gateway.client() as client:
            client.say(MAIN, "hello", "r1")
            with open(life, "wb"):
                os.set_blocking(held.fileno(), True)
                assert held.readline() == b"begun\n"
            gateway.kill()
        assert held.read() == b""


@pytest.mark.spec("B1")
def test_running_and_queued_work_goes_on_after_a_kill(folder: Folder) -> None:
    texts = {f"r{n}": f"wait: 0.3\nsay: answer {n}" for n in range(3)}
    with folder.serve() as gateway, gateway.client() as client:
        for run_id, text in texts.items():
            client.say(MAIN, text, run_id)
        client.say(OTHER, "wait: 0.3\nsay: elsewhere", "s0")
        wait_until_begun(client, MAIN, texts["r0"])
        gateway.kill()
    with folder.serve() as gateway, gateway.client() as client:
        assert [client.wait(run_id) for run_id in (*texts, "s0")] == ["ok"] * 4
        assert client.history(MAIN) == [
            ("user", texts["r0"]),
            ("assistant", "answer 0"),
            ("user", texts["r1"]),  # both waited, so they are answered together
            ("user", texts["r2"]),
            ("assistant", "answer 2"),
        ]
        assert client.history(OTHER)[-1] == ("assistant", "elsewhere")


@pytest.mark.spec("B1")
def test_a_retry_after_a_kill_is_the_same_run(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        assert client.say(MAIN, "say: once", "r1") == "started"
        gateway.kill()
    with folder.serve() as gateway, gateway.client() as client:
        assert client.say(MAIN, "say: once", "r1") in ("in_flight", "ok")
        assert client.wait("r1") == "ok"
        assert client.say(MAIN, "say: once", "r1") == "ok"
        assert client.history(MAIN) == [("user", "say: once"), ("assistant", "once")]


@pytest.mark.spec("S4", "B1")
def test_an_agent_that_waits_for_another_hears_its_answer_after_a_kill(folder: Folder) -> None:
    asked = "wait: 0.5\nsay: shelf nine"
    call = json.dumps({"agentId": "librarian", "message": asked})
    with folder.serve() as gateway, gateway.client() as client:
        client.say(MAIN, f"tool: sessions_send {call}\nthen:\nsay: it is shelf nine", "r1")
        wait_until_begun(client, "agent:librarian:main", asked)
        gateway.kill()
    with folder.serve() as gateway, gateway.client() as client:
        assert client.wait("r1") == "ok"
        said = [("user", asked), ("assistant", "shelf nine")]
        assert client.history("agent:librarian:main") == said
        results = [text for role, text in client.history(MAIN) if role == "toolResult"]
        assert len(results) == 1
        assert "shelf nine" in results[0]


# ── agent.wait ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("S4")
def test_a_wait_is_true_for_a_client_that_comes_back(folder: Folder) -> None:
    with folder.serve() as gateway:
        with gateway.client() as client:
            client.say(MAIN, "wait: 1.5\nsay: done", "good")
            client.say(OTHER, "fail: no such luck", "bad")
            client.send("agent.wait", {"runId": "good", "timeoutMs": 60_000})
        with gateway.client() as client:
            assert client.wait("good", timeout_ms=0) == "timeout"
            assert client.wait("good") == "ok"
            assert client.wait("bad") == "error"


@pytest.mark.spec("S4", "B1")
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_wait_is_true_after_a_restart(folder: Folder, end: str) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        client.say(MAIN, "say: done", "good")
        client.say(OTHER, "fail: no such luck", "bad")
        assert (client.wait("good"), client.wait("bad")) == ("ok", "error")
        params = {"sessionKey": MAIN, "message": "wait: 0.5\nsay: later", "idempotencyKey": "open"}
        assert client.ask("agent", params)["status"] == "accepted"
        client.send("agent.wait", {"runId": "open", "timeoutMs": 60_000})
        gateway.kill() if end == "kill" else gateway.stop()
        assert gateway.wait() == (-9 if end == "kill" else 0)
    with folder.serve() as gateway, gateway.client() as client:
        assert (client.wait("good", 0), client.wait("bad", 0)) == ("ok", "error")
        assert client.wait("open") == "ok"
        assert client.history(MAIN)[-1] == ("assistant", "later")
        known = client.ask("agent.wait", {"runId": "bad", "timeoutMs": 0})
        assert known["error"] == "no such luck"

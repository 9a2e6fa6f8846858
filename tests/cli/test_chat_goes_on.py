"""`chat` and `message send` when the gateway is away for a moment: nothing typed is lost, and nothing is
said twice."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.fake_gateway import Chat, FakeGateway
from tests.cli.person import Person
from tests.cli.test_watching import reads_until, watching
from tests.cli.test_with_a_gateway import running
from tests.starting import Command

pytestmark = pytest.mark.timeout(
    180
)  # gateways start and stop, and each wait has a bound of its own

ONE = '{ agents: { list: [{ id: "main" }] } }'
TWO = '{ agents: { list: [{ id: "main" }, { id: "librarian" }] } }'


def chatting(person: Person) -> Command:
    return person.begins("chat", stdin=subprocess.PIPE)


def says(chat: Command, line: str) -> None:
    assert chat.stdin
    chat.stdin.write(line + "\n")
    chat.stdin.flush()


@pytest.mark.spec("C2")
def test_chat_goes_on_after_the_gateway_took_over_a_changed_config(tmp_path: Path) -> None:
    someone = Person(tmp_path)
    someone.write_config(ONE)
    with running(someone, "gateway", "--port", str(someone.port)):
        watcher, chat = watching(someone), chatting(someone)
        says(chat, "say: Before.")
        reads_until(chat.stdout, "Before.")
        someone.write_config(TWO)
        reads_until(watcher.stderr, "it is there again")  # so the chat has lost its connection too
        watcher.kill()
        watcher.communicate()
        says(chat, "say: After.")
        reads_until(chat.stdout, "After.")
        _, told = chat.communicate("/session librarian\n/sessions\n", timeout=30)

    assert chat.returncode == Exit.OK
    assert "the gateway was away; it is there again" in told


@pytest.mark.spec("C2")
def test_a_run_that_was_under_way_when_the_gateway_died_is_awaited_and_said_once(
    tmp_path: Path,
) -> None:
    someone = Person(tmp_path)
    with running(someone, "gateway", "--port", str(someone.port)) as (first, _):
        watcher, chat = watching(someone, "chat", "--lines", "1"), chatting(someone)
        says(chat, "wait: 6")
        watcher.communicate(timeout=60)
        first.send_signal(signal.SIGKILL)
        first.wait(20)
    with running(someone, "gateway", "--port", str(someone.port)):
        said, told = chat.communicate("say: And on.\n", timeout=60)
        history = someone.reads_json("sessions", "history", "main")["messages"]

    assert chat.returncode == Exit.OK
    assert "the gateway was away; it is there again" in told
    assert said == "And on.\n"
    assert [m["role"] for m in history] == ["user", "assistant"] * 2


@pytest.mark.parametrize("ended", [True, False], ids=["ended meanwhile", "still runs"])
def test_a_message_that_may_have_arrived_goes_again_under_its_key(
    person: Person, gateway: FakeGateway, ended: bool
) -> None:
    def cut_once(chat: Chat) -> None:
        if len(gateway.params_of("chat.send")) == 1:
            run_id = gateway.params_of("chat.send")[0]["idempotencyKey"]
            written = {
                "role": "assistant",
                "content": [{"type": "text", "text": "Half, and the rest."}],
                "__openclaw": {"runId": run_id},
            }
            gateway.answers["chat.history"] = {"messages": [written]}
            gateway.answers["agent.wait"] = {"status": "ok" if ended else "timeout"}
            chat.delta("Half")
            chat.cut()
        elif not ended:
            chat.final("Half, and the rest.")

    gateway.chat = cut_once

    done = person.types("chat", stdin="Hello\n")

    assert (done.returncode, done.stdout) == (Exit.OK, "Half, and the rest.\n")
    first, second = gateway.params_of("chat.send")
    assert first == second


def test_a_run_that_failed_while_the_gateway_was_away_is_told_as_failed(
    person: Person, gateway: FakeGateway
) -> None:
    gateway.answers |= {
        "chat.history": {"messages": []},
        "agent.wait": {"status": "error", "error": "no luck"},
    }
    gateway.chat = lambda chat: chat.cut() if len(gateway.params_of("chat.send")) == 1 else None

    done = person.types("chat", stdin="Hello\n")

    assert done.returncode == Exit.OK
    assert "no luck" in done.stderr


@pytest.mark.spec("C1", "S4")
def test_a_message_whose_gateway_was_killed_gets_its_reply_from_the_next_one(
    tmp_path: Path,
) -> None:
    someone = Person(tmp_path)
    words = ("message", "send", "tool: sessions_list {}\nthen:\nwait: 6\nsay: Late.", "--json")
    with running(someone, "gateway", "--port", str(someone.port)) as (first, _):
        watcher, sent = watching(someone, "tool", "--lines", "1"), someone.begins(*words)
        watcher.communicate(timeout=60)
        first.send_signal(signal.SIGKILL)
        first.wait(20)
        reads_until(sent.stderr, "the gateway is away; waiting for it")
    with running(someone, "gateway", "--port", str(someone.port)):
        said, told = sent.communicate(timeout=60)
        history = someone.reads_json("sessions", "history", "main")["messages"]

    assert sent.returncode == Exit.OK, told
    assert json.loads(said)["reply"] == "Late."
    assert "the gateway was away; it is there again" in told
    assert [m["role"] for m in history].count("user") == 1


def _going(gateway: FakeGateway) -> None:
    def leave(chat: Chat) -> None:
        gateway.away = True
        chat.delta("Half")
        chat.cut()

    gateway.chat = leave


def test_a_gateway_that_stays_away_is_told_with_where_the_reply_will_be(
    person: Person, gateway: FakeGateway
) -> None:
    _going(gateway)

    done = person.types("message", "send", "Hello", "--timeout", "4")

    assert (done.returncode, done.stdout) == (Exit.UNREACHABLE, "Half\n")
    # What is left of the four seconds: a busy machine has used some of them.
    told = r"is not back after \d s\. If the message had arrived, its run goes on"
    assert re.search(told, done.stderr), done.stderr
    assert "crossclaw sessions history agent:main:main" in done.stderr
    assert len(gateway.params_of("chat.send")) == 1


def test_ctrl_c_while_the_gateway_is_away_says_that_nothing_was_aborted(
    person: Person, gateway: FakeGateway
) -> None:
    _going(gateway)
    sent = person.begins("message", "send", "Hello")
    reads_until(sent.stderr, "the gateway is away; waiting for it, up to 30 s")

    sent.send_signal(signal.SIGINT)
    _, told = sent.communicate(timeout=60)

    assert sent.returncode == Exit.INTERRUPTED
    assert (
        "given up while the gateway was away. If the message had arrived, its run goes on" in told
    )
    assert gateway.params_of("chat.abort") == []

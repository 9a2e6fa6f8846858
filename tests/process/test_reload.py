"""A changed config is taken over by the gateway that runs."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.exceptions import WebSocketException

from tests.process.program import Client, Folder, Program, until

ONE, TWO = "{agents: {list: [{id: 'main'}]}}", "{agents: {list: [{id: 'main'}, {id: 'bo'}]}}"
MAIN = "agent:main:main"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, ONE)


def agents_of(client: Client) -> list[str]:
    return [agent["id"] for agent in client.ask("agents.list", {})["agents"]]


def knows(program: Program, agent: str) -> bool | None:
    """Whether the gateway knows this agent. Who comes while it opens anew waits; who is there then, is cut."""
    with suppress(WebSocketException), program.client() as client:
        return agent in agents_of(client) or None
    return None


def test_a_new_agent_is_there_without_a_restart_and_nothing_else_has_changed(
    folder: Folder,
) -> None:
    with folder.serve() as gateway, gateway.client() as early:
        came_in = time.monotonic()
        early.say(MAIN, "say: before", "r1")
        assert early.wait("r1") == "ok"

        folder.config.write_text(TWO)
        code, _reason = early.closed()
        until(lambda: knows(gateway, "bo"))

        assert (code, early.events[-1]) == (1012, "shutdown")
        with gateway.client() as late:
            first, second = (each.hello["snapshot"]["uptimeMs"] for each in (early, late))
            passed_ms = 1000 * (time.monotonic() - came_in)
            assert second - first > passed_ms / 2  # it is the same program, and as old as before
            assert late.history(MAIN) == [("user", "say: before"), ("assistant", "before")]
            assert late.say("agent:bo:main", "say: here", "r2") == "started"
            assert late.wait("r2") == "ok"
        assert (folder.state / "gateway.port").exists()
        gateway.stop()
        assert gateway.wait() == 0
        assert not (folder.state / "gateway.port").exists()


def test_a_run_under_way_comes_to_its_end_first(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        client.say(MAIN, "wait: 600\nsay: never", "r1")
        folder.config.write_text(TWO)
        until(lambda: "taken over as soon as" in gateway.said or None)
        assert agents_of(client) == ["main"]

        client.ask("chat.abort", {"sessionKey": MAIN})
        until(lambda: knows(gateway, "bo"))

        with gateway.client() as late:
            assert late.ask("agent.wait", {"runId": "r1", "timeoutMs": 0})["status"] == "error"


def test_a_config_that_does_not_load_is_told_and_the_old_one_holds(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as client:
        folder.config.write_text("{agents: ")
        until(lambda: "not taken over" in gateway.said or None)
        assert agents_of(client) == ["main"]


def test_a_config_with_which_it_cannot_open_gives_way_to_the_one_before(folder: Folder) -> None:
    with folder.serve() as gateway, gateway.client() as early:
        folder.config.write_text("{gateway: {auth: {mode: 'password'}}}")
        early.closed()
        until(lambda: "goes on with the old one" in gateway.said or None)
        until(lambda: knows(gateway, "main"))
        assert "gateway.auth.password is not set" in gateway.said
        assert "Traceback" not in gateway.said

        folder.config.write_text(TWO)
        until(lambda: knows(gateway, "bo"))


def test_the_log_is_kept_as_the_changed_config_says(folder: Folder) -> None:
    """Another file, and less of it; and what is odd about the new config is told there."""
    with folder.serve() as gateway:
        folder.config.write_text("{logging: {file: 'other.log'}, talk: {voiceId: 'v'}}")
        other = folder.state / "other.log"
        until(lambda: (other.exists() and "listens at" in other.read_text()) or None)
        with gateway.client() as client:
            tail = client.ask("logs.tail", {})
        assert tail["file"] == str(other)
        assert any("talk" in line for line in tail["lines"])

        folder.config.write_text("{logging: {file: 'errors.log', level: 'error'}}")
        errors = folder.state / "errors.log"
        until(lambda: errors.exists() or None)
        until(lambda: knows(gateway, "main"))
        gateway.stop()
        assert gateway.wait() == 0
        assert errors.read_text() == ""

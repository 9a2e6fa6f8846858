"""One set of words for how things stand."""

from typing import Any

import pytest

from crossclaw.domain.keys import SessionKey
from crossclaw.domain.spawns import Spawn, note_text
from crossclaw.domain.states import (
    WHY_CHARS_MAX,
    State,
    call_state,
    delivery_state,
    end_state,
    exchange_state,
    lane_state,
    run_state,
    tick_state,
)
from crossclaw.domain.tools import SESSION_TOOLS

pytestmark = pytest.mark.spec("B7")

MAIN, GUEST = SessionKey.parse("agent:main:main"), SessionKey.parse("agent:main:mcp:bob")


@pytest.mark.parametrize(
    ("state", "name", "text"),
    [
        (run_state("queued"), "queued", "queued"),
        (run_state("running"), "running", "running"),
        (run_state("running", waits_for=["agent:a:main"]), "waiting", "waits for agent:a:main"),
        (run_state("waiting", asks="rm -r x"), "needs approval", "needs approval"),
        (run_state("ok"), "ok", "ok"),
        (run_state("error", "no key"), "failed", "failed"),
        (run_state("timeout", "10 min are over"), "timed out", "timed out"),
        (run_state("aborted"), "stopped", "stopped"),
        (run_state("error", "over budget: all is spent"), "over budget", "over budget"),
        (run_state("timeout", "over budget: the time is over"), "over budget", "over budget"),
        (lane_state(MAIN, "running", behind=2), "running", "running, 2 queued"),
        (lane_state(MAIN, "queued", behind=3), "queued", "3 queued"),
        (lane_state(GUEST, "running", behind=0), "waiting", "waits for the guest bob"),
        (
            lane_state(GUEST, "running", behind=1, guest_is_here=False),
            "waiting",
            "waits for the guest bob, which is away, 1 queued",
        ),
        (delivery_state("pending"), "queued", "queued"),
        (delivery_state("pending", "no route", 2), "waiting", "waits for the next attempt, after: no route"),
        (delivery_state("delivered"), "ok", "ok"),
        (delivery_state("uncertain", "cut off"), "uncertain", "uncertain"),
        (tick_state("error", "over budget: spent"), "over budget", "over budget"),
        (tick_state("missed", "the gateway was off"), "timed out", "timed out"),
        (exchange_state(over=False, worst=None, current=None), "running", "running"),
        (exchange_state(over=True, worst=None, current=None), "ok", "ok"),
        (exchange_state(over=True, worst=None, current=None, announce="failed"), "failed", "failed"),
        (exchange_state(over=True, worst=State("stopped"), current=None), "stopped", "stopped"),
    ],
)  # fmt: skip
def test_whatever_is_stored_has_one_word(state: State, name: str, text: str) -> None:
    assert (state.name, state.text) == (name, text)


@pytest.mark.parametrize(
    ("tool", "content", "is_error", "name", "why"),
    [
        ("exec", "done\n[exit code 0]", False, "ok", None),
        ("exec", "no such file\n[exit code 2]", False, "failed", "exit code 2"),
        ("read", "it said\n[exit code 2]", False, "ok", None),
        ("read", "no such file", True, "failed", "no such file"),
        ("sessions_send", {"status": "error", "error": "no key"}, False, "failed", "no key"),
        ("sessions_send", {"status": "timeout"}, False, "timed out", "timeout"),
        ("sessions_send", {"status": "ok"}, False, "ok", None),
        ("session_status", {"status": "forbidden"}, False, "failed", "forbidden"),
        ("agents_list", {"status": "error", "error": "no"}, False, "failed", "no"),
        ("sessions_reply", {"status": "error", "error": "gone"}, False, "failed", "gone"),
        ("weather", {"status": "error"}, False, "ok", None),
    ],
)
def test_a_call_whose_program_or_session_tool_failed_has_failed(
    tool: str, content: Any, is_error: bool, name: str, why: str | None
) -> None:
    state = call_state(tool, content, is_error=is_error)
    assert (state.name, state.why) == (name, why)


@pytest.mark.parametrize("name", sorted(SESSION_TOOLS))
def test_a_refused_session_tool_has_failed_whatever_its_name(name: str) -> None:
    assert call_state(name, {"status": "forbidden"}, is_error=False).name == "failed"


def test_a_long_reason_is_cut_in_lists() -> None:
    assert len(end_state("error", "x" * 5_000).why or "") == WHY_CHARS_MAX


@pytest.mark.spec("P5", "P6")
def test_the_note_of_a_silent_child_that_failed_says_why() -> None:
    spawn = Spawn(
        child_key="agent:main:subagent:1", agent_id="main", parent_key="agent:main:main", run_id="r",
        task="count", cleanup="keep", created_at=0,
    )  # fmt: skip
    assert "Status: error. Reason: no key." in note_text(spawn, "error", "no key")
    assert "Reason" not in note_text(spawn, "success", "")

"""One place where what arrives becomes a run: nobody goes around the intake."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from crossclaw.sessions.arrivals import Arrival

SRC = Path(__file__).parents[2] / "src" / "crossclaw"
INTAKE = "sessions/intake.py"
GIVERS = {
    "Authority",
    "Caller",
    "CredentialRef",
    "Principal",
    "person_principal",
    "session_principal",
}
"""What is called to make up somebody who may do something."""
COUNTS_HOPS = {
    "domain/authority.py",  # the field itself
    "policy/hops.py",
    "sessions/spawn.py",  # a child's bound has no limit of hops: they are those of whoever sends
}
MAY_MAKE = {
    "schedule/heartbeats.py": {"Authority"},  # of the built-in job, stored with it
    "sessions/spawn.py": {"Authority"},  # the limits of a child, within which its caller asks
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        yield path.relative_to(SRC).as_posix(), ast.parse(path.read_text("utf-8"))


def uses(tree: ast.AST, owner: str, *names: str) -> bool:
    """Whether an attribute of these names is read from something called `owner`, `_owner` or `x.owner`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in names
        and ast.unparse(node.value).rpartition(".")[2].lstrip("_") == owner
        for node in ast.walk(tree)
    )


def test_runs_enter_their_lanes_by_the_intake_alone() -> None:
    found = {
        name
        for name, tree in modules()
        if uses(tree, "lanes", "submit") or uses(tree, "builder", "new")
    }

    assert found == {INTAKE}


def test_what_arrives_is_stored_by_two_functions_and_no_other_door_leads_there() -> None:
    """What will run goes to its lane, which accepts it; what ends at once is stored by the intake itself."""
    by_lane = {name for name, tree in modules() if uses(tree, "run_store", "accept")}
    at_once = {name for name, tree in modules() if uses(tree, "run_store", "accept_ended")}

    assert by_lane == {"runs/lanes.py"}
    assert at_once == {INTAKE}


def called(tree: ast.AST) -> set[str]:
    return {
        ast.unparse(node.func).rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }


APPENDS = {
    "schedule/hooks.py": "a summary of what a hook's run said, for the main session",
    "schedule/job_runs.py": "a summary of what a job's run said, for the main session",
    "sessions/changing.py": "chat.inject: a client's words, shown as the assistant's",
    "sessions/channel_intake.py": "what a group said before the message that is answered",
    "sessions/exchange.py": "a note that an announce has no address to go to",
    "sessions/spawn_report.py": "the report of a child, for its parent",
}


def test_what_is_put_into_a_transcript_without_a_run_is_listed_with_its_reason() -> None:
    found = {name for name, tree in modules() if "Inject" in called(tree)}

    assert found == APPENDS.keys()


def test_whether_it_is_a_command_is_asked_by_the_intake_alone() -> None:
    """`find_command` knows nothing of the config: what it takes for a command may be words to the model."""
    bare = {name for name, tree in modules() if "find_command" in called(tree)}
    asked = {name for name, tree in modules() if uses(tree, "commands", "find")}

    assert bare == {"sessions/commands.py"}
    assert asked == {INTAKE}


def test_an_arrival_carries_no_authority() -> None:
    assert not [name for name, kind in get_type_hints(Arrival).items() if "Authority" in str(kind)]


def test_whoever_hands_over_an_arrival_does_not_make_up_who_gives_it() -> None:
    """Callers come from the door and jobs from the ledger; what they may do in a run is the intake's to decide."""
    handing_over = {name: called(tree) for name, tree in modules() if "Arrival" in called(tree)}
    made = {name: calls & GIVERS for name, calls in handing_over.items() if name != INTAKE}

    assert len(made) > 8
    assert {name: calls for name, calls in made.items() if calls} == MAY_MAKE


def test_the_channel_of_the_page_and_the_id_of_a_platforms_message_are_spelled_once() -> None:
    """Elsewhere `webchat` is what a client says of itself as it connects (OpenClaw's `mode`)."""
    spelled, once = set(), set()
    for name, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == "webchat":
                spelled.add(name)
            if isinstance(node, ast.Call) and ast.unparse(node).startswith("Dedupe(INBOUND"):
                once.add(name)

    assert spelled == {"domain/addresses.py", "gateway/handshake.py", "cli/rehearse.py"}
    assert once == {INTAKE}


def test_how_many_hops_are_left_is_decided_in_one_place() -> None:
    def counts(node: ast.AST) -> bool:
        named = isinstance(node, ast.keyword) and node.arg == "hops_left"
        return named or (isinstance(node, ast.Attribute) and node.attr == "hops_left")

    assert {name for name, tree in modules() if any(map(counts, ast.walk(tree)))} == COUNTS_HOPS


def test_a_session_begins_anew_by_its_road_or_because_somebody_asks_for_it() -> None:
    found = {name for name, tree in modules() if "ResetSession" in called(tree)}

    assert found == {"sessions/freshness.py", "sessions/changing.py"}


def test_whose_session_a_chats_message_is_for_is_worked_out_once_on_its_way() -> None:
    """The intake does so once more: it takes what arrives from nobody's word. The others are about other messages: whom a
    pairing code goes to, where an address leads."""
    found = {
        name: count
        for name, tree in modules()
        if (count := [ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)].count("route"))
    }  # fmt: skip

    assert found == {
        "sessions/channel_intake.py": 1,
        "sessions/channel_pairing.py": 1,
        "sessions/intake.py": 1,
        "sessions/route.py": 3,
    }

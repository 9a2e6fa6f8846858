"""Approvals in the terminal: the whole of what is asked, and the answers."""

import apsw

from crossclaw.cli.approvals import shown_request
from tests.cli.person import Person

ASKED = {
    "id": "3f9a01cc20de4711",
    "createdAtMs": 0,
    "expiresAtMs": 90_000,
    "request": {
        "agentId": "main",
        "sessionKey": "agent:main:main",
        "command": "git push\norigin " + "x" * 300,
        "resolvedPath": "/usr/bin/git",
        "cwd": "/workspace",
        "host": "sandbox",
        "warningText": "git runs what its arguments or files say",
        "whyOnce": "a pipe",
    },
}


def test_a_request_is_shown_whole_with_its_program_and_the_time_that_is_left() -> None:
    shown = shown_request(ASKED, 30_000)

    assert shown.startswith("3f9a01cc  main asks, in agent:main:main; a no in 1 min 0 s\n")
    assert "    git push\n    origin " + "x" * 300 in shown
    assert "program  /usr/bin/git" in shown
    assert "in       /workspace (sandbox)" in shown
    assert "only once: it has a pipe" in shown


def test_a_program_or_a_folder_with_a_line_end_in_its_name_writes_no_line() -> None:
    request = {"agentId": "main", "sessionKey": "agent:main:main", "command": "ls"}
    odd = {**request, "resolvedPath": "/w/x\n  program  /usr/bin/ls", "cwd": "/w\n  note     safe"}
    shown = shown_request({**ASKED, "request": odd}, 0)

    assert len(shown.splitlines()) == 4
    assert r"program  '/w/x\n  program  /usr/bin/ls'" in shown


def test_what_was_allowed_is_listed_and_taken_back(person: Person) -> None:
    assert person.types("message", "send", "say: hi").returncode == 0
    (store,) = person.folder.rglob("crossclaw.sqlite")
    db = apsw.Connection(str(store))
    db.execute(
        "INSERT INTO grants (grant_id, agent_id, tool, created_at, program, pattern, arguments, granted_by, makers) "
        "VALUES ('51d0a7e2ffff', 'main', 'exec', 1, '/usr/bin/ls', 0, '[\"-l\",\"a b\"]', 'owner', '[]')"
    )
    db.close()

    listed = person.types("approvals")
    revoked = person.types("approvals", "revoke", "51d0a7e2")
    left = person.types("approvals", "list")
    unknown = person.types("approvals", "allow", "nobody00")

    assert listed.stdout.startswith("nothing waits for a yes\n")
    assert "51d0a7e2" in listed.stdout
    assert "/usr/bin/ls -l 'a b'" in listed.stdout
    assert (revoked.returncode, "main asks again" in revoked.stdout) == (0, True)
    assert left.stdout == "nothing waits for a yes\n"
    assert (unknown.returncode, "unknown or expired" in unknown.stderr) == (1, True)

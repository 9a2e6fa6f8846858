"""`stop`: a real gateway leaves, and what was under way has ended."""

from pathlib import Path

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person
from tests.cli.test_with_a_gateway import running

pytestmark = pytest.mark.spec("C2")


def test_a_drained_gateway_has_answered_and_leaves_well(tmp_path: Path) -> None:
    person = Person(tmp_path)
    with running(person, "gateway", "--port", str(person.port)) as (gateway, _):
        asked = person.begins("message", "send", "wait: 2\nsay: Before I go.")
        while "running" not in person.types("sessions", "list").stdout:
            assert asked.poll() is None
        done = person.types("stop", "--drain")
        reply, _ = asked.communicate(timeout=20)
        left = gateway.wait(20)
    again = person.types("stop")

    assert done.returncode == Exit.OK, done.stderr
    assert "The gateway has stopped." in done.stdout
    assert "Before I go." in reply
    assert left == 0
    assert again.returncode == Exit.UNREACHABLE

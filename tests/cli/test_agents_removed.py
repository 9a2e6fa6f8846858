"""`agents remove`: an agent leaves the config; what it said stays until somebody deletes it."""

import pytest

from crossclaw.cli.exits import Exit
from tests.cli.person import Person

pytestmark = pytest.mark.spec("C2")

CONFIG = """{
  agents: {
    list: [
      { id: "main" }, // answers the door
      // cooks
      {
        id: "chef",
        name: "The chef",
      },
    ],
  },
}
"""
LEFT = """{
  agents: {
    list: [
      { id: "main" }, // answers the door
      // cooks
    ],
  },
}
"""


def test_an_agent_is_taken_out_and_its_sessions_are_listed_read_and_deleted(
    person: Person,
) -> None:
    person.write_config(CONFIG)
    person.types("message", "send", "say: soup", "--agent", "chef")
    done = person.types("agents", "remove", "chef")
    assert (done.returncode, person.config_path.read_text()) == (Exit.OK, LEFT)
    assert "crossclaw sessions delete agent:chef:main" in done.stdout

    (row,) = person.reads_json("sessions", "list")["sessions"]
    assert (row["key"], row["agentGone"]) == ("agent:chef:main", True)
    assert "agent gone" in person.types("sessions", "list").stdout
    assert "soup" in person.types("sessions", "history", "agent:chef:main").stdout
    assert "soup" in person.types("sessions", "export", "agent:chef:main").stdout
    refused = person.types("sessions", "send", "agent:chef:main", "say: more")
    assert refused.returncode == Exit.FAILED
    assert "crossclaw agents add chef" in refused.stderr
    assert person.types("sessions", "delete", "agent:chef:main").returncode == Exit.OK
    assert person.reads_json("sessions", "list")["sessions"] == []


@pytest.mark.parametrize(
    ("config", "agent", "hint"),
    [
        ("{}", "main", "crossclaw agents add <id>"),
        ("{ agents: { list: [{ id: 'main' }, { id: 'chef' }] } }", "main", "default: true"),
        ("{ agents: { list: [{ id: 'main' }] } }", "nobody", "configured: main"),
    ],
)
def test_who_has_to_stay_stays_and_the_error_says_what_would_work(
    person: Person, config: str, agent: str, hint: str
) -> None:
    person.write_config(config)
    done = person.types("agents", "delete", agent)
    assert (done.returncode, person.config_path.read_text()) == (Exit.FAILED, config)
    assert hint in done.stderr


def test_an_agent_of_the_map_is_taken_out_too(person: Person) -> None:
    person.write_config("{ agents: { entries: { main: {}, chef: { name: 'C' } } } }")
    assert person.types("agents", "delete", "chef").returncode == Exit.OK
    assert [each["id"] for each in person.reads_json("agents", "list")["agents"]] == ["main"]

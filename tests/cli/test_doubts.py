"""A config that says what it hardly means: the check, the doctor and the run say the same of it."""

import pytest

from tests.cli.person import Person

pytestmark = pytest.mark.spec("C2")


def test_the_check_the_doctor_and_the_run_say_the_same_of_a_model(person: Person) -> None:
    fault = "'x' names no model; write provider/model"
    person.write_config("{ agents: { defaults: { model: 'x' } }, tools: { deny: ['exce'] } }")
    check, doctor = person.types("config", "check"), person.types("doctor")
    said = person.types("message", "send", "hello")
    assert check.returncode == 0
    for text in (check.stdout, doctor.stdout, said.stdout + said.stderr):
        assert fault in text
    for text in (check.stdout, doctor.stdout):
        assert 'did you mean "exec"?' in text


def test_the_doctor_names_an_mcp_server_that_is_no_program_here(person: Person) -> None:
    person.write_config(
        "{ mcp: { servers: { docs: { command: 'no-such-program' }, sh: { command: 'sh' },"
        " off: { command: 'no-such-either', enabled: false } } } }"
    )
    doctor = person.types("doctor")
    assert "✗ MCP server docs: there is no program no-such-program" in doctor.stdout
    assert "✓ MCP server sh: sh" in doctor.stdout
    assert "no-such-either" not in doctor.stdout


def test_who_sets_what_is_hardly_meant_hears_of_it_then_and_not_again(person: Person) -> None:
    person.write_config("{ tools: { allow: ['raed'] } }")
    slip = person.types("config", "set", "tools.deny", '["exce"]')
    fine = person.types("config", "set", "tools.deny", '["exec"]')
    assert (slip.returncode, fine.returncode) == (0, 0)
    assert 'did you mean "exec"?' in slip.stderr
    assert "raed" not in slip.stderr
    assert "warning" not in fine.stderr

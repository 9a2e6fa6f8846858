"""Without a gateway no command opens a ledger that several gateways share: it would be one more among them, for one call."""

import os
import socket
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from crossclaw.cli.commands import TREE, Group
from crossclaw.cli.exits import Exit
from crossclaw.cli.main import main

COMMANDS = """
agent --message hello --to main
message send hello
message send hello --target telegram:1
chat
tui
trace r1
attention list
attention do r1 retry
attention dismiss r1
sessions list
sessions show main
sessions history main
sessions export main
sessions send main hello
sessions fork main
sessions explain main see agent:other:main
sessions spawn task
sessions abort main
sessions compact main
sessions reset main
sessions delete agent:main:x --yes
sessions archive main
sessions unarchive main
sessions cleanup
agents list
agents prompt main
models list
pairing list
pairing approve telegram ABCDEFGH
pairing deny telegram ABCDEFGH
pairing remove telegram 1
cron list
cron add --name x --every 1h --message hello
cron edit j1 --name y
cron rm j1
cron run j1
cron runs j1
cron enable j1
cron disable j1
cron status
devices list
devices approve d1
devices reject d1
devices revoke d1
approvals list
approvals allow a1
approvals deny a1
approvals revoke a1
mcp held
mcp agree server tool
status
health
"""
FILE, SERVED, OWN_FOLDER = (
    "reads or changes files only",
    "asks a gateway that runs, and nothing else",
    "in a folder of its own",
)
OTHERWISE = {
    "agents add": FILE,
    "agents delete": FILE,
    "agents remove": FILE,
    "backup": FILE,
    "channels": SERVED,
    "completion": FILE,
    "config": FILE,
    "dashboard": SERVED,
    "deliveries": SERVED,
    "demo": OWN_FOLDER,
    "doctor": "looks at the database, and opens no ledger",
    "gateway": "is the gateway, or asks one that runs",
    "gateways": SERVED,
    "import": "opens it alone, which those that share it do not allow",
    "ledger": "likewise",
    "logs": FILE,
    "mcp serve": SERVED,
    "models status": FILE,
    "onboard": FILE,
    "protocol": OWN_FOLDER,
    "rehearse": OWN_FOLDER,
    "restore": FILE,
    "run": "is the gateway",
    "service": FILE,
    "stop": SERVED,
    "verify": FILE,
    "version": FILE,
    "watch": SERVED,
}
"""What opens no shared ledger for a call, and why."""


@pytest.fixture
def visitors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """Who has come to the database of a shared ledger: the ports they came from."""
    came: list[int] = []
    database = socket.create_server(("127.0.0.1", 0))
    with closing(database), closing(socket.create_server(("127.0.0.1", 0))) as port:
        free = port.getsockname()[1]

        def serve() -> None:
            while True:
                try:
                    connection, address = database.accept()
                except OSError:
                    return
                came.append(address[1])
                connection.close()

        Thread(target=serve, daemon=True).start()
        url = f"postgresql://x@127.0.0.1:{database.getsockname()[1]}/x"
        (tmp_path / "openclaw.json").write_text(f"{{ ledger: {{ shared: true, url: '{url}' }} }}")
        monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
        monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(tmp_path / "openclaw.json"))
        monkeypatch.setenv("OPENCLAW_GATEWAY_PORT", str(free))
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("OPENCLAW_GATEWAY_URL", "CROSSCLAW_LEDGER_URL"):
            monkeypatch.delenv(name, raising=False)
        port.close()
        yield came
        database.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("command", COMMANDS.strip().splitlines())
def test_a_command_without_a_gateway_leaves_a_shared_ledger_alone(
    visitors: list[int], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code = main(command.split())
    said = capsys.readouterr().err
    assert visitors == [], "it has opened the ledger"
    assert code == Exit.UNREACHABLE, said
    assert "crossclaw gateway" in said, "what would work"


def test_every_command_is_in_one_of_the_lists() -> None:
    listed = {" ".join(line.split()[:2]) for line in COMMANDS.strip().splitlines()}
    known = listed | {
        line.split()[0] for line in listed if not isinstance(TREE[line.split()[0]], Group)
    }
    missing = [
        f"{word} {name}".strip()
        for word, entry in TREE.items()
        for name in (entry.leaves if isinstance(entry, Group) else [""])
        if not {word, f"{word} {name}".strip()} & (known | OTHERWISE.keys())
    ]
    assert missing == []


ONBOARD = "onboard --non-interactive --skip-health"
MODEL = "--auth-choice custom --custom-base-url http://127.0.0.1:1/v1 --model m --custom-api-key sk-secret"


@pytest.mark.parametrize(
    ("command", "for_all"),
    [
        ("config set session.scope global", "config.patch"),
        ("config unset tools", "config.patch"),
        ("agents add librarian", "agents.create --params '{name: \"librarian\"}'"),
        ("agents add helper --name Helga", "agents.update --params '{agentId: \"helper\"}'"),
        ("agents remove helper", "agents.delete --params '{agentId: \"helper\"}'"),
        (f"{ONBOARD} --agent-name Ada", "agents.update --params '{agentId: \"main\"}'"),
        (f"{ONBOARD} {MODEL}", "models.service.set"),
        (f"{ONBOARD} --channel telegram --gateway-port 1234", "config.patch"),
    ],
)
def test_one_of_several_config_files_is_changed_only_when_that_is_said(
    visitors: list[int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    for_all: str,
) -> None:
    """Changed alone it is another than the others', and its gateway takes no more runs."""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "1:secret")
    path = Path(os.environ["OPENCLAW_CONFIG_PATH"])
    rest = "tools: { exec: { security: 'deny' } }, agents: { list: [{ id: 'main' }, { id: 'helper' }] }"
    path.write_text(path.read_text().removesuffix("}") + f", {rest} }}")
    before = path.read_text()

    assert main(command.split()) == Exit.FAILED
    said = capsys.readouterr().err
    assert "nothing was changed" in said
    assert for_all in said
    assert path.read_text() == before
    assert not list(path.parent.glob("credentials/*")), "no key or token is kept either"
    assert main([*command.split(), "--this-file"]) == Exit.OK
    assert path.read_text() != before


def test_onboard_says_so_before_it_asks_anything(
    visitors: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    assert main(["onboard"]) == Exit.FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "several gateways share this ledger" in said.err
    assert "crossclaw dashboard" in said.err
    assert "--this-file" in said.err


def test_what_is_each_machine_s_own_or_makes_a_file_count_is_set_as_ever(
    visitors: list[int],
) -> None:
    for words in ("ledger.gateway b", "gateway.port 1234", "ledger.configEpoch 3"):
        assert main(["config", "set", *words.split()]) == Exit.OK
    assert main([*ONBOARD.split(), "--gateway-port", "2345"]) == Exit.OK
    assert main(["config", "unset", "ledger.gateway"]) == Exit.OK


@pytest.mark.parametrize(
    ("wrong", "is_common"),
    [("Session: { scope: 'global' }", True), ("Gateway: { port: 1 }", False)],
)
def test_doctor_renames_in_one_of_several_files_by_itself_only_what_is_that_machines(
    visitors: list[int], capsys: pytest.CaptureFixture[str], wrong: str, is_common: bool
) -> None:
    path = Path(os.environ["OPENCLAW_CONFIG_PATH"])
    path.write_text(path.read_text().removesuffix("}") + f", {wrong} }}")
    path.chmod(0o600)
    main(["doctor", "--fix", "--yes"])
    said = capsys.readouterr().err
    assert ("several gateways share the ledger and have one config" in said) == is_common
    assert ("needs your yes: rename Session" in said) == is_common
    assert (wrong[0] + wrong[1:7] in path.read_text()) == is_common


def test_doctor_looks_at_the_database_and_names_it_without_its_password(
    visitors: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCLAW_LEDGER_URL", "postgresql://x:hush-hush@127.0.0.1:1/lent")

    assert main(["doctor"]) == Exit.FAILED
    said = capsys.readouterr().out
    assert "the database 127.0.0.1:1/lent cannot be reached" in said
    assert "hush" not in said


def test_who_asks_for_the_gateways_while_this_one_is_down_reads_how_to_ask_another(
    visitors: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateways", "list"]) == Exit.UNREACHABLE
    assert "--url names it" in capsys.readouterr().err

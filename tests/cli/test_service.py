"""The gateway as a service: the files are what their managers accept, and nobody's file is overwritten."""

import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from crossclaw.cli.service import UNIT_NAME, SystemService, launchd_plist, systemd_unit
from tests.cli.person import Person

ODD = SystemService(
    ("/opt/my $python/bin/python", "-m", "crossclaw", "gateway", "run", "--port", "18790"),
    {"OPENCLAW_STATE_DIR": '/srv/100% "sure"/$state', "PATH": "/usr/bin"},
    Path("/tmp"),
)


@pytest.fixture
def systemctl(tmp_path: Path) -> Path:
    """A service manager that writes down what it is asked."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    program.chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_accepts_the_unit_with_odd_names_in_it(tmp_path: Path) -> None:
    python = tmp_path / "my python" / "python"
    python.parent.mkdir()
    python.symlink_to("/bin/true")
    unit = tmp_path / UNIT_NAME
    unit.write_text(systemd_unit(ODD._replace(command=(str(python), *ODD.command[1:]))))

    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        capture_output=True, text=True, check=False,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip

    complaints = [line for line in done.stderr.splitlines() if UNIT_NAME in line]
    assert done.returncode == 0, done.stderr
    assert complaints == []


def test_what_systemd_would_expand_is_written_so_that_it_does_not() -> None:
    unit = systemd_unit(ODD)

    assert 'Environment="OPENCLAW_STATE_DIR=/srv/100%% \\"sure\\"/$state"' in unit
    assert 'ExecStart="/opt/my $$python/bin/python" "-m" "crossclaw"' in unit


def test_the_launchd_file_says_the_same() -> None:
    said = plistlib.loads(launchd_plist(ODD))

    assert said["ProgramArguments"] == list(ODD.command)
    assert said["EnvironmentVariables"] == ODD.environ
    assert said["KeepAlive"] == {"SuccessfulExit": False}


def test_installing_writes_the_unit_and_starts_it_and_removing_takes_both_back(
    person: Person, systemctl: Path, tmp_path: Path
) -> None:
    path = f"{systemctl}:{person.environ['PATH']}"

    done = person.types("service", "install", "--port", "18790", PATH=path)
    unit = person.home / ".config" / "systemd" / "user" / UNIT_NAME
    text = unit.read_text()
    assert done.returncode == 0, done.stderr
    assert f'"OPENCLAW_STATE_DIR={person.state}"' in text
    assert '"--port" "18790"' in text
    assert "TOKEN" not in text
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["--user daemon-reload", f"--user enable --now {UNIT_NAME}"]

    assert person.types("service", "uninstall", PATH=path).returncode == 0
    assert not unit.exists()


def test_a_file_that_says_something_else_is_not_overwritten(
    person: Person, systemctl: Path
) -> None:
    unit = person.home / ".config" / "systemd" / "user" / UNIT_NAME
    unit.parent.mkdir(parents=True)
    unit.write_text("mine")

    done = person.types("service", "install", PATH=f"{systemctl}:{person.environ['PATH']}")

    assert done.returncode == 1
    assert "--force" in done.stderr
    assert unit.read_text() == "mine"


def test_without_a_service_manager_it_says_what_works(person: Person, tmp_path: Path) -> None:
    done = person.types("service", "install", PATH=str(tmp_path))

    assert done.returncode == 1
    assert "there is no systemctl here" in done.stderr
    assert "crossclaw gateway run" in done.stderr

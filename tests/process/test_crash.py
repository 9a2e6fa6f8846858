"""A whole gateway under load, killed again and again: nothing is lost, doubled or torn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.size import share

ROOT = Path(__file__).parents[2]
BUILDS = ("hasty", "forgetful", "careless", "torn", "pushing", "gossiping", "eager")
"""`make crash` tries them all."""


def crash(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.crash", "--seed", "7", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.spec("B1", "B2")
@pytest.mark.timeout(120)
def test_nothing_is_lost_doubled_or_torn_by_kills() -> None:
    done = crash("--kills", "6", "--no-control")

    assert done.returncode == 0, done.stdout + done.stderr
    nothing = "0 lost, 0 doubled, 0 torn, 0 order, 0 stuck, 0 untrue, 0 trouble"
    assert done.stdout.count(nothing) == 2  # the gateway, and the real gateway


@pytest.mark.spec("B1")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("build", list(share(BUILDS, 4)))
def test_a_build_that_breaks_its_promise_is_caught(build: str) -> None:
    done = crash("--control", build)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"control {build}: caught" in done.stdout


@pytest.mark.spec("B1", "K3")
@pytest.mark.timeout(120)
def test_every_tick_of_a_job_runs_once_or_is_told_as_missed() -> None:
    command = [sys.executable, "-m", "tests.crash.ticks", "--seed", "7", "--kills", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings; a build in two steps gives" in done.stdout

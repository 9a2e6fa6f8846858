"""Strangers and guesses beside a client that works: its turns take less than twice their time."""

import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from tests.process.program import Client, Folder, Program
from tests.proof.size import FULL

pytestmark = pytest.mark.timed

STRANGERS, GUESSES, SECONDS = (10_000, 100, 30) if FULL else (200, 20, 2)
ROOT = Path(__file__).parents[2]


@contextmanager
def besieged(gateway: Program) -> Generator[subprocess.Popen[str]]:
    words = [str(each) for each in (gateway.port, STRANGERS, GUESSES, SECONDS)]
    command = [sys.executable, "-m", "tests.proof.siege", *words]
    siege = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert siege.stdout is not None
        assert siege.stdout.readline().strip() == "it begins"
        yield siege
    finally:
        siege.kill()
        siege.communicate()


def turns(client: Client, seconds: float, key: str) -> list[float]:
    """One after the other, for so long."""
    took, number, until = list[float](), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        began, run_id = time.perf_counter(), f"{key}-{number}"
        client.say(f"agent:main:{key}{number % 10}", "say: yes", run_id)
        assert client.wait(run_id) == "ok"
        took.append(time.perf_counter() - began)
        number += 1
    return took


@pytest.mark.spec("G1")
def test_a_known_clients_turn_takes_less_than_twice_its_time_beside_strangers_and_guesses(
    tmp_path: Path,
) -> None:
    """Measured in turns, quiet and besieged and quiet again: the machine may be busy with something else."""
    with Folder(tmp_path).serve() as gateway, gateway.client() as client:
        turns(client, 1, "warm")
        quiet = turns(client, SECONDS / 3, "before")
        with besieged(gateway) as siege:
            beside = turns(client, SECONDS * 0.9, "beside")
            with gateway.client() as newcomer:  # and whoever shows the secret comes in
                newcomer.say("agent:main:new", "say: yes", "of-the-newcomer")
            said, _ = siege.communicate(timeout=10 * SECONDS)
        quiet += turns(client, SECONDS / 3, "after")
        assert "Traceback" not in gateway.said

    came, at_once = map(int, re.findall(r"(\d+) came, (\d+) at once", said)[0])
    answers = dict(re.findall(r"'(\w+)': (\d+)", said))
    print(
        f"{median(quiet) * 1e3:.1f} ms quiet, {median(beside) * 1e3:.1f} ms beside: {said.strip()}"
    )
    assert came == STRANGERS
    assert at_once > 100
    assert set(answers) <= {"401", "dropped"}
    if FULL:
        assert median(beside) < 2 * median(quiet)

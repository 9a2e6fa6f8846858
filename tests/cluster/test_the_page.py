"""The first five minutes of docs/cluster.md, as printed: two gateways, a message through one that is read through the other."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cluster.server import free_port
from tests.databases import databases

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
LISTENING = "the gateway is at"
UNTIL_BOTH_LISTEN = (
    f"until grep -q '{LISTENING}' ~/0.log && grep -q '{LISTENING}' ~/1.log; do sleep 0.1; done"
)


def as_printed(url: str) -> str:
    """All of it but the kill, which has its own test (test_gateway_processes.py), with this test's database and free ports."""
    blocks = [
        dedent(each) for each in re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    ]
    settings, starts, talk, kill, change = blocks[:5]
    assert "kill -9" in kill
    servers = [f"{line} > ~/{number}.log 2>&1 &" for number, line in enumerate(starts.splitlines())]
    script = "\n".join(
        [
            "set -e",
            "trap 'kill $(jobs -p)' EXIT",
            settings,
            *servers,
            UNTIL_BOTH_LISTEN,
            talk,
            change,
        ]
    )
    known = "postgresql://crossclaw@localhost:5432/crossclaw"
    assert known in script
    for port in ("18789", "18790"):
        script = script.replace(port, str(free_port()))
    return script.replace(known, url)


@pytest.mark.spec("B6")
def test_the_first_five_minutes_work_as_printed(tmp_path: Path) -> None:
    url = databases().url(tmp_path / "ledger")
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "-c", as_printed(url)],
        env={"PATH": programs, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,  # only for a test that fails
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Good day.") == 3, (
        "the reply through a; the message and the reply through b"
    )
    assert '"maxPingPongTurns": 3' in (tmp_path / "b" / "openclaw.json").read_text()

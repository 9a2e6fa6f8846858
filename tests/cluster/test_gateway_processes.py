"""Gateways as programs of their own: one is killed, one is stopped and wakes up late, one is told to end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec
import pytest

from crossclaw.client import connect_async
from crossclaw.client.asynchronous import AsyncGatewayClient
from tests.cluster.server import serving
from tests.databases import databases
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6", "B1"), pytest.mark.anyio]
SOON_S = 60.0  # only for a test that fails
TAKEN_OVER_S = 15.0  # five by the design; the machine may be busy with other tests
KEY = "agent:main:main"


class Program(NamedTuple):
    process: subprocess.Popen[bytes]
    url: str


@contextmanager
def running(folder: Path, url: str, name: str, module: str = "crossclaw") -> Generator[Program]:
    """`crossclaw gateway` with a state folder of its own, on a free port."""
    place = folder / name
    place.mkdir(mode=0o700)
    config = {"ledger": {"shared": True, "gateway": name}, "gateway": {"reload": {"mode": "off"}}}
    (place / "openclaw.json").write_bytes(msgspec.json.encode(config))
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "OPENCLAW_STATE_DIR": str(place / "state"),
        "OPENCLAW_CONFIG_PATH": str(place / "openclaw.json"),
        "OPENCLAW_GATEWAY_TOKEN": TOKEN,
        "CROSSCLAW_LEDGER_URL": url,
    }
    log = (place / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", module, "gateway", "run", "--port", "0"],
        env=environ,
        stdout=log,
        stderr=log,
    )
    try:
        yield Program(process, _address(process, place))
    finally:
        process.kill()
        process.wait(10)
        log.close()


def _address(process: subprocess.Popen[bytes], place: Path) -> str:
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        said = (place / "log").read_text()
        if "the gateway is at " in said:
            return said.split("the gateway is at ")[1].split(";")[0].strip()
        assert process.poll() is None, said
        time.sleep(0.05)
    raise AssertionError((place / "log").read_text())


@asynccontextmanager
async def client_of(program: Program) -> AsyncGenerator[AsyncGatewayClient]:
    async with connect_async(program.url, token=TOKEN, environ={}) as client:
        yield client


async def ended(client: AsyncGatewayClient, run_id: str) -> str:
    params = {"runId": run_id, "timeoutMs": int(SOON_S * 1000)}
    answer = await client.call("agent.wait", params, timeout_s=SOON_S + 10)
    return str(answer["status"])


async def replies(client: AsyncGatewayClient) -> list[str]:
    history = await client.call("chat.history", {"sessionKey": KEY})
    said = [each for each in history["messages"] if each["role"] == "assistant"]
    return [each["content"][0]["text"] for each in said]


async def names(client: AsyncGatewayClient) -> list[str]:
    listed = await client.call("gateways.list")
    return [each["id"] for each in listed["gateways"]]


async def under_way_on(client: AsyncGatewayClient, name: str) -> None:
    with anyio.fail_after(SOON_S):
        while True:
            listed = await client.call("gateways.list")
            if any(each["id"] == name and each["runs"] for each in listed["gateways"]):
                return
            await anyio.sleep(0.05)


async def test_a_run_of_a_gateway_that_is_killed_goes_on_within_seconds(tmp_path: Path) -> None:
    url = databases().url(tmp_path / "ledger")
    with running(tmp_path, url, "a") as a, running(tmp_path, url, "b") as b:
        async with client_of(a) as through_a, client_of(b) as through_b:
            await through_a.submit("wait: 1\nsay: here I am", KEY, key="r1")
            await under_way_on(through_b, "a")
            a.process.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            assert await ended(through_b, "r1") == "ok"
            taken_s = time.monotonic() - killed - 1.0
            assert taken_s < TAKEN_OVER_S, f"taken over after {taken_s:.1f} s"
            print(f"taken over after {taken_s:.1f} s")
            assert await replies(through_b) == ["here I am"], "once"
            assert await names(through_b) == ["b"]


async def test_a_gateway_that_was_stopped_past_its_lease_stores_nothing_and_comes_back(
    tmp_path: Path,
) -> None:
    url = databases().url(tmp_path / "ledger")
    with running(tmp_path, url, "a") as a, running(tmp_path, url, "b") as b:
        async with client_of(a) as through_a, client_of(b) as through_b:
            await through_a.submit("wait: 2\nsay: here I am", KEY, key="r1")
            await under_way_on(through_b, "a")
            a.process.send_signal(signal.SIGSTOP)
            assert await ended(through_b, "r1") == "ok"
            assert await names(through_b) == ["b"]
            a.process.send_signal(signal.SIGCONT)
            with anyio.fail_after(SOON_S):
                while await names(through_b) != ["a", "b"]:  # noqa: ASYNC110  another process
                    await anyio.sleep(0.2)
            assert await replies(through_b) == ["here I am"], "what it still had to say is nowhere"
    assert a.process.returncode == -signal.SIGKILL, "it went on until it was killed here"


async def test_a_gateway_that_is_told_to_end_finishes_and_the_other_goes_on(tmp_path: Path) -> None:
    url = databases().url(tmp_path / "ledger")
    with running(tmp_path, url, "a") as a, running(tmp_path, url, "b") as b:
        async with client_of(a) as through_a, client_of(b) as through_b:
            await through_a.submit("wait: 1\nsay: the last one", KEY, key="r1")
            await under_way_on(through_b, "a")
            a.process.send_signal(signal.SIGTERM)
            assert await ended(through_b, "r1") == "ok"
            assert await replies(through_b) == ["the last one"]
            code = await anyio.to_thread.run_sync(a.process.wait, 40)
            assert code == 0
            with anyio.fail_after(SOON_S):
                while await names(through_b) != ["b"]:  # noqa: ASYNC110  another process
                    await anyio.sleep(0.1)


async def test_a_gateway_whose_database_is_away_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with serving() as server:
        server.make_database("away")
        with running(tmp_path, f"{server.url}/away", "a") as program:
            server.stop(signal.SIGQUIT)
            with anyio.fail_after(SOON_S):
                while "opens anew" not in (tmp_path / "a" / "log").read_text():  # noqa: ASYNC110
                    await anyio.sleep(0.1)
            program.process.terminate()
            assert program.process.wait(SOON_S) == 0


def types(folder: Path, at: Program, *words: str) -> subprocess.CompletedProcess[str]:
    """A command, on a machine that has no gateway of its own."""
    token = folder / "token"
    token.write_text(TOKEN)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "crossclaw",
            *words,
            "--url",
            at.url.replace("http", "ws"),
            "--token-file",
            str(token),
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OPENCLAW_STATE_DIR": str(folder / "none"),
        },
        capture_output=True,
        text=True,
        timeout=SOON_S,
    )


@pytest.mark.spec("C1")
async def test_gateways_are_listed_and_one_is_drained_by_command(tmp_path: Path) -> None:
    url = databases().url(tmp_path / "ledger")
    with running(tmp_path, url, "a") as a, running(tmp_path, url, "b") as b:
        async with client_of(a) as through_a, client_of(b) as through_b:
            await through_a.submit("wait: 2\nsay: the last one", KEY, key="r1")
            await under_way_on(through_b, "a")
            listed = types(tmp_path, b, "gateways", "list")
            assert listed.returncode == 0, listed.stderr
            rows = [line.split() for line in listed.stdout.splitlines() if line.strip()]
            shown = {row[0]: row for row in rows}
            assert shown["a"][1:3] == ["there", "1"], "one run is under way there"
            assert "(this one)" in next(
                line for line in listed.stdout.splitlines() if line.startswith("b")
            )
            unknown = types(tmp_path, b, "gateways", "drain", "nobody")
            assert unknown.returncode != 0
            assert "nobody" in unknown.stderr
            drained = types(tmp_path, b, "gateways", "drain", "a")
            assert drained.returncode == 0, drained.stderr
            assert await ended(through_b, "r1") == "ok"
            assert await replies(through_b) == ["the last one"], "it ended where it was under way"
            code = await anyio.to_thread.run_sync(a.process.wait, 40)
            assert code == 0
            with anyio.fail_after(SOON_S):
                while await names(through_b) != ["b"]:  # noqa: ASYNC110  another process
                    await anyio.sleep(0.1)

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
from tests.ending import SOON_S
from tests.wire.served_gateway import TOKEN

pytestmark = [pytest.mark.spec("B6", "B1"), pytest.mark.anyio]
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


class WithARun(NamedTuple):
    """Two gateways: one has taken the run, and a client of the other one looks on."""

    taker: Program
    taker_name: str
    other: Program
    other_name: str
    through_other: AsyncGatewayClient


@asynccontextmanager
async def two_with_a_run(folder: Path, url: str, text: str) -> AsyncGenerator[WithARun]:
    """Which is which depends on which is faster."""
    with running(folder, url, "a") as a, running(folder, url, "b") as b:
        async with client_of(a) as through_a, client_of(b) as through_b:
            await through_a.submit(text, KEY, key="r1")
            if await taken_by(through_b) == "a":
                yield WithARun(a, "a", b, "b", through_b)
            else:
                yield WithARun(b, "b", a, "a", through_a)


async def until_only(client: AsyncGatewayClient, name: str) -> None:
    with anyio.fail_after(SOON_S):
        while await names(client) != [name]:  # noqa: ASYNC110  another process
            await anyio.sleep(0.1)


async def taken_by(client: AsyncGatewayClient) -> str:
    with anyio.fail_after(SOON_S):
        while True:
            listed = await client.call("gateways.list")
            for each in listed["gateways"]:
                if each["runs"]:
                    return str(each["id"])
            await anyio.sleep(0.05)


async def test_a_run_of_a_gateway_that_is_killed_goes_on_elsewhere(
    tmp_path: Path, url: str
) -> None:
    """How soon is measured by make cluster-bench."""
    async with two_with_a_run(tmp_path, url, "wait: 2\nsay: here I am") as pair:
        taker, other, name = pair.taker, pair.through_other, pair.other_name
        taker.process.send_signal(signal.SIGKILL)
        assert await ended(other, "r1") == "ok"
        assert await replies(other) == ["here I am"], "once"
        assert await names(other) == [name]


async def test_a_gateway_that_was_stopped_past_its_lease_stores_nothing_and_comes_back(
    tmp_path: Path, url: str
) -> None:
    async with two_with_a_run(tmp_path, url, "wait: 2\nsay: here I am") as pair:
        taker, other, name = pair.taker, pair.through_other, pair.other_name
        taker.process.send_signal(signal.SIGSTOP)
        assert await ended(other, "r1") == "ok"
        assert await names(other) == [name]
        taker.process.send_signal(signal.SIGCONT)
        with anyio.fail_after(SOON_S):
            while await names(other) != ["a", "b"]:  # noqa: ASYNC110  another process
                await anyio.sleep(0.2)
        assert await replies(other) == ["here I am"], "what it still had to say is nowhere"
    assert taker.process.returncode == -signal.SIGKILL, "it went on until it was killed here"


async def test_a_gateway_that_is_told_to_end_finishes_and_the_other_goes_on(
    tmp_path: Path, url: str
) -> None:
    async with two_with_a_run(tmp_path, url, "wait: 2\nsay: the last one") as pair:
        taker, other, name = pair.taker, pair.through_other, pair.other_name
        taker.process.send_signal(signal.SIGTERM)
        assert await ended(other, "r1") == "ok"
        assert await replies(other) == ["the last one"]
        assert await anyio.to_thread.run_sync(taker.process.wait, SOON_S) == 0
        await until_only(other, name)


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
async def test_gateways_are_listed_and_one_is_drained_by_command(tmp_path: Path, url: str) -> None:
    text = "wait: 6\nsay: the last one"  # still under way when the command has listed it
    async with two_with_a_run(tmp_path, url, text) as pair:
        taker, other, name = pair.taker, pair.through_other, pair.other_name
        listed = types(tmp_path, pair.other, "gateways", "list")
        assert listed.returncode == 0, listed.stderr
        rows = [line.split() for line in listed.stdout.splitlines() if line.strip()]
        shown = {row[0]: row for row in rows}
        assert shown[pair.taker_name][1:3] == ["there", "1"], "one run is under way there"
        assert "(this one)" in next(
            line for line in listed.stdout.splitlines() if line.startswith(name)
        )
        unknown = types(tmp_path, pair.other, "gateways", "drain", "nobody")
        assert unknown.returncode != 0
        assert "nobody" in unknown.stderr
        drained = types(tmp_path, pair.other, "gateways", "drain", pair.taker_name)
        assert drained.returncode == 0, drained.stderr
        assert await ended(other, "r1") == "ok"
        assert await replies(other) == ["the last one"], "it ended where it was under way"
        assert await anyio.to_thread.run_sync(taker.process.wait, SOON_S) == 0
        await until_only(other, name)

"""Served: a gateway in a process of its own, started as anybody would start it."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.ending import bury

from bench import reference
from bench.memory import resident_mb
from crossclaw.config import Paths

COMMAND = Path(sys.executable).with_name("crossclaw")
TOKEN = "a-token-of-the-benchmarks-that-is-long-enough"
START_S_MAX = 20.0
LOOK_S = 0.002  # between two looks whether it is there: well below what a start takes
_TICKS = os.sysconf("SC_CLK_TCK")

Config = dict[str, Any]


class Served(msgspec.Struct, frozen=True):
    port: int
    pid: int
    started_s: float
    """The time from the command to the first answer that it is well."""

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def resident_mb(self) -> float:
        return resident_mb(self.pid)

    def cpu_s(self) -> float:
        """The CPU time of all its threads since it began, as the kernel counts: in hundredths of a second."""
        stat = Path(f"/proc/{self.pid}/stat").read_text("ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / _TICKS


@contextmanager
def served(paths: Paths, config: Config | None = None) -> Generator[Served]:
    port = _free_port()
    paths.config_path.write_bytes(msgspec.json.encode(config or {}))
    log_path = paths.home / "gateway.log"
    began = time.perf_counter()
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [COMMAND, "gateway", "--port", str(port)],
            env=_environment(paths),
            stdout=log,
            stderr=log,
        )
    try:
        if not _gets_well(process, port):
            raise RuntimeError(f"the gateway did not start: {log_path.read_text()}")
        yield Served(port, process.pid, time.perf_counter() - began)
    finally:
        process.terminate()
        bury(process)


def _environment(paths: Paths) -> dict[str, str]:
    """The environment without the keys of whoever runs this: everybody's model is the scripted one, or the
    config's."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(paths.home),
        "OPENCLAW_STATE_DIR": str(paths.state_dir),
        "OPENCLAW_CONFIG_PATH": str(paths.config_path),
        "OPENCLAW_GATEWAY_TOKEN": TOKEN,
    }


def _gets_well(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.perf_counter() + START_S_MAX
    while process.poll() is None and time.perf_counter() < deadline:
        if _is_well(port):
            return True
        time.sleep(LOOK_S)
    return False


def _is_well(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S_MAX)
    with suppress(ConnectionError):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def instant_model() -> Generator[Config]:
    """A config whose model answers at once over HTTP."""
    with instant_model_url() as url:
        yield _config(url)


@contextmanager
def instant_model_url() -> Generator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.model"],
        cwd=reference.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def _config(url: str) -> Config:
    provider = {"baseUrl": url, "apiKey": "none", "models": [{"id": "instant"}]}
    return {
        "models": {"providers": {"bench": provider}},
        "agents": {"defaults": {"model": "bench/instant"}},
    }

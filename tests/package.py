"""The wheel, as people get it: built, installed by pip, pipx and uv into clean places, and used. `make package`."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ending import bury

ROOT = Path(__file__).parents[1]
EXTRAS = "channels,mcp,metrics,models,otel,pdf,pictures,postgres,prices,terminal,web"
CORE_MB_MAX, RUN_MB_MAX = 60, 100
STARTED_S = 30  # far more than a start takes; only for one that never comes


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipx and uv in a place of their own."""
    folder = tmp_path_factory.mktemp("installers")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    _run(folder / "bin" / "pip", "install", "--quiet", "pipx", "uv")
    return folder / "bin"


def _run(*command: str | Path, **environ: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True, text=True, check=False, cwd="/", env=_clean() | environ,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _clean() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL"))
    }


def test_the_wheel_has_the_page_the_migrations_and_nothing_of_the_workshop(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    for needed in (
        "web/index.html",
        "web/app.js",
        "web/style.css",
        "sandbox/etc/",
        "py.typed",
        "display/locale/es/",
    ):
        assert any(name.startswith(f"crossclaw/{needed}") for name in names), needed
    packed = {Path(name).name for name in names if "/migrations/" in name}
    written = {path.name for path in ROOT.glob("src/crossclaw/ledger/*/migrations/*.sql")}
    assert written <= packed
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


@pytest.fixture(params=["pip", "pipx", "uv"])
def command(
    request: pytest.FixtureRequest, wheel: Path, installers: Path, tmp_path: Path
) -> Iterator[Path]:
    """The installed command, by each of the three ways."""
    wanted = f"{wheel}[{EXTRAS}]"
    if request.param == "pip":
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
        _run(tmp_path / "venv/bin/pip", "install", "--quiet", wanted)
        yield tmp_path / "venv/bin/crossclaw"
    elif request.param == "pipx":
        places = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
        _run(installers / "pipx", "install", "--python", sys.executable, wanted, **places)
        yield tmp_path / "bin/crossclaw"
    else:
        places = {"UV_TOOL_DIR": str(tmp_path / "home"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
        _run(installers / "uv", "tool", "install", "--python", sys.executable, wanted, **places)
        yield tmp_path / "bin/crossclaw"
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_installed_it_serves_its_page_and_answers(command: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    environ = {"HOME": str(tmp_path), "OPENCLAW_GATEWAY_PORT": port}
    gateway = subprocess.Popen(
        [command, "run"], cwd="/", env=_clean() | environ, stdout=subprocess.DEVNULL
    )
    try:
        assert b"<script" in _page(port)
        told = json.loads(_run(command, "message", "send", "say: packed", "--json", **environ))
        assert "packed" in json.dumps(told)
        _run(command, "doctor", **environ)
    finally:
        gateway.terminate()
        bury(gateway)


def test_the_core_alone_is_small_and_answers(wheel: Path, tmp_path: Path) -> None:
    """As pip leaves it, with everything compiled; pip itself is not counted."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True
    )
    into = ("--python", str(tmp_path / "venv/bin/python"))
    _run(sys.executable, "-m", "pip", *into, "install", "--quiet", wheel)
    environ = {"HOME": str(tmp_path), "OPENCLAW_GATEWAY_PORT": "1"}
    told = _run(tmp_path / "venv/bin/crossclaw", "message", "send", "say: small", **environ)

    assert told == "small\n"
    assert _megabytes(tmp_path / "venv") <= CORE_MB_MAX


def test_what_make_run_installs_is_small(tmp_path: Path) -> None:
    lock = ROOT / "requirements-run.lock"
    installed = subprocess.run(
        [sys.executable, str(ROOT / "dev/install.py"), str(tmp_path / "venv"), str(lock)],
        cwd=ROOT, capture_output=True, text=True, check=False, env=_clean(),
    )  # fmt: skip
    assert installed.returncode == 0, installed.stdout
    environ = {"HOME": str(tmp_path), "OPENCLAW_GATEWAY_PORT": "1"}
    told = _run(tmp_path / "venv/bin/crossclaw", "message", "send", "say: small", **environ)

    assert told == "small\n"
    assert _megabytes(tmp_path / "venv") <= RUN_MB_MAX


def _megabytes(folder: Path) -> float:
    """As the disk counts it."""
    found = [path.lstat() for path in folder.rglob("*") if not path.is_dir()]
    return sum(each.st_blocks for each in found) * 512 / 1e6


def _page(port: str) -> bytes:
    """Waits for the gateway to come up."""
    end = time.monotonic() + STARTED_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
                return bytes(page.read())
        except OSError:
            assert time.monotonic() < end, "the gateway did not come up"
            time.sleep(0.1)

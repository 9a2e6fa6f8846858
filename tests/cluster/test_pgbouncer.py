"""A real PgBouncer between the gateway and its database; Debian's, where it is installed (apt: pgbouncer)."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from crossclaw.domain.errors import StoreError
from crossclaw.ledger.opening import open_ledger
from tests.cluster.server import free_port
from tests.databases import databases
from tests.ledger.making import submit

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        PROGRAM is None and not os.environ.get("CI"), reason="PgBouncer is not installed here"
    ),
]


@contextmanager
def pooling(url: str, mode: str) -> Generator[str]:
    parts, port = urlsplit(url), free_port()
    folder = Path(tempfile.mkdtemp(prefix="crossclaw-pgbouncer-"))
    folder.chmod(0o755)
    (folder / "users").write_text('"crossclaw" ""\n')
    (folder / "settings").write_text(
        f"[databases]\n* = host=127.0.0.1 port={parts.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = trust\nauth_file = {folder}/users\npool_mode = {mode}\nunix_socket_dir =\n"
    )
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    program = subprocess.Popen(
        [str(PROGRAM), "-q", str(folder / "settings")],
        user=user,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield url.replace(f":{parts.port}/", f":{port}/")
    finally:
        program.kill()
        program.wait()
        shutil.rmtree(folder)


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert time.monotonic() < until, "PgBouncer has not come up"
            time.sleep(0.05)


@pytest.mark.parametrize("shared", [False, True])
async def test_by_transaction_the_gateway_does_not_start_and_says_what_to_do(
    tmp_path: Path, shared: bool
) -> None:
    with pooling(databases().url(tmp_path / "ledger"), "transaction") as url:
        for _ in range(2):  # also when an earlier try has left something behind
            with pytest.raises(StoreError, match="pool_mode = session"):
                open_ledger(tmp_path / "l.sqlite", url=url, shared=shared)


async def test_by_session_it_works(tmp_path: Path) -> None:
    with pooling(databases().url(tmp_path / "ledger"), "session") as url:
        ledger = open_ledger(tmp_path / "l.sqlite", url=url)
        try:
            await submit(ledger, "r1")
            assert await ledger.find_run("r1") is not None
        finally:
            await ledger.close()

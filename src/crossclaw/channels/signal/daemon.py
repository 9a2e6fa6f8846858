"""The daemon that the gateway starts itself: it lives as long as the account is served."""

import shutil
import subprocess

import anyio
import anyio.abc

from crossclaw.channels.signal.client import SignalClient
from crossclaw.channels.signal.settings import SignalSettings
from crossclaw.domain.errors import AccountBroken, ChannelDown

LOOK_AGAIN_S = 0.2
STOP_S = 5.0


def command(settings: SignalSettings, number: str, program: str) -> list[str]:
    words = [
        program,
        "-a",
        number,
        "daemon",
        "--http",
        f"{settings.http_host}:{settings.http_port}",
    ]
    words += ["--no-receive-stdout", "--receive-mode", settings.receive_mode]
    words += ["--ignore-attachments"] if settings.ignore_attachments else []
    words += ["--ignore-stories"] if settings.ignore_stories else []
    words += ["--send-read-receipts"] if settings.send_read_receipts else []
    return words


async def run_daemon(
    settings: SignalSettings,
    number: str,
    client: SignalClient,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    program = shutil.which(settings.cli_path)
    if program is None:
        raise AccountBroken(
            f"{settings.cli_path} is not installed; install signal-cli, or say by channels.signal.httpUrl "
            "where its daemon runs"
        )
    process = await anyio.open_process(
        command(settings, number, program),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await _wait_ready(settings, client, process)
        task_status.started()
        code = await process.wait()
        raise ChannelDown(f"signal-cli ended with code {code}")
    finally:
        with anyio.CancelScope(shield=True):
            await _stop(process)


async def _wait_ready(
    settings: SignalSettings, client: SignalClient, process: anyio.abc.Process
) -> None:
    with anyio.move_on_after(settings.startup_timeout_ms / 1000):
        while process.returncode is None:
            try:
                await client.call("version", {})
            except ChannelDown:
                await anyio.sleep(LOOK_AGAIN_S)
            else:
                return
    if process.returncode is not None:
        raise AccountBroken(
            f"signal-cli ended at once with code {process.returncode}; "
            f"try it by hand: {' '.join(command(settings, '<number>', settings.cli_path))}"
        )
    raise ChannelDown(f"signal-cli did not start in {settings.startup_timeout_ms / 1000:.0f} s")


async def _stop(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        process.terminate()
        with anyio.move_on_after(STOP_S):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()

"""Programs: starts them, reads their output, and ends them with everything they started.

A program runs below a keeper (`keeper.py`), which adopts what it leaves behind and ends it, also
when the gateway is gone, however it went. Inside a sandbox the whole process namespace ends with
it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from crossclaw.domain.aliases import Tell
from crossclaw.domain.errors import ToolFailed
from crossclaw.sandbox import keeper
from crossclaw.sandbox.contract import CommandLimits, Wrapped
from crossclaw.sandbox.seccomp import with_filter

KEPT_BYTES = 100_000  # of a command's output, half from its beginning: what a model can use
OUTPUT_BYTES_MAX = 64 * 1024 * 1024  # a command that says more than this has lost its way
PROGRESS_S = 0.25  # between two signs of life
PROGRESS_CHARS = 2_000
ENDING_S = 10.0  # a keeper takes half a second at most; a machine under load may take more
LEFTOVER_S = 1.0  # for output still in the pipe when all is over


class Finished(msgspec.Struct, frozen=True):
    output: str
    exit_code: int | None
    """The exit code; None if it did not end by itself."""
    ended_because: str = ""


async def run_program(wrapped: Wrapped, timeout_s: float, tell: Tell) -> Finished:
    process = await _start(wrapped)
    heard = _Output(tell)
    code, because = None, f"it was ended after {timeout_s:g} s"
    try:
        with anyio.move_on_after(timeout_s):
            code, because = await _listen(process, heard)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, heard)
    return Finished(heard.text(), code, because)


def kept(
    command: Sequence[str], limits: CommandLimits | None = None, disk: Path = Path("/")
) -> list[str]:
    """The command below a keeper, which ends it if this process is gone."""
    # -S: nothing of an environment's packages is needed, and looking for them takes time.
    python = [sys.executable, "-I", "-S", keeper.__file__]
    return [*python, str(os.getpid()), limits.as_text(disk) if limits else "", *command]


async def _start(wrapped: Wrapped) -> anyio.abc.Process:
    try:
        # Not to be cancelled half way: a keeper that is killed ends nothing but the command.
        with (
            anyio.CancelScope(shield=True),
            with_filter(wrapped.argv, wrapped.seccomp) as (argv, files),
        ):
            process = await anyio.open_process(
                kept(argv, wrapped.limits, wrapped.disk),
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=wrapped.folder,
                env=wrapped.environ,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise ToolFailed(f"the command cannot be started: {error}") from None
    return process


async def _listen(process: anyio.abc.Process, heard: "_Output") -> tuple[int | None, str]:
    """Reads output until the command ends; what it left running does not count. Returns the exit
    code, or why there is none."""
    code: int | None = None

    async def await_end() -> None:
        nonlocal code
        code = await process.wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(await_end, name="end of a command")
        await heard.read(process, OUTPUT_BYTES_MAX)
        if heard.size > OUTPUT_BYTES_MAX:
            tasks.cancel_scope.cancel()
    if heard.size > OUTPUT_BYTES_MAX:
        return None, f"it was ended after {OUTPUT_BYTES_MAX} bytes of output"
    # A keeper ends by itself with a code; only somebody else ends it by a signal.
    return (code, "") if code is not None and code >= 0 else (None, "it was ended from outside")


async def _end(process: anyio.abc.Process, heard: "_Output") -> None:
    """Ends the program through its keeper. A keeper that does not end is killed with its group,
    which the program is not part of."""
    with suppress(ProcessLookupError):
        process.terminate()
    with anyio.move_on_after(ENDING_S) as patience:
        await process.wait()
    if patience.cancelled_caught:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(LEFTOVER_S):
        await heard.read(process, OUTPUT_BYTES_MAX + KEPT_BYTES)
    await process.aclose()


class _Output:
    """The beginning and the end of a program's output."""

    def __init__(self, tell: Tell) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._tell = tell
        self._reported_at = anyio.current_time()

    async def read(self, process: anyio.abc.Process, bytes_max: int) -> None:
        assert process.stdout is not None
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while self.size <= bytes_max:
                self._take(await process.stdout.receive())

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        room = KEPT_BYTES // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[: max(0, len(self._tail) - KEPT_BYTES // 2)]
        if anyio.current_time() - self._reported_at >= PROGRESS_S:
            self._reported_at = anyio.current_time()
            self._tell(self.text()[-PROGRESS_CHARS:])

    def text(self) -> str:
        left_out = self.size - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", "replace")

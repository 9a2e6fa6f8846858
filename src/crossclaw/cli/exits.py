"""Exits: the exit codes of commands, and the errors that end one."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNAUTHORIZED = 4
    TIMEOUT = 5
    ABORTED = 6
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: dict[Exit, str] = {
    Exit.OK: "done",
    Exit.FAILED: "the run or the request failed; the reason is on stderr",
    Exit.USAGE: "the command was not understood; nothing was done",
    Exit.UNREACHABLE: "no gateway answered, or the connection broke",
    Exit.UNAUTHORIZED: "the gateway refused the token or the right to do this",
    Exit.TIMEOUT: "the wait was over; the run goes on in the gateway",
    Exit.ABORTED: "somebody else aborted the run",
    Exit.INTERRUPTED: "Ctrl-C; a run under way was aborted",
    Exit.TERMINATED: "stopped by SIGTERM; a run under way was aborted",
}


class CommandFailed(Exception):
    """Ends the command: one text for the person, what to do about it, and the exit code."""

    def __init__(self, text: str, exit_code: Exit = Exit.FAILED, *, hint: str | None = None):
        super().__init__(text)
        self.exit_code = exit_code
        self.hint = hint


class UsageError(CommandFailed):
    def __init__(self, text: str, *, hint: str | None = None) -> None:
        super().__init__(text, Exit.USAGE, hint=hint)


def exit_table() -> str:
    return "\n".join(f"  {code.value:>3}  {MEANINGS[code]}" for code in Exit)

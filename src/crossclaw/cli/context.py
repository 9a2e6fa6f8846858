"""Context files: text that travels with a message, fenced and named, so that no file can end its fence.

All files are read and checked before anything is sent.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from crossclaw.cli.exits import UsageError

FILE_BYTES_MAX = 256 * 1024  # about 60,000 tokens: more drowns the question
ALL_BYTES_MAX = 1024 * 1024  # what still fits the largest windows
FILES_MAX = 64  # a folder given by a stray * would otherwise be read to the end

_FENCE_RUN = re.compile(r"`{3,}")
_UNSAFE = re.compile(r"[^\w.\-/ ]")


def with_context(message: str, files: Sequence[str]) -> str:
    if not files:
        return message
    if len(files) > FILES_MAX:
        raise UsageError(f"{len(files)} context files; at most {FILES_MAX} travel with a message")
    texts = [(name, read_context(name)) for name in files]
    total = sum(len(text.encode()) for _, text in texts)
    if total > ALL_BYTES_MAX:
        raise UsageError(
            f"the context files have {total:,} bytes together; at most {ALL_BYTES_MAX:,} travel"
            " with a message. Nothing was sent."
        )
    return "\n\n".join([message, *(fenced(name, text) for name, text in texts)])


def read_context(name: str) -> str:
    try:
        with open(name, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _refused(name, (error.strerror or str(error)).lower()) from None
    if len(data) > FILE_BYTES_MAX:
        size = Path(name).stat().st_size
        raise _refused(name, f"{size:,} bytes; a context file has at most {FILE_BYTES_MAX:,}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(name, "not UTF-8 text") from None
    if "\0" in text:
        raise _refused(name, "binary, not text")
    return text


def fenced(name: str, text: str) -> str:
    """The text in a fence that is longer than any in it."""
    longest = max((len(run) for run in _FENCE_RUN.findall(text)), default=2)
    fence = "`" * (longest + 1)
    ending = "" if text.endswith("\n") or not text else "\n"
    return f"Context file {_shown(name)}:\n{fence}\n{text}{ending}{fence}"


def _shown(name: str) -> str:
    """A file's name without line breaks and backticks: others may have chosen it."""
    return "`" + _UNSAFE.sub("_", name) + "`"


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"--context {name}: {why}. Nothing was sent.")

"""A crash in virtual time: what a kill -9 leaves is what the files hold at that moment."""

from pathlib import Path

from tests.stores import copy_state


def crashed_copy(folder: Path, name: str = "after the crash") -> Path:
    """The folder as another process would find it now. The gateway in `folder` knows nothing of it."""
    return copy_state(folder, folder.parent / name)

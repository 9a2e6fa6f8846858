"""A crash in virtual time: what a kill -9 leaves is what the files hold at that moment."""

import shutil
from pathlib import Path


def crashed_copy(folder: Path, name: str = "after the crash") -> Path:
    """The folder as another process would find it now. The house in `folder` knows nothing of it."""
    copy = folder.parent / name
    shutil.copytree(folder, copy)
    return copy

"""What gateways leave in the world outside of their store."""

import os
from pathlib import Path


class WorldFile:
    """Lines of all gateways, in the order in which they were written."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())

"""A gateway in a process of its own, which reports how much memory it holds: idle, then after load."""

import sys
from pathlib import Path

import anyio

from bench.guests import PLAIN, keys, opened, talk
from bench.memory import resident_mb
from crossclaw.config import Paths

SESSIONS, TURNS_EACH = 1_000, 3


async def main(folder: Path) -> None:
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    async with opened(paths) as gateway:
        print(resident_mb())
        await talk(gateway, keys(SESSIONS), TURNS_EACH, PLAIN)
        print(resident_mb())


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))

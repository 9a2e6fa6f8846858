"""`make cluster`: a server of our own, every test that opens a ledger, and a sample of the crash rig.

`ARGS="tests/ledger -x"`: only there, without the sample. An option with a value is one word (`-n0`, `--timeout=60`).
"""

import os
import subprocess
import sys
import time

from tests.cluster.left_out import FOLDERS_LEFT_OUT, LEFT_OUT
from tests.cluster.only_ledgers import FOLDERS
from tests.cluster.server import NoServer, serving

KILLS = 20


def main() -> int:
    began = time.monotonic()
    try:
        with serving() as server:
            environ = {
                **os.environ,
                "CROSSCLAW_CLUSTER": server.url,
                "CROSSCLAW_BACKENDS": "asyncio",
            }
            tests = [
                "-m",
                "pytest",
                "-q",
                "-n",
                "3",
                "--dist",
                "worksteal",
                "-p",
                "tests.cluster.only_ledgers",
            ]
            options = [each for each in sys.argv[1:] if each.startswith("-")]
            places = [each for each in sys.argv[1:] if not each.startswith("-")]
            tests += [*options, *(places or FOLDERS)]
            red = subprocess.run([sys.executable, *tests], env=environ).returncode
            if not places:
                crash = ["-m", "tests.crash", "--kills", str(KILLS), "--no-control"]
                crash += ["--only", "in process"]
                red |= subprocess.run([sys.executable, *crash], env=environ).returncode
    except NoServer as missing:
        print(missing)
        return 1
    left_out = LEFT_OUT | FOLDERS_LEFT_OUT
    print(f"\nleft out on PostgreSQL, {len(left_out)} places:")
    for place, why in left_out.items():
        print(f"  {place}: {why}")
    print(f"\nmake cluster: {'FAILED' if red else 'passed'} in {time.monotonic() - began:.0f} s")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main())

"""An instant model in a process of its own, so that its CPU time is not taken for the gateway's.

It says where it listens and serves until its input ends.
"""

import sys

from crossclaw.testing import FakeModelServer


def main() -> None:
    with FakeModelServer(default="It is a fine day for a walk.") as server:
        print(server.openai_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

"""`make conformance`: OpenClaw's own clients and two SDKs against a live gateway; prints what passed."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from tests.conformance.asking import closing
from tests.conformance.clients import PROGRAM, Check, Gateway, checks
from tests.conformance.control_ui import PORT
from tests.conformance.installing import install, package
from tests.conformance.published import Published, gaps, unseen
from tests.conformance.recording import Recording
from tests.ending import bury

TOKEN = "conformance-token-0123456789-abcdefghij"
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@contextmanager
def crossclaw(folder: Path) -> Generator[tuple[int, Callable[[], None]]]:
    """A gateway on a free port, with the rehearsal model, and how to end it."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    origins = {"allowedOrigins": [f"http://127.0.0.1:{PORT}"]}
    watching = {"id": "watcher", "heartbeat": {"every": "5s", "prompt": "say: HEARTBEAT_OK"}}
    config = {
        # Changing its config must not cut the others who are being listened to.
        "gateway": {
            "auth": {"token": TOKEN},
            "controlUi": origins,
            "reload": {"mode": "off"},
            "guests": {"sessions": {"*": ["main"]}},
        },
        "agents": {"list": [{"id": "main", "default": True}, watching]},
    }
    (state / "openclaw.json").write_text(json.dumps(config), "utf-8")
    log = folder / "gateway.log"
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENCLAW_STATE_DIR": str(state)}
    with log.open("wb") as file:
        command = [str(PROGRAM), "gateway", "--port", "0"]
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environ)
    try:
        while (found := ADDRESS.search(log.read_text("utf-8"))) is None:
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.05)
        yield int(found.group(1)), process.terminate
    finally:
        process.terminate()
        bury(process)


async def run_all(wanted: str) -> bool:
    passed = True
    with tempfile.TemporaryDirectory() as name, crossclaw(Path(name)) as (port, stop):
        recording = Recording(port)
        async with recording.serve() as proxy:
            gateway = Gateway(Path(name), proxy, port, TOKEN)
            for title, check in checks().items():
                if wanted in title:
                    passed &= await _tell(title, check, gateway)
            passed &= await _tell(
                "the gateway says that it closes", partial(closing, stop), gateway
            )
    return _tell_frames(recording, whole=not wanted) and passed


async def _tell(title: str, check: Check, gateway: Gateway) -> bool:
    began = time.monotonic()
    try:
        await anyio.to_thread.run_sync(check, gateway)
        problem = ""
    except Exception as error:  # noqa: BLE001  one client's failure must not hide the others
        problem = f"{type(error).__name__}: {error}"
    took = time.monotonic() - began
    print(f"{'FAILED' if problem else 'passed'}  {took:5.1f} s  {title}", flush=True)
    if problem:
        print(f"        {problem[:1500]}", flush=True)
    return not problem


def _tell_frames(recording: Recording, *, whole: bool) -> bool:
    schema = package("new", "@openclaw/gateway-protocol") / "protocol.schema.json"
    published = Published(schema)
    published.check_frames(recording.frames)
    lost, missing = gaps(recording.frames), unseen(recording.frames) if whole else []
    for (definition, place, message), count in published.violations.most_common():
        print(f"        {count} × {definition} at {place or 'root'}: {message}")
    for gap in lost:
        print(f"        a gap in seq: {gap}")
    for name in missing:
        print(f"        offered and not on record: {name}")
    checked = sum(published.checked.values())
    violations = sum(published.violations.values())
    fine = not violations and not lost and not missing
    verdict = "passed" if fine else "FAILED"
    print(
        f"{verdict}           {len(recording.frames)} frames; {checked} checks against "
        f"{len(published.checked)} published definitions: {violations} violations"
    )
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="checks whose title has these")
    arguments = parser.parse_args()
    install()
    return 0 if anyio.run(run_all, arguments.only) else 1


if __name__ == "__main__":
    sys.exit(main())

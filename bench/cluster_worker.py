"""A gateway of the benchmark, in a process of its own: takes turns when asked, and reports how many it took a
second."""

import sys
import time
from pathlib import Path

import anyio
import msgspec

from bench.guests import Echo, talk
from crossclaw.app import GatewayInputs, open_gateway
from crossclaw.config import Config, Paths
from crossclaw.config.ledger import URL_VARIABLE
from crossclaw.domain.keys import SessionKey


async def work(folder: Path, url: str, name: str, sessions: int, turns: int, text: str) -> None:
    """Runs the turns. `url` may be empty: a file then. `name` may be: alone then."""
    raw = {"ledger": {"shared": True, "gateway": name}} if name else {}
    paths = Paths(home=folder, state_dir=folder / "state", config_path=folder / "openclaw.json")
    outside = GatewayInputs(environ={URL_VARIABLE: url} if url else {}, tools=(Echo(),))
    keys = [SessionKey.named("main", f"bench-{name}-{number}") for number in range(sessions)]
    async with open_gateway(msgspec.convert(raw, Config), paths, outside) as gateway:
        await anyio.sleep(1.5 if name else 0.0)  # it has compared its config with the others'
        await talk(gateway, keys, 1, text)
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)
        began, cpu = time.perf_counter(), time.process_time()
        await talk(gateway, keys, turns // sessions, text)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        print(turns // sessions * sessions / seconds, cpu / turns * 1000, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)


if __name__ == "__main__":
    place, url, name, sessions, turns, text = sys.argv[1:]
    anyio.run(work, Path(place), url, name, int(sessions), int(turns), text.replace("|", "\n"))

"""One chat.send through a live gateway, call by call: which rooms it crosses, and by which functions.

`make walk` prints it. A change of room is two calls in a row, in the order in which they happen, whose files
lie in different packages of `crossclaw`. Counted are beginnings of functions, not their going on after an
await, each thread's in its own order, from the frame that brings the message to the frame that brings the final reply. The
watchdog is left out: it measures every turn of the event loop, whatever is done in it.
"""

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import msgspec

import crossclaw
from tests.wire.served_gateway import serve_gateway
from tests.wire.serving import Peer, connect_params, dial

SOURCE = str(Path(crossclaw.__file__).parent)
KEY = "agent:main:walk"
WARM = 3  # what only the first message of a session or a process needs is not the way of a message
CHANGES_MAX = 120  # of room; a tour that takes more is one in which people get lost
WALKS_MAX = 12  # on a busy machine a timer falls into most of them
RESUME_AT = 1  # the operand of a RESUME; 0 where a function begins
NOT_ON_THE_WAY = ("gateway/watchdog.py",)


class Call(msgspec.Struct, frozen=True):
    room: str
    file: str
    name: str
    thread: str

    @property
    def shown(self) -> str:
        return f"{self.file} {self.name}"


class Walk(msgspec.Struct, frozen=True):
    calls: list[Call]

    @property
    def rooms(self) -> Counter[str]:
        return Counter(call.room for call in self.calls)

    @property
    def files(self) -> set[str]:
        return {call.file for call in self.calls}

    @property
    def stretches(self) -> list[list[Call]]:
        """Calls in a row within one room, in the order in which they began; threads side by side."""
        found: list[list[Call]] = []
        latest: dict[str, list[Call]] = {}
        for call in self.calls:
            here = latest.get(call.thread)
            if here is not None and here[-1].room == call.room:
                here.append(call)
            else:
                latest[call.thread] = [call]
                found.append(latest[call.thread])
        return found

    @property
    def changes(self) -> int:
        return len(self.stretches) - len({call.thread for call in self.calls})


class Watch:
    """Notes the beginning of every function of `crossclaw` while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.calls: list[Call] = []
        self._known: dict[Any, tuple[str, str, str] | None] = {}

    def profile(self, frame: FrameType, event: str, _arg: Any) -> None:
        if not self.on or event != "call":
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _place(frame)
        place = self._known[code]
        if place is not None and not code.co_code[frame.f_lasti + RESUME_AT] & 3:
            self.calls.append(Call(*place, threading.current_thread().name))

    @contextmanager
    def watching(self) -> Generator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


def _place(frame: FrameType) -> tuple[str, str, str] | None:
    name = frame.f_code.co_filename
    if not name.startswith(SOURCE):
        return None
    file = name[len(SOURCE) + 1 :]
    if file in NOT_ON_THE_WAY:
        return None
    room = file.partition("/")[0]
    return room, file, frame.f_code.co_qualname


async def _turn(peer: Peer, number: int) -> None:
    params = {"sessionKey": KEY, "message": f"say: {number}", "idempotencyKey": f"walk-{number}"}
    await peer.socket.send(
        msgspec.json.encode(
            {"type": "req", "id": f"w{number}", "method": "chat.send", "params": params}
        ).decode()
    )
    while True:
        frame = await peer.next()
        if frame.get("event") == "chat" and frame["payload"]["state"] == "final":
            return


async def walk(folder: Path) -> Walk:
    """The first that is short enough, else the shortest: a sweep or a tick that falls into one of them is not part
    of the way."""
    watch, found = Watch(), list[Walk]()
    threading.setprofile(watch.profile)
    sys.setprofile(watch.profile)
    try:
        async with serve_gateway(folder) as served, dial(served) as peer:
            await peer.next()
            await peer.ask("connect", connect_params())
            for number in range(WARM):
                await _turn(peer, number)
            for number in range(WARM, WARM + WALKS_MAX):
                await anyio.sleep(0.2)  # what the turn before has left to do is not this one's
                watch.calls = []
                with watch.watching():
                    await _turn(peer, number)
                found.append(Walk(watch.calls))
                if found[-1].changes <= CHANGES_MAX:
                    break
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return min(found, key=lambda each: each.changes)


def lines(found: Walk) -> Iterator[str]:
    for stretch in found.stretches:
        names = ", ".join(f"{call.file.partition('/')[2]}:{call.name}" for call in stretch)
        yield f"{stretch[0].room:<12} {names}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = anyio.run(walk, Path(folder))
    for line in lines(found):
        print(line)
    print()
    for room, count in found.rooms.most_common():
        files = len({call.file for call in found.calls if call.room == room})
        print(f"{room:<12} {count:>4} calls in {files} files")
    print(
        f"\n{found.changes} changes of room, {len(found.calls)} calls, "
        f"{len(found.rooms)} rooms, {len(found.files)} files"
    )


if __name__ == "__main__":
    main()
